"""Constants of NCCL and RCCL per product generation. Seconds, fractions of a level's large-message rate, bytes/s.

[T] NVIDIA/nccl @5067397 (v2.30.7) src/graph/tuning.cc.
[F] fitted on every second message size (512 B, 2 KiB, ... 128 MiB) of nccl-tests curves of one node at 2, 4 and 8
    ranks, nccl 2.27-2.29 (AIConfigurator nccl_perf tables: A100, H100, B200 SXM); the other sizes check the fit, see
    benchmarks/collectives_accuracy.py. `fraction` values are relative to the `efficiency` of the server preset.
[L] NVIDIA/nccl @01afd20 src/graph/tuning.cc (the same table in 2021; LL step x 1.8 across nodes).
[M] read off nccl-tests curves of 512 B200 (64 nodes, InfiniBand), all sizes seen: 8.5 us per ring step in bulk against
    4.7 us of the table; Simple from 4 KiB per rank on (also on 32 B200 over EFA); NVLSTree 131 GB/s after a start of
    about 850 us; CollNet 175 of 400 GB/s per node.
[R] ROCm/rccl @0cbce2a src/graph/tuning.cc, model 5 (gfx94x).
"""

from __future__ import annotations

from typing import Final

from cann_plan.records import dataclass

US: Final = 1e-6

PROTOCOLS: Final = ("LL", "LL128", "Simple")


TREE_CORRECTION: Final[tuple[tuple[float, ...], ...]] = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9),
)  # fmt: skip
"""Factor on tree bandwidth at 64 B x 2^i, i = 0 .. 23, per protocol [T]."""


@dataclass(frozen=True, slots=True)
class NcclConstants:
    """What the library adds to the links; three-tuples are per protocol LL, LL128, Simple.

    Attributes:
        base: fixed seconds of a ring collective.
        step: seconds per ring step inside a node beyond the latency of the level.
        gather: fraction of the level rate an all-gather or reduce-scatter ring reaches.
        reduce_simple: fraction an all-reduce ring reaches with Simple (LL and LL128 as `gather`).
        own: extra work on the rank's own block, times 1/(p-1) of the traffic.
        nvls: (seconds, fraction) of all-reduce in the switches of one node, None without NVLS.
        nvls_ranks: fewest ranks that use it.
        exchange: ((base, per peer, fraction), ...) of all-to-all and send/receive inside a node.
        exchange_own: as `own`, for all-to-all.
        node_step: seconds per step inside a node while other nodes take part [T].
        host_post: seconds to post a network message, per protocol; a floor of the steps inside a node [T].
        network_extra: seconds per network step beyond the latency of the level, ring [T].
        network_tree_extra: the same in trees [T].
        tree_base, tree_step: base and step inside a node of trees [T].
        ll_spread: factor on the LL step inside a node while other nodes take part [L].
        plateau: factor on the latency of a multi-node Simple ring in mid sizes [T, all-reduce; M, all].
        short_bytes: bytes per rank up to which rings across nodes use LL or LL128 [M].
        bulk: factor on it from `bulk_bytes` per rank on [M].
        network_fraction: share of the ring bus bandwidth across nodes, per protocol [T].
        ll_most: LL bus bandwidth at most, for 1, 2 and 4 or more nodes, bytes/s [T].
        tree_fraction: tree bus bandwidth over ring bus bandwidth, per protocol [T].
        nvls_tree: (base, seconds per tree level [T], fraction of the adapters of a node, fraction of small messages,
            further seconds per tree level until the pipeline is full [M]) or None.
        collnet: (base, per local rank, network latency [T], fraction [M]) of all-reduce in network switches.
    """

    base: tuple[float, float, float]
    step: tuple[float, float, float]
    gather: tuple[float, float, float]
    reduce_simple: float
    own: float
    nvls: tuple[float, float] | None
    exchange: tuple[tuple[float, float, float], ...]
    exchange_own: float
    nvls_ranks: int = 5
    node_step: tuple[float, float, float] = (0.6 * US, 1.9 * US, 3.4 * US)
    host_post: tuple[float, float, float] = (1.0 * US, 1.0 * US, 3.0 * US)
    network_extra: tuple[float, float, float] = (0.0, 1.3 * US, 11.3 * US)  # 2.7, 4.0, 14 us against 2.7 in LL
    network_tree_extra: tuple[float, float, float] = (2.3 * US, 5.8 * US, 11.3 * US)  # 5.0, 8.5, 14 us
    network_base: tuple[float, float, float] = (6.6 * US, 14.0 * US, 8.4 * US)
    tree_base: tuple[float, float, float] = (6.8 * US, 14.0 * US, 8.4 * US)
    tree_step: tuple[float, float, float] = (0.6 * US, 1.25 * US, 4.0 * US)
    ll_spread: float = 1.8
    plateau: float = 1.4
    short_bytes: float = 4096.0
    bulk: float = 1.8
    bulk_bytes: float = 128.0 * 1024.0
    network_fraction: tuple[float, float, float] = (0.5, 0.92, 1.0)
    ll_most: tuple[float, float, float] = (39.0e9, 39.0e9, 20.4e9)
    tree_fraction: tuple[float, float, float] = (1.0 / 3.8, 0.92 * 120.0 / 128.0, 0.92)
    nvls_tree: tuple[float, float, float, float, float] | None = None
    collnet: tuple[float, float, float, float] = (8.4 * US, 0.4 * US, 31.0 * US, 0.5)
    tree_correction: tuple[tuple[float, ...], ...] = TREE_CORRECTION


AMPERE: Final = NcclConstants(
    base=(8.9 * US, 24.3 * US, 27.0 * US),
    step=(0.34 * US, 0.14 * US, 6.3 * US),
    gather=(0.31, 0.80, 1.06),
    reduce_simple=1.19,
    own=0.41,
    nvls=None,
    exchange=((11.7 * US, 0.36 * US, 0.356), (30.0 * US, 0.10 * US, 0.96)),
    exchange_own=0.26,
    ll_most=(87.7e9, 22.5e9, 19.0e9),
)

HOPPER: Final = NcclConstants(
    base=(5.0 * US, 13.6 * US, 15.8 * US),
    step=(0.21 * US, 0.53 * US, 3.5 * US),
    gather=(0.51, 0.98, 1.11),
    reduce_simple=1.33,
    own=0.53,
    nvls=(71.3 * US, 1.37),
    exchange=((6.0 * US, 0.24 * US, 0.022), (12.7 * US, 0.05 * US, 0.88)),
    exchange_own=0.13,
    ll_most=(141.0e9, 45.0e9, 35.0e9),
    nvls_tree=(25.0 * US, 20.9 * US, 0.73, 0.14, 48.0 * US),
)

BLACKWELL: Final = NcclConstants(
    base=(7.9 * US, 18.0 * US, 12.5 * US),
    step=(0.68 * US, 1.5 * US, 6.0 * US),
    gather=(0.45, 0.40, 1.18),
    reduce_simple=1.39,
    own=0.60,
    nvls=(40.0 * US, 0.75),
    exchange=((9.4 * US, 0.19 * US, 0.037), (15.6 * US, 0.48 * US, 0.97)),
    exchange_own=0.77,
    nvls_ranks=6,
    ll_most=(282.0e9, 90.0e9, 70.0e9),
    nvls_tree=(25.0 * US, 20.9 * US, 0.73, 0.14, 48.0 * US),
)

VOLTA: Final = NcclConstants(  # steps and base of [T]; fractions and own inherited from Ampere
    base=(6.6 * US, 14.0 * US, 8.4 * US),
    step=(0.0, 1.3 * US, 2.8 * US),
    gather=AMPERE.gather,
    reduce_simple=AMPERE.reduce_simple,
    own=AMPERE.own,
    nvls=None,
    exchange=AMPERE.exchange,
    exchange_own=AMPERE.exchange_own,
    plateau=1.9,
)

MI300: Final = NcclConstants(  # [R]; LL128 is not used; fractions are of the links RCCL plans with
    base=(12.0 * US, 12.0 * US, 17.0 * US),
    step=(0.0, 0.0, 1.3 * US),
    gather=(0.5, 0.5, 1.0),
    reduce_simple=1.0,
    own=0.0,
    nvls=None,
    exchange=((12.0 * US, 0.8 * US, 0.5), (17.0 * US, 2.1 * US, 1.0)),
    exchange_own=0.0,
    node_step=(0.8 * US, 0.8 * US, 2.1 * US),
    network_extra=(6.8 * US, 6.8 * US, 22.3 * US),  # 9.5 (LL) and 25 us (tree, Simple) against 2.7
    network_tree_extra=(7.8 * US, 7.8 * US, 22.3 * US),
    network_base=(12.0 * US, 12.0 * US, 17.0 * US),
    tree_base=(12.0 * US, 12.0 * US, 17.0 * US),
    tree_step=(0.9 * US, 0.9 * US, 2.3 * US),
    ll_spread=1.0,
    plateau=1.0,
    bulk=1.0,
)

PCIE: Final = NcclConstants(  # inside steps, base and bandwidth shares of [T]; LL128 is off over PCIe
    base=(6.6 * US, 14.0 * US, 8.4 * US),
    step=(0.0, 1.5 * US, 4.7 * US),  # 1.0, 2.5 and 5.7 us against the 1.0 us of the level
    gather=(0.5, 0.5, 1.0),
    reduce_simple=1.0,
    own=0.0,
    nvls=None,
    exchange=((6.6 * US, 1.0 * US, 0.5), (8.4 * US, 5.7 * US, 1.0)),
    exchange_own=0.0,
)
"""What a node without NVLink takes in place of its generation."""

PCIE_BANDWIDTH: Final = 64e9
"""Bytes/s per direction of the fastest PCIe slot (5.0 x16); a slower switch or pair inside a node is taken for PCIe."""

CONSTANTS: Final = {
    "volta": VOLTA,
    "ampere": AMPERE,
    "hopper": HOPPER,
    "blackwell": BLACKWELL,
    "mi300": MI300,
}


def nccl_constants(generation: str) -> NcclConstants:
    """Constants of a generation; an unknown one inherits Hopper's."""
    return CONSTANTS.get(generation, HOPPER)

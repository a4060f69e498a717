"""Constants of HCCL per product generation. Seconds, bytes, fractions of a level's large-message rate.

[C] HongminTan/ACNC2025-HCCL @f85b7e6 coll_alg_operator.cc and device_capacity (constants HCCL plans with).
[P] HCCL profiling constants: RDMA 7 us per message, notify 1 us, SDMA 0.6 us below 512 KB and 1.5 us above.
[A] HCCL algorithm introduction and HCCL_ALGO documentation, mirror-cann/hccl @e1a8dc9b docs/zh/user_guide.
[2] fitted on every second size of hccl_test on one 8-NPU full-mesh node (xiaowanCN/aiconfigurator-npu nccl_perf);
    host-launched, so that small sizes include the launch.
[3] fitted on every second size of HCCL on Atlas A3 dies, 2 to 32 ranks, CANN 8.5
    (hudingyi688/aiconfigurator-npu @90d7765 nccl_perf). The other sizes check the fits, see
    benchmarks/collectives_accuracy.py. Fractions are relative to the `efficiency` of the server presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cann_plan.records import dataclass

US: Final = 1e-6
KIB: Final = 1024.0

RDMA_STEP: Final = 8.0 * US
"""RDMA message and notify of one between-server step [P]."""

SELECTOR_STEP: Final = 60.0 * US
"""Seconds per step the selector of algorithms between servers assumes [C]."""

SELECTOR_RATE: Final = 20e9
"""Bytes/s between servers the selector assumes [C]."""


@dataclass(frozen=True, slots=True)
class SmallKernel:
    """All-vector kernel (AIV) for small messages on memory-semantic links.

    Attributes:
        base, per_rank, crossing: seconds; fixed, per further rank, once where servers are crossed.
        fraction: per operation, share of the level rate.
        own: extra work on the own block, times 1/(p-1) of the traffic.
        limit: per operation, bytes per rank (n/p) up to which it is used inside a server.
        crossing_limit: per operation, the same across servers.
    """

    base: float
    per_rank: float
    crossing: float
    fraction: Mapping[str, float]
    own: float
    limit: Mapping[str, float]
    crossing_limit: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HcclConstants:
    """What HCCL adds to the links of one product.

    Attributes:
        launch: fixed seconds of a collective.
        per_peer: seconds per further peer of a mesh phase.
        ring_step: seconds per step of rings inside a server.
        crossing: fixed seconds of each half (reduce-scatter, all-gather) once servers are crossed.
        fabric_step: seconds per step between servers on memory-semantic links (UB), level latency excluded.
        network_step: the same over RDMA.
        fraction: per operation, share of the level rate large messages reach (1 where not listed).
        pair_fraction: factor on it for groups of two (one direction of the double ring).
        exchange: (base, per doubling of ranks, fraction, fraction of two ranks) of all-to-all, None: as a mesh.
        small: kernel for small messages, None without.
        flat: rings run over all memory-semantic levels at once (A3); otherwise level by level.
        between: algorithms between servers the product offers for all-reduce and its halves [A].
        pipeline_all_reduce, pipeline_gather: bytes per rank from which the pipelined form is taken, None without [C].
    """

    launch: float
    per_peer: float
    ring_step: float
    crossing: float
    fabric_step: float
    network_step: float
    fraction: Mapping[str, float]
    pair_fraction: float
    exchange: tuple[float, float, float, float] | None
    small: SmallKernel | None
    flat: bool
    between: tuple[str, ...]
    pipeline_all_reduce: float | None = None
    pipeline_gather: float | None = None


A2: Final = HcclConstants(
    launch=42.3 * US,  # [2]
    per_peer=9.1 * US,  # [2]
    ring_step=1.6 * US,  # SDMA 0.6 and notify 1 us [P]
    crossing=45.0 * US,  # A3 value [3], the only one measured
    fabric_step=1.6 * US,
    network_step=RDMA_STEP,
    fraction={},
    pair_fraction=1.0,
    exchange=None,
    small=None,
    flat=False,
    between=("ring", "nhr", "halving_doubling", "nb"),
    pipeline_all_reduce=1024.0 * KIB,  # size/(servers x devices) >= 1 MB [C]
    pipeline_gather=32.0 * KIB,  # per-rank slice >= 32 KB [C]
)

A910A: Final = HcclConstants(  # launch and per-message costs inherited from the A2
    launch=A2.launch,
    per_peer=A2.per_peer,
    ring_step=A2.ring_step,
    crossing=A2.crossing,
    fabric_step=A2.fabric_step,
    network_step=RDMA_STEP,
    fraction={},
    pair_fraction=1.0,
    exchange=None,
    small=None,
    flat=False,
    between=("ring", "halving_doubling", "nhr", "nb"),
)

A3: Final = HcclConstants(
    launch=82.0 * US,  # [3]
    per_peer=0.0,
    ring_step=1.8 * US,  # [3]
    crossing=45.0 * US,  # [3]
    fabric_step=1.6 * US,  # SDMA 0.6 and notify 1 us [P]
    network_step=RDMA_STEP,
    fraction={"all_reduce": 1.04, "all_gather": 1.155, "reduce_scatter": 0.96},  # [3]
    pair_fraction=0.59,  # [3]
    exchange=(4.0 * US, 3.1 * US, 0.76, 0.38),  # [3]
    small=SmallKernel(
        base=3.3 * US,  # [3]
        per_rank=0.67 * US,  # [3]
        crossing=0.8 * US,  # [3]
        fraction={"all_reduce": 0.76, "all_gather": 0.86, "reduce_scatter": 0.785},  # [3]
        own=1.87,  # [3]
        limit={"all_reduce": 1024.0 * KIB, "all_gather": 512.0 * KIB, "reduce_scatter": 1024.0 * KIB},  # [C], [3]
        crossing_limit={"all_reduce": 190.0 * KIB, "all_gather": 64.0 * KIB, "reduce_scatter": 64.0 * KIB},  # [C], [3]
    ),
    flat=True,
    between=("ring", "nhr", "nb"),
)

A950: Final = HcclConstants(  # fixed costs inherited from the A3 small kernel; NHR only between servers [A]
    launch=A3.small.base if A3.small else 0.0,
    per_peer=0.67 * US,
    ring_step=1.6 * US,
    crossing=A3.crossing,
    fabric_step=1.6 * US,
    network_step=RDMA_STEP,
    fraction={},
    pair_fraction=1.0,
    exchange=None,
    small=None,
    flat=False,
    between=("nhr",),
)

CONSTANTS: Final = {"910a": A910A, "a2": A2, "a3": A3, "950": A950}


def hccl_constants(generation: str) -> HcclConstants:
    """Constants of a product generation; an unknown one inherits those of the A2."""
    return CONSTANTS.get(generation, A2)

"""Rows of a collective as the network's library runs it."""

from __future__ import annotations

import math
from dataclasses import replace

from cann_plan.network.algorithms import Row, ideal_rows
from cann_plan.network.hccl import hccl_rows
from cann_plan.network.hccl_constants import hccl_constants
from cann_plan.network.layout import GroupLayout
from cann_plan.network.levels import Network
from cann_plan.network.links import LinkUse, link_uses
from cann_plan.network.nccl import NODE_CLASS_BANDWIDTH, nccl_rows
from cann_plan.network.nccl_constants import nccl_constants
from cann_plan.network.transport import TCP_CORES
from cann_plan.records import dataclass

ALGORITHMS = (
    "library", "auto", "best", "ring", "double_ring", "mesh", "one_shot", "halving_doubling", "recursive_doubling",
    "nhr", "nb", "pipeline", "pairwise", "bruck", "tree", "double_tree", "in_network", "hierarchical", "ahc",
    "torus_ring", "direct",
)  # fmt: skip
"""Values of `CommunicationOptions.algorithm`."""


@dataclass(frozen=True, slots=True)
class CommunicationOptions:
    """Choices that hold for every collective of a run.

    Attributes:
        algorithm: "library" (or "auto") takes what the library would choose, "best" the fastest algorithm it offers,
            any other value the rows of that algorithm; where a collective does not run with it, the library's choice.
        transport: rdma (as the levels describe) or tcp on levels that leave a server, see `network.transport`.
        tcp_cores: host cores per device that serve TCP at the receiver.
    """

    algorithm: str = "library"
    transport: str = "rdma"
    tcp_cores: float = TCP_CORES

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown algorithm."""
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"unknown algorithm {self.algorithm!r}; allowed: {', '.join(ALGORITHMS)}")


def default_efficiency(network: Network, index: int) -> float:
    """Fraction of the bandwidth large messages reach where the level does not say.

    HCCL: 18.3 of 28 GB/s on an A2 mesh link, 20 of 25 GB/s over RoCE (its own planning constants, device_capacity).
    NCCL: 0.75 of NVLink (all-gather of 8 x H100 reaches 335 of 450 GB/s, nccl-tests); adapters 0.85 (assumption;
    large collectives measure 0.73 to 0.97 of the rate). `ideal`: 1.
    """
    level = network.levels[index]
    if network.library == "ideal":
        return 1.0
    inside = index < network.node_levels or level.bandwidth > NODE_CLASS_BANDWIDTH
    if network.library == "hccl":
        if not inside:
            return 0.8
        return 0.654 if level.kind == "full-mesh" else 0.96
    return 0.75 if inside else 0.85


def collective_rows(
    network: Network, layout: GroupLayout, operation: str, options: CommunicationOptions, concurrent: bool
) -> tuple[list[Row], tuple[LinkUse, ...]]:
    """(rows, crossed levels) of one collective for one group layout of at least two ranks."""
    efficiency = tuple(
        default_efficiency(network, index) if level.efficiency is None else level.efficiency
        for index, level in enumerate(network.levels)
    )
    overhead = tuple(0.0 for _ in network.levels)
    uses = link_uses(network, layout, efficiency, overhead, concurrent)
    algorithm = "library" if options.algorithm == "auto" else options.algorithm
    if network.library == "hccl":
        constants = hccl_constants(network.generation)
        rows = hccl_rows(uses, layout, operation, constants, network.node_levels, algorithm)
    elif network.library in ("nccl", "rccl"):
        generation = "mi300" if network.library == "rccl" else network.generation
        rows = nccl_rows(uses, layout, operation, nccl_constants(generation), network.node_levels)
    else:
        rows = ideal_rows(uses, layout, operation)
    if algorithm not in ("library", "best"):
        wanted = {"tree": "double_tree"}.get(algorithm, algorithm)
        named = [r for r in rows if r.algorithm == wanted]
        if named and network.library == "hccl":  # its size limits belong to the choice that is now overruled
            named = [replace(r, low=0.0, high=math.inf) for r in named]
        rows = named or rows
    return envelope(rows), uses


def envelope(rows: list[Row]) -> list[Row]:
    """The rows without those that are nowhere the fastest.

    Walks the lower envelope of the unlimited lines from n = 0 (least alpha, then least beta) to large n; a row with
    size limits stays unless one unlimited row is at least as fast at every size.
    """
    lines = [r for r in rows if r.low <= 0 and math.isinf(r.high)]
    limited = [r for r in rows if r not in lines]
    limited = [r for r in limited if not any(o.seconds <= r.seconds and o.per_byte <= r.per_byte for o in lines)]
    if not lines:
        return limited
    current = min(lines, key=lambda r: (r.seconds, r.per_byte))
    kept = [current]
    while True:
        flatter = [r for r in lines if r.per_byte < current.per_byte]
        if not flatter:
            return kept + limited
        current = min(
            flatter,
            key=lambda r: ((r.seconds - current.seconds) / (current.per_byte - r.per_byte), r.per_byte),
        )
        kept.append(current)

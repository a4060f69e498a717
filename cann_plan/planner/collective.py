"""One collective on one network: time, bandwidths, bound and bottleneck."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, cast

from cann_plan.network.algorithms import OPERATIONS
from cann_plan.network.levels import Network
from cann_plan.network.library import ALGORITHMS, CommunicationOptions
from cann_plan.network.table import CommunicationTable
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.contract_collective import CollectiveDocument, CollectiveRow, CollectiveSweepDocument
from cann_plan.planner.topology_network import table_on

COLLECTIVE_SCHEMA: Final = "cann-plan/collective/1"
SWEEP_SCHEMA: Final = "cann-plan/collective-sweep/1"
SWEEP_FROM: Final = 2**10
"""Bytes of the smallest message of a sweep."""

SHORT_NAMES: Final = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "sendrecv": "send_recv", "p2p": "send_recv", "bcast": "broadcast",
}  # fmt: skip
"""What nccl-tests, hccl_test and MPI call the operations."""

CHOOSERS: Final = ("library", "auto", "best")
"""Values of `algorithm` that choose among algorithms."""


def operation_of(op: str) -> str:
    """The operation a user means: all-reduce, all_reduce, AllReduce.

    Raises:
        PlanError: there is no such operation.
    """
    folded = op.strip().lower().replace("-", "_")
    name = SHORT_NAMES.get(folded.replace("_", ""), folded)
    if name not in OPERATIONS:
        allowed = [known.replace("_", "-") for known in OPERATIONS]
        near = get_close_matches(name.replace("_", "-"), allowed, n=1)
        raise PlanError("OP", f"unknown collective {op!r}", ", ".join(allowed), near[0] if near else None)
    return name


def _table(operation: str, network: Network, ranks: int, algorithm: str, stride: int) -> CommunicationTable:
    """The table of `algorithm`, with everything a user can get wrong checked."""
    wanted = algorithm.strip().lower().replace("-", "_")
    if wanted not in ALGORITHMS:
        near = get_close_matches(wanted, ALGORITHMS, n=1)
        message = f"unknown algorithm {algorithm!r}"
        raise PlanError("--algorithm", message, ", ".join(ALGORITHMS), near[0] if near else None)
    if ranks < 1 or stride < 1:
        raise PlanError("--ranks" if ranks < 1 else "--stride", "must be at least 1", "a whole number of at least 1")
    span = (ranks - 1) * stride + 1
    if span > network.devices:
        raise PlanError(
            "--ranks", f"{ranks} ranks at stride {stride} span {span} devices; the network has {network.devices}",
            f"at most {(network.devices - 1) // stride + 1}",
        )  # fmt: skip
    if ranks > 1 and wanted not in CHOOSERS and not _runs(wanted, operation, network, ranks, stride):
        runs = [name for name in ALGORITHMS if _runs(name, operation, network, ranks, stride)]
        allowed = ", ".join([*CHOOSERS, *runs])
        text = f"{wanted} does not run {operation.replace('_', '-')} on the links these ranks use"
        raise PlanError("--algorithm", text, allowed)
    return table_on(network, CommunicationOptions(wanted))


def _runs(name: str, operation: str, network: Network, ranks: int, stride: int) -> bool:
    """Whether naming an algorithm really takes it."""
    if name in CHOOSERS:
        return False
    table = table_on(network, CommunicationOptions(name))
    taken = table.describe(operation, 2.0**20, ranks, stride).algorithm
    return taken == {"tree": "double_tree"}.get(name, name) or taken == name


def _row(table: CommunicationTable, operation: str, nbytes: float, ranks: int, stride: int) -> CollectiveRow:
    found = table.describe(operation, nbytes, ranks, stride)
    moves = found.seconds > 0
    return {
        "bytes": nbytes,
        "algorithm": f"{found.algorithm} ({found.protocol})" if found.protocol else found.algorithm,
        "time_s": found.seconds,
        "algorithm_gb_per_s": nbytes / found.seconds / 1e9 if moves else None,
        "bus_gb_per_s": found.bus_bandwidth / 1e9 if moves else None,
        "lower_bound_s": found.lower_bound_seconds,
        "bottleneck": found.bottleneck,
    }


def collective(
    op: str, nbytes: float, network: Network, ranks: int, algorithm: str = "library", stride: int = 1
) -> CollectiveDocument:
    """Answer of the `collective` command.

    `nbytes`: the full vector for all-reduce, broadcast and reduce; the total gathered vector for all-gather and
    reduce-scatter; the total sent vector of a rank for all-to-all. Bandwidths in GB/s (1e9); null where the group has
    one rank and nothing moves.

    Raises:
        PlanError: an unknown operation or algorithm, one that does not run here, or too many ranks.
    """
    operation = operation_of(op)
    table = _table(operation, network, ranks, algorithm, stride)
    row = _row(table, operation, nbytes, ranks, stride)
    return cast(
        CollectiveDocument, {"schema": COLLECTIVE_SCHEMA, "op": operation, "bytes": nbytes, "ranks": ranks, **row}
    )


def sweep_sizes(largest: float) -> list[float]:
    """Powers of two from 1 KiB up to `largest` bytes, which is always the last."""
    sizes = []
    size = float(SWEEP_FROM)
    while size < largest:
        sizes.append(size)
        size *= 2.0
    return [*sizes, largest]


def collective_sweep(
    op: str, largest: float, network: Network, ranks: int, algorithm: str = "library", stride: int = 1
) -> CollectiveSweepDocument:
    """The collective at every size of `sweep_sizes`. Raises PlanError as `collective` does."""
    operation = operation_of(op)
    table = _table(operation, network, ranks, algorithm, stride)
    rows = [_row(table, operation, size, ranks, stride) for size in sweep_sizes(largest)]
    return {"schema": "cann-plan/collective-sweep/1", "op": operation, "ranks": ranks, "stride": stride, "rows": rows}

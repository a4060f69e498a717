"""One collective on one network: time, bandwidths, bound and bottleneck."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.network.levels import Network
from cann_plan.network.library import CommunicationOptions
from cann_plan.network.table import CommunicationTable

COLLECTIVE_SCHEMA: Final = "cann-plan/collective/1"

OPERATION_NAMES: Final = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "alltoall": "all_to_all",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "send-recv": "send_recv",
    "p2p": "send_recv",
}


def collective(
    op: str, nbytes: float, network: Network, ranks: int, algorithm: str = "library", stride: int = 1
) -> dict[str, Any]:
    """Answer of the `collective` command.

    `nbytes`: the full vector for all-reduce, broadcast and reduce; the total gathered vector for all-gather and
    reduce-scatter; the total sent vector of a rank for all-to-all. Bandwidths in GB/s (1e9); null where the group has
    one rank and nothing moves. Raises ValueError for an unknown operation or algorithm or too many ranks.
    """
    operation = OPERATION_NAMES.get(op, op.replace("-", "_"))
    table = CommunicationTable(network, CommunicationOptions(algorithm))
    found = table.describe(operation, nbytes, ranks, stride)
    moves = found.seconds > 0
    return {
        "schema": COLLECTIVE_SCHEMA,
        "op": operation,
        "bytes": nbytes,
        "ranks": ranks,
        "algorithm": f"{found.algorithm} ({found.protocol})" if found.protocol else found.algorithm,
        "time_s": found.seconds,
        "algorithm_gb_per_s": nbytes / found.seconds / 1e9 if moves else None,
        "bus_gb_per_s": found.bus_bandwidth / 1e9 if moves else None,
        "lower_bound_s": found.lower_bound_seconds,
        "bottleneck": found.bottleneck,
    }

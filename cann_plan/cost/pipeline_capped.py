"""Exact recurrence on a capped number of micro-batches, continued at the pace of the steady phase.

After a few times p micro-batches a pipeline repeats itself: each further period takes as long as the one before. The
recurrence runs for the cap, and once more for a period less, and the rest is added at the pace between the two, at
least that of the slowest stage.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.pipeline_orders import Schedule
from cann_plan.cost.pipeline_recurrence import recurrence_seconds, slowest_stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cap(NamedTuple):
    """Micro-batches run exactly, and the period for the pace, both in units of p."""

    run: int
    period: int


# By random cases against the simulator (`benchmarks/pipeline_accuracy.py`): the smallest that stay within 2%. ZB-H1
# comes here with fewer micro-batches than that only.
CAPS = {
    Schedule.INTERLEAVED: Cap(4, 1),
    Schedule.ZB_H1: Cap(3, 1),
    Schedule.ZB_V: Cap(3, 1),
    Schedule.DUALPIPE: Cap(4, 1),
    Schedule.DUALPIPE_V: Cap(4, 1),
}


def capped_seconds(
    schedule: Schedule,
    forward: Floats,
    backward: Floats,
    weight: Floats,
    send: Floats,
    micro_batches: Ints,
    virtual: int,
    overlapped: bool,
) -> Floats:
    """Seconds of one step, (N,); arguments of `recurrence_seconds`, micro-batches (N,) differing per row."""
    stages = forward.shape[1] // virtual
    cap = CAPS[schedule]
    largest, period = cap.run * stages, cap.period * stages
    run = np.minimum(micro_batches, largest)
    if schedule is Schedule.DUALPIPE:
        period += period % 2
    result = np.empty(forward.shape[0])
    for m in distinct(run):
        rows = np.flatnonzero(run == m)
        parts = (forward[rows], backward[rows], weight[rows], send[rows])
        result[rows] = recurrence_seconds(schedule, *parts, int(m), virtual, overlapped)
        more = micro_batches[rows] - m
        if not more.any():
            continue
        shorter = recurrence_seconds(schedule, *parts, int(m) - period, virtual, overlapped)
        pace = (result[rows] - shorter) / period
        least = slowest_stage(schedule, *parts, virtual, overlapped)
        result[rows] = np.where(more > 0, result[rows] + more * np.maximum(pace, least), result[rows])
    return result

"""Which single change to a plan helps most."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import EXPLAIN, REASONS
from cann_plan.planner.evaluate import Scores, evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.neighbours import neighbours
from cann_plan.planner.objective import Objective

GIB = 2.0**30


def single_changes(job: Job, strategies: Strategies, objective: Objective) -> list[dict[str, Any]]:
    """Every single change to a layout that a framework would start: those that fit first, best first; then the others,
    the one that needs least memory first.
    """
    found = neighbours(job, strategies, wide=True)
    result = evaluate(found.problem, found.block())
    rows = np.flatnonzero(np.isfinite(result.step))
    scores = Scores(result.step, result.device_bytes, result.host_bytes, result.reason)
    values = objective.values(scores, rows)
    items = []
    for place, row in enumerate(rows.tolist()):
        if row == 0:
            continue
        fits = bool(result.feasible[row])
        entry = {
            "set": found.labels[row - 1],
            "step_s": float(result.step[row]),
            "delta_step_s": float(result.step[row] - result.step[0]),
            "delta_gib": float(result.device_bytes[row] - result.device_bytes[0]) / GIB,
            "fits": fits,
            "why": None if fits else EXPLAIN[REASONS[int(result.reason[row])]],
        }
        order = float(values[place]) if fits else float(result.device_bytes[row])
        items.append(((not fits, order, row), entry))
    items.sort(key=lambda item: item[0])
    return [entry for _, entry in items]

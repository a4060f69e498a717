"""Single changes to a plan that would help, each re-evaluated through the same path."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.neighbours import neighbours

GIB = 2.0**30
WORTH_TIME = 0.01  # a change is worth naming if it saves 1% of the step
WORTH_BYTES = 0.02  # or, where memory is short, 2% of the visible memory


def recommendations(job: Job, strategies: Strategies, limit: int = 5) -> tuple[list[dict[str, Any]], Evaluation]:
    """Changes of one axis that fit and are faster, or that save memory where the plan does not fit or barely does.

    Also returns the evaluation they come from, whose row 0 is the strategy itself.
    """
    found = neighbours(job, strategies)
    result = evaluate(found.problem, found.block())
    step, size = float(result.step[0]), float(result.device_bytes[0])
    tight = size > job.problem.memory.visible * (1.0 - job.problem.memory.borderline)
    items = []
    for index, label in enumerate(found.labels, 1):
        new_step, new_size = float(result.step[index]), float(result.device_bytes[index])
        if not np.isfinite(new_step):
            continue
        fits = bool(result.feasible[index])
        faster = new_step < step * (1.0 - WORTH_TIME) and fits
        smaller = tight and new_size < size - WORTH_BYTES * job.problem.memory.visible
        if faster or smaller:
            why = _why(step, size, new_step, new_size, fits)
            gain = (0 if fits else 1, new_step if not tight or fits else new_size)
            entry = {"set": label, "delta_gib": (new_size - size) / GIB, "delta_step_s": new_step - step, "why": why}
            items.append((gain, entry))
    items.sort(key=lambda item: item[0])
    return [entry for _, entry in items[:limit]], result


def _why(step: float, size: float, new_step: float, new_size: float, fits: bool) -> str:
    time = f"{abs(new_step / step - 1.0):.0%} {'faster' if new_step < step else 'slower'}"
    memory = f"{abs(new_size - size) / GIB:.1f} GiB {'less' if new_size < size else 'more'}"
    return f"{time}, {memory}" + ("" if fits else "; still does not fit alone")

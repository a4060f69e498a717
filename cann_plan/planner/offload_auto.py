"""`parallel.offload: auto`: the smallest share off the device with which a layout fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.job import Job
from cann_plan.spec.resolve import LoadedPlan

STEPS = 20
"""Shares of a stated layout are found in twentieths."""
SEARCHED = (0.25, 0.5, 0.75, 1.0)
"""Shares tried one after the other where the layout is searched for: one search each."""


def automatic_shares(loaded: LoadedPlan) -> tuple[str, ...]:
    """Names of what `auto` leaves open, all of which get the same share."""
    offload = loaded.spec.parallel.offload
    return tuple(name for name in ("optimizer", "activations") if getattr(offload, name) == "auto")


def at_share(loaded: LoadedPlan, share: float) -> LoadedPlan:
    """The plan with a number in place of `auto`."""
    section: dict[str, Any] = loaded.spec.parallel.offload.model_dump(exclude_none=True)
    section |= dict.fromkeys(automatic_shares(loaded), share)
    if not section.get("optimizer"):
        section.pop("optimizer_step", None)  # says nothing about nothing
    return loaded.override({"parallel.offload": section})


def least_share(loaded: LoadedPlan, job: Job, strategies: Strategies, prepared: Callable[[LoadedPlan], Job]) -> Job:
    """The job with the smallest share with which `strategies` (1 row) fit the device, all of it if none does.

    `job` holds nothing of the open states off the device; `prepared` makes the job of a changed plan.
    """

    def fits(candidate: Job) -> bool:
        return bool(evaluate(candidate.problem, strategies).device_bytes[0] <= candidate.problem.memory.visible)

    if fits(job):
        return note(prepared(at_share(loaded, 0.0)), loaded, 0.0, job, strategies)
    # device bytes never rise with the share: bisect between one that does not fit and one that does
    low, high = 0, STEPS
    found = prepared(at_share(loaded, 1.0))
    if not fits(found):
        return note(found, loaded, 1.0, job, strategies)
    while high - low > 1:
        middle = (low + high) // 2
        candidate = prepared(at_share(loaded, middle / STEPS))
        if fits(candidate):
            high, found = middle, candidate
        else:
            low = middle
    return note(found, loaded, high / STEPS, job, strategies)


def note(found: Job, loaded: LoadedPlan, share: float, without: Job, strategies: Strategies) -> Job:
    """Record what `auto` became and what it costs against `without`, the job with nothing off the device."""
    result, before = evaluate(found.problem, strategies), evaluate(without.problem, strategies)
    text = "the layout fits without"
    if share > 0.0:
        fits = bool(result.feasible[0])
        text = "the smallest share tried that fits" if fits else "does not fit even so"
        slower = float(result.step[0] / before.step[0]) - 1.0
        if np.isfinite(slower):
            text += f"; the step is {slower:.1%} slower than without"
    for name in automatic_shares(loaded):
        found.assumptions.add(f"parallel.offload.{name}", share, text)
    return found

"""`optimize`: the best layouts of a plan's job, and why the others are out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from cann_plan.planner.candidate import candidate
from cann_plan.planner.choose import best_layout
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.planner.search import Progress
from cann_plan.spec.resolve import LoadedPlan

if TYPE_CHECKING:
    from cann_plan.planner.contract import OptimizeDocument

TOP = 5
"""Layouts reported unless the plan or the command line says how many."""


def optimize(loaded: LoadedPlan, top: int | None = None, on_progress: Progress | None = None) -> OptimizeDocument:
    """The `top` best layouts on the plan's cluster.

    Raises:
        SpecError: located problems of the plan.
    """
    started = time.perf_counter()
    job = prepare(loaded)
    found = best_layout(job, loaded, top or loaded.spec.search.top or TOP, on_progress)
    best = [candidate(job, strategies) for strategies in found.best]
    seconds = time.perf_counter() - started
    document = {
        "schema": "cann-plan/optimize/1",
        "problem": problem_section(job),
        "best": best,
        "infeasible": dict(sorted(found.infeasible.items(), key=lambda item: (-item[1], item[0]))),
        "evaluated": found.evaluated,
        "feasible": found.feasible,
        "seconds": seconds,
        "strategies_per_second": found.evaluated / seconds,
    }
    return cast("OptimizeDocument", document)


def problem_section(job: Job) -> dict[str, Any]:
    """What the search is about."""
    return {
        "model": job.model.name,
        "cluster": job.cluster.name,
        "devices": job.cluster.devices,
        "nodes": job.cluster.nodes,
        "global_batch_size": job.global_batch_size,
        "sequence_length": job.sequence_length,
        "precision": job.precision,
        "objective": "time",
    }

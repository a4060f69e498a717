"""`size`: the fewest devices that fit and keep every limit, each size with its best layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.candidate import candidate
from cann_plan.planner.check import check_estimate
from cann_plan.planner.choose import best_layout, most_nodes, node_counts
from cann_plan.planner.constraints import broken_constraint
from cann_plan.planner.contract import SizeDocument
from cann_plan.planner.estimate import estimate_document
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.planner.search import Progress
from cann_plan.spec.resolve import LoadedPlan

BEYOND = 2
"""Sizes shown after the first that keeps all limits, so that the returns of more devices are visible."""


def size(loaded: LoadedPlan, on_progress: Progress | None = None) -> SizeDocument:
    """Try growing numbers of nodes; the first whose best layout fits and keeps every limit is the answer.

    Raises:
        SpecError: located problems of the plan.
    """
    table: list[dict[str, Any]] = []
    best: dict[str, Any] | None = None
    answer: Job | None = None
    binding: str | None = None
    shown = 0
    limits = loaded.spec.limits.model_dump(mode="json", exclude_none=True)
    counts = node_counts(most_nodes(loaded))
    for place, nodes in enumerate(counts):
        if on_progress is not None:
            on_progress(place, len(counts))
        entry = _try(loaded, nodes)
        if entry is None:
            continue
        job, strategies, fits = entry
        document = cast(Mapping[str, Any], estimate_document(job, strategies, []))
        broken = [result["name"] for result in check_estimate(document, limits) if not result["pass"]]
        table.append(_row(document, fits))
        if fits and not broken:
            if answer is None:
                answer, best = job, candidate(job, strategies)
            shown += 1
            if shown > BEYOND:
                break
        elif answer is None:
            binding = broken[0]
    if on_progress is not None:
        on_progress(len(counts), len(counts))
    return cast(
        SizeDocument,
        {
            "schema": "cann-plan/size/1",
            "devices": answer.cluster.devices if answer else None,
            "nodes": answer.cluster.nodes if answer else None,
            "best": best,
            "table": table,
            "limit_that_binds": binding,
            "limits": limits,
        },
    )


def _try(loaded: LoadedPlan, nodes: int) -> tuple[Job, Strategies, bool] | None:
    """The best strategy on `nodes` nodes and whether it fits; None where no layout exists."""
    from cann_plan.spec.errors import SpecError

    cluster = loaded.hardware.with_nodes(nodes)
    parallel = loaded.spec.parallel
    ranks = (parallel.tensor or 1) * (parallel.pipeline or 1) * (parallel.context or 1)
    if cluster.devices % ranks or (parallel.data is not None and ranks * parallel.data != cluster.devices):
        return None
    try:
        job = prepare(loaded, cluster)
    except SpecError:
        if nodes == 1 or parallel.auto:
            raise
        return None
    if job.strategies is not None:
        if int(broken_constraint(job.problem, job.strategies)[0]):
            return None
        from cann_plan.planner.evaluate import evaluate

        return job, job.strategies, bool(evaluate(job.problem, job.strategies).feasible[0])
    job, found = best_layout(job, loaded)
    strategies = found.best[0] if found.best else found.closest
    return None if strategies is None else (job, strategies, bool(found.best))


def _row(document: Mapping[str, Any], fits: bool) -> dict[str, Any]:
    return {
        "devices": document["parallel"]["devices"],
        "days": document["time"]["goodput_days"],
        "cost": document["cost"]["amount"],
        "fits": fits,
        "mfu": document["time"]["mfu"],
    }

"""Where nothing fits: the closest layout, and the smallest changes to the plan that make one fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cann_plan.planner.candidate import candidate
from cann_plan.planner.choose import best_layout, node_counts
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.planner.search import Found
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import LoadedPlan

GIB = 2.0**30
MOST = 8
"""Largest multiple of the stated devices that is tried."""


def nothing_fits(loaded: LoadedPlan, job: Job, found: Found) -> dict[str, Any]:
    """`closest`: the layout that needs least memory, with what it lacks; `changes`: what would make a layout fit."""
    closest = None
    if found.closest is not None:
        room = job.problem.memory.visible * job.problem.memory.limit
        short = (found.closest_bytes - room) / GIB
        closest = {**candidate(job, found.closest), "short_gib": short}
    return {"closest": closest, "changes": changes_that_fit(loaded, job)}


def changes_that_fit(loaded: LoadedPlan, job: Job) -> list[dict[str, Any]]:
    """Changes of one key after which one of the usual layouts fits, each with the best step time."""
    found = []
    for changes, why in _changes(loaded, job):
        best = _best_step(loaded, changes)
        if best is not None:
            found.append({"set": changes, "step_s": best, "why": why})
    return found


def _changes(loaded: LoadedPlan, job: Job) -> Iterator[tuple[dict[str, Any], str]]:
    """Candidates, least intrusive first; of the numbers of devices only the first that fits."""
    if not job.problem.offload.active:
        yield {"parallel.offload": {"optimizer": 1.0}}, "optimizer states in host memory"
    cluster = loaded.hardware
    most = min(cluster.nodes * MOST, cluster.most_nodes or cluster.nodes * MOST)
    key, unit = ("devices", cluster.devices_per_node) if loaded.states("cluster.devices") else ("nodes", 1)
    for nodes in node_counts(most):
        if nodes > cluster.nodes:
            changes = {f"cluster.{key}": nodes * unit}
            if _best_step(loaded, changes) is not None:
                yield changes, "more devices"
                break
    if job.sequence_length > 1024:
        yield {"training.sequence_length": job.sequence_length // 2}, "half the sequence length"


def _best_step(loaded: LoadedPlan, changes: dict[str, Any]) -> float | None:
    """Step time of the best usual layout of the changed plan; None where none fits or the plan contradicts itself."""
    try:
        changed = loaded.override({**changes, **_free(loaded, changes)})
        _, found = best_layout(prepare(changed), changed)
    except SpecError:
        return None
    return found.steps[0] if found.steps else None


def _free(loaded: LoadedPlan, changes: dict[str, Any]) -> dict[str, Any]:
    """The stated degrees left to the planner, what is offloaded kept."""
    if loaded.spec.parallel.auto or any(path.startswith("parallel.") for path in changes):
        return {} if loaded.spec.parallel.auto else _without_degrees(loaded)
    return _without_degrees(loaded)


def _without_degrees(loaded: LoadedPlan) -> dict[str, Any]:
    from cann_plan.planner.layout import DEGREES

    stated = loaded.spec.parallel.model_fields_set
    names = [*DEGREES, "layer_split", "recompute", "schedule", "ulysses_degree", "micro_batch_size", "shard_group"]
    return {f"parallel.{name}": None for name in names if name in stated}

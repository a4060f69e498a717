"""Jobs for tests, from shipped presets."""

from functools import cache
from typing import Any

from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.spec.resolve import load_plan


@cache
def _job(model: str, cluster: str, nodes: int, sequence: int, batch: int) -> Job:
    return job_of(
        {
            "model": model,
            "cluster": {"extends": cluster, "nodes": nodes},
            "training": {"tokens": 1e9, "sequence_length": sequence, "global_batch_size": batch},
        }
    )


def job(model: str, cluster: str, nodes: int, *, sequence: int = 4096, batch: int = 512) -> Job:
    """A job without a stated layout."""
    return _job(model, cluster, nodes, sequence, batch)


def job_of(plan: dict[str, Any]) -> Job:
    """The job of a plan mapping."""
    return prepare(load_plan(plan))

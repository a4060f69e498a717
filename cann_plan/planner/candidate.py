"""A layout found by a search as the plan keys that ask for it, with what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.estimate import estimate_document, parallel_section, resolved_parallel
from cann_plan.planner.job import Job


def overrides(job: Job, strategies: Strategies) -> dict[str, Any]:
    """Plan keys and values that state a strategy (a block of one) in full."""
    stated = resolved_parallel(job, parallel_section(job, strategies))
    return {f"parallel.{name}": value for name, value in stated.items()}


def candidate(job: Job, strategies: Strategies) -> dict[str, Any]:
    """A strategy with its estimate, without the plan and without recommendations."""
    document: Mapping[str, Any] = estimate_document(job, strategies, [])
    return {
        "overrides": overrides(job, strategies),
        "estimate": {name: value for name, value in document.items() if name != "plan"},
    }

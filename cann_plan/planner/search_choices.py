"""The `search:` section, and what the plan states beside an automatic layout, to the choices of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cann_plan.cost.problem import Problem
from cann_plan.cost.recompute import FULL, NONE
from cann_plan.cost.strategies import RANK_ORDERS, SCHEDULES
from cann_plan.planner.choices import SHARES, SPLITS, Choices, Range, fixed
from cann_plan.spec.search import Axis, SearchSpec
from cann_plan.workload.operators.rows import CONTEXT_KINDS

NAMES: Mapping[str, str] = {"virtual": "virtual_pipeline", "ulysses": "ulysses_degree"}
"""Keys of the section whose names differ from the axes of a strategy."""

_CODES: Mapping[str, Callable[[Any], int]] = {
    "context_kind": CONTEXT_KINDS.index, "schedule": SCHEDULES.index, "layer_split": SPLITS.index,
    "rank_order": RANK_ORDERS.index, "sequence_parallel": int,
}  # fmt: skip
AXES = (
    "tensor", "pipeline", "data", "context", "context_kind", "ulysses", "expert", "expert_tensor", "virtual",
    "schedule", "layer_split", "rank_order", "micro_batch_size", "sequence_parallel", "zero_stage", "shard_group",
)  # fmt: skip


def choices_of(spec: SearchSpec, stated: Mapping[str, int], problem: Problem, *, whole: bool) -> Choices:
    """What the section allows; `stated` axes (integer codes) are held where the section says nothing of them."""
    held = fixed(stated)
    ranges = dict(held.ranges)
    for axis in AXES:
        limit = getattr(spec, NAMES.get(axis, axis))
        if limit is not None:
            ranges[axis] = _range(limit, _CODES.get(axis, int))
    recompute = held.recompute
    if spec.recompute is not None or spec.recompute_share is not None:
        recompute = _recomputations(spec, problem, whole=whole)
    return replace(held, ranges=ranges, recompute=recompute, whole=whole)


def _range(limit: Axis[Any], code: Callable[[Any], int]) -> Range:
    values = tuple(code(value) for value in limit.values) if limit.values is not None else None
    low = code(limit.min) if limit.min is not None else None
    high = code(limit.max) if limit.max is not None else None
    return Range(values, low, high)


def _recomputations(spec: SearchSpec, problem: Problem, *, whole: bool) -> tuple[tuple[int, float], ...]:
    """(policy, share of layers) of the listed policies; full recomputation on the listed shares."""
    usual = Choices(whole=whole).recomputations(problem)
    names = set(spec.recompute.values or ()) if spec.recompute is not None else {"none", "selective", "full"}
    limit = spec.recompute_share
    shares: tuple[float, ...] = SHARES
    if limit is not None and limit.values is not None:
        shares = tuple(float(share) for share in limit.values)
    elif limit is not None:
        low, high = limit.min or 0.0, 1.0 if limit.max is None else limit.max
        shares = tuple(share for share in SHARES if low <= share <= high)
    full = problem.policies.index(FULL)
    selective = [item for item in usual if problem.policies[item[0]] not in (NONE, FULL)]
    found: list[tuple[int, float]] = [(0, 0.0)] if "none" in names or 0.0 in shares else []
    if "selective" in names:
        found += selective
    if "full" in names:
        found += [(full, share) for share in shares if share > 0.0]
    return tuple(found)

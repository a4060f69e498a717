"""Which layers of a stage to recompute, and how, for a budget of bytes: exact dynamic programming over the layer chain.

Every layer takes one of several options (keep all, replay some modules, replay everything), each with bytes kept from
forward to backward, seconds of replay, and bytes needed besides while its backward runs. States after each layer are
the Pareto-optimal pairs of bytes kept and seconds; the largest bytes needed besides bound the budget from an outer
loop. Chen et al. 2016 (arXiv 1604.06174) is the special case of whole segments of about sqrt(n) layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_STATES = 4096
"""Pareto states kept per layer; beyond, the least distinct ones are dropped."""


@dataclass(frozen=True, slots=True)
class LayerOption:
    """One way to treat a layer. `kept`: bytes x micro-batches in flight; `peak`: bytes besides in its backward."""

    name: str
    kept: float
    replay_s: float
    peak: float


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """Option index of every layer; bytes kept, bytes at the worst point of backward, seconds of replay."""

    choice: tuple[int, ...]
    kept: float
    peak: float
    replay_s: float

    @property
    def total(self) -> float:
        """Bytes at the worst point."""
        return self.kept + self.peak


def optimal_plan(layers: Sequence[Sequence[LayerOption]], budget: float) -> RecomputePlan | None:
    """The plan with the fewest replay seconds whose bytes at the worst point are within `budget`, None if none is."""
    best: RecomputePlan | None = None
    for plan in plan_front(layers):
        if plan.total <= budget and (best is None or plan.replay_s < best.replay_s):
            best = plan
    return best


def plan_front(layers: Sequence[Sequence[LayerOption]]) -> list[RecomputePlan]:
    """Pareto-optimal plans over bytes at the worst point and replay seconds, fewest bytes first."""
    peaks = sorted({option.peak for options in layers for option in options})
    plans: list[RecomputePlan] = []
    for limit in peaks:
        allowed = [[(index, o) for index, o in enumerate(options) if o.peak <= limit] for options in layers]
        if any(not options for options in allowed):
            continue
        plans += _chain(allowed)
    plans.sort(key=lambda plan: (plan.total, plan.replay_s))
    front: list[RecomputePlan] = []
    for plan in plans:
        if not front or plan.replay_s < front[-1].replay_s:
            front.append(plan)
    return front


def _chain(layers: Sequence[Sequence[tuple[int, LayerOption]]]) -> list[RecomputePlan]:
    """Pareto-optimal plans over bytes kept and seconds, from the options allowed."""
    kept, seconds = np.zeros(1), np.zeros(1)
    back: list[tuple[Ints, Ints]] = []
    for options in layers:
        sizes = np.array([option.kept for _, option in options])
        times = np.array([option.replay_s for _, option in options])
        all_kept = (kept[:, None] + sizes[None, :]).reshape(-1)
        all_seconds = (seconds[:, None] + times[None, :]).reshape(-1)
        chosen = _pareto(all_kept, all_seconds)
        back.append((chosen // len(options), chosen % len(options)))
        kept, seconds = all_kept[chosen], all_seconds[chosen]
    plans = []
    for state in range(kept.shape[0]):
        picks: list[int] = []
        at = state
        for (origin, option), options in zip(reversed(back), reversed(layers), strict=True):
            picks.append(options[int(option[at])][0])
            at = int(origin[at])
        choice = tuple(reversed(picks))
        peak = max(_option(options, pick).peak for options, pick in zip(layers, choice, strict=True))
        plans.append(RecomputePlan(choice, float(kept[state]), peak, float(seconds[state])))
    return plans


def _option(options: Sequence[tuple[int, LayerOption]], index: int) -> LayerOption:
    return next(option for number, option in options if number == index)


def _pareto(kept: Floats, seconds: Floats) -> Ints:
    """Indices of the points that no other point beats in both, by bytes ascending."""
    order = np.lexsort((seconds, kept))
    best = np.minimum.accumulate(seconds[order])
    first = np.ones(order.shape[0], np.bool_)
    first[1:] = seconds[order][1:] < best[:-1]
    front = order[first]
    if front.shape[0] > MOST_STATES:
        front = front[np.unique(np.linspace(0, front.shape[0] - 1, MOST_STATES).round().astype(np.int64))]
    return front.astype(np.int64)


def uniform_plans(layers: Sequence[Sequence[LayerOption]]) -> list[RecomputePlan]:
    """One plan per option that every layer has, taken by all layers alike."""
    count = min(len(options) for options in layers)
    return [_plan(layers, (index,) * len(layers)) for index in range(count)]


def _plan(layers: Sequence[Sequence[LayerOption]], choice: tuple[int, ...]) -> RecomputePlan:
    options = [layer[index] for layer, index in zip(layers, choice, strict=True)]
    kept = seconds = peak = 0.0
    for option in options:
        kept += option.kept
        seconds += option.replay_s
        peak = max(peak, option.peak)
    return RecomputePlan(choice, kept, peak, seconds)


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """Whole segments replayed from their first layer's input (Chen et al. 2016)."""

    segment: int  # layers of a segment
    total: float  # bytes at the worst point
    replay_s: float


def segment_plan(layers: int, inputs: float, whole: float, replay_s: float, segment: int) -> SegmentPlan:
    """Equal layers in segments of `segment`: one input kept per segment, a whole segment alive while it is replayed.

    `inputs`: bytes of a layer's input over all micro-batches in flight; `whole`: bytes of everything a layer keeps of
    one micro-batch.
    """
    return SegmentPlan(segment, -(-layers // segment) * inputs + segment * whole, layers * replay_s)


def square_root_plan(layers: int, inputs: float, whole: float, replay_s: float) -> SegmentPlan:
    """Segments of about sqrt(n) layers."""
    return segment_plan(layers, inputs, whole, replay_s, max(1, round(float(layers) ** 0.5)))

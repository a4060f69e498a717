"""The best layout on every network of a comparison: bound once, then evaluate few."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from cann_plan.cost.layer_block import LayerIndex
from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.network.table import CommunicationTable
from cann_plan.network.topology.table import TopologyTable
from cann_plan.planner.choices import Range
from cann_plan.planner.evaluate import evaluate, score
from cann_plan.planner.layout import fixed_axes
from cann_plan.planner.search_choices import choices_of
from cann_plan.planner.space import Space, strategy_space
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan

BLOCK = 12
"""Strategies evaluated at once while the best is sought."""


WORTHWHILE = 0.999
"""Share of the best step time that a layout's bound must be below to be evaluated.

A tenth of a percent decides nothing, and a mesh or torus may save microseconds over the switch the bound is made of.
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Feasible strategies, the one with the least lower bound first; `least` (N,) seconds. `problem`: what they are
    evaluated with.
    """

    problem: Problem
    strategies: Strategies
    least: np.ndarray

    def only(self, rows: np.ndarray) -> Bounds:
        """Some of the strategies, (N,) booleans."""
        return Bounds(self.problem, self.strategies.take(rows), self.least[rows])


def layout_space(loaded: LoadedPlan, problem: Problem) -> Space:
    """The usual layouts, with pipeline stages outermost or inside data parallelism where the plan leaves that open."""
    choices = choices_of(loaded.spec.search, fixed_axes(loaded.spec.parallel), problem, whole=False)
    if loaded.spec.parallel.rank_order is None and "rank_order" not in choices.ranges:
        choices = replace(choices, ranges={**choices.ranges, "rank_order": Range(values=(0, 1))})
    return strategy_space(problem, choices)


def bounds(space: Space, switch: TopologyTable) -> Bounds:
    """Lower bounds of all feasible strategies: step time on one ideal switch with the fastest algorithms.

    Memory does not depend on the network, so that feasibility holds for all. Step time grows with every communication
    time, and no topology gives a collective more than full injection.
    """
    problem = replace(space.problem, communication=topology_best(switch))
    layers = LayerIndex(problem, space.layers())
    kept, least = [], []
    for start, stop in space.spans():
        pairs = space.pairs(start, stop)
        scores = score(problem, pairs, layers)
        rows = np.flatnonzero(scores.feasible)
        kept.append(pairs.strategies(rows))
        least.append(scores.step[rows])
    names = [f.name for f in fields(Strategies)]
    joined = Strategies(**{name: np.concatenate([getattr(block, name) for block in kept]) for name in names})
    seconds = np.concatenate(least)
    order = np.argsort(seconds, kind="stable")
    return Bounds(space.problem, joined.take(order), seconds[order])


def topology_best(switch: TopologyTable) -> TopologyTable:
    """The same network with the fastest algorithm of the library at every size."""
    outer = switch.network.levels[-1]
    options = replace(switch.options, algorithm="best")
    return TopologyTable(
        switch.network.levels[:-1], outer, switch.fabric, switch.network.library, switch.network.generation, options
    )


def best_of(
    table: CommunicationTable, bounded: Bounds, known: tuple[float, Strategies] | None = None
) -> tuple[float, Strategies] | None:
    """Step time and strategy of the best feasible layout on a network, to a tenth of a percent; None: nothing fits.

    `known`: a feasible layout with its step time on this network, to start from.
    """
    best, chosen = known if known is not None else (np.inf, None)
    for start in range(0, bounded.least.shape[0], BLOCK):
        rows = np.arange(start, min(start + BLOCK, bounded.least.shape[0]))
        rows = rows[bounded.least[rows] < best * WORTHWHILE]
        if not rows.shape[0]:
            break
        block = bounded.strategies.take(rows)
        steps = evaluate(replace(bounded.problem, communication=table), block).step
        at = int(np.argmin(steps))
        if steps[at] < best:
            best, chosen = float(steps[at]), block.take(np.array([at]))
    return None if chosen is None else (best, chosen)

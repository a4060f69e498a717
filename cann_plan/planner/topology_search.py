"""The best layout on every network of a comparison: bound once, then evaluate few."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.network.table import CommunicationTable
from cann_plan.network.topology.table import TopologyTable
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.space import Space
from cann_plan.records import dataclass

BLOCK = 12
"""Strategies evaluated at once while the best is sought."""


WORTHWHILE = 0.999
"""Share of the best step time that a layout's bound must be below to be evaluated.

A tenth of a percent decides nothing, and a mesh or torus may save microseconds over the switch the bound is made of.
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Feasible strategies, the one with the least lower bound first; `least` (N,) seconds."""

    strategies: Strategies
    least: np.ndarray


def bounds(problem: Problem, switch: TopologyTable, space: Space) -> Bounds:
    """Lower bounds of all feasible strategies: step time on one ideal switch with the fastest algorithms.

    Memory does not depend on the network, so that feasibility holds for all. Step time grows with every communication
    time, and no topology gives a collective more than full injection.
    """
    free = topology_best(switch)
    blocks, least = [], []
    for _, block in space.blocks():
        result = evaluate(replace(problem, communication=free), block)
        rows = np.flatnonzero(result.feasible)
        blocks.append(block.take(rows))
        least.append(result.step[rows])
    names = [f.name for f in fields(Strategies)]
    joined = Strategies(**{name: np.concatenate([getattr(block, name) for block in blocks]) for name in names})
    seconds = np.concatenate(least)
    order = np.argsort(seconds, kind="stable")
    return Bounds(joined.take(order), seconds[order])


def topology_best(switch: TopologyTable) -> TopologyTable:
    """The same network with the fastest algorithm of the library at every size."""
    outer = switch.network.levels[-1]
    options = replace(switch.options, algorithm="best")
    return TopologyTable(
        switch.network.levels[:-1], outer, switch.fabric, switch.network.library, switch.network.generation, options
    )


def best_of(
    problem: Problem, table: CommunicationTable, bounded: Bounds, known: tuple[float, Strategies] | None = None
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
        steps = evaluate(replace(problem, communication=table), block).step
        at = int(np.argmin(steps))
        if steps[at] < best:
            best, chosen = float(steps[at]), block.take(np.array([at]))
    return None if chosen is None else (best, chosen)

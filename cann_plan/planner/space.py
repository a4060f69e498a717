"""The strategy space of a job: layouts, each with its own passes and training states, enumerated lazily in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.layer_block import LAYER_AXES
from cann_plan.cost.layer_table import unique_rows
from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.choices import Choices, fixed
from cann_plan.planner.pairs import Pairs
from cann_plan.planner.space_layouts import divisors, layouts, stage_layers
from cann_plan.records import dataclass

Ints = NDArray[np.int64]

BLOCK = 32768
"""Strategies per block: few calls per strategy, temporaries that stay in cache."""

PASS_AXES = ("micro_batch_size", "policy", "recompute_layers")
STATE_AXES = ("zero_stage", "shard_group")


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of rows of values, several layouts sharing a list: `table` (rows, axes); `start` and `count` (L,) of each
    layout's rows, `before` (L,) the number of rows of all layouts before it.
    """

    table: Ints
    start: Ints
    count: Ints
    before: Ints

    @classmethod
    def of(cls, lists: Sequence[Ints], member: Ints) -> Ragged:
        """`member` (L,): which list each layout has."""
        sizes = np.array([len(rows) for rows in lists], np.int64)
        starts = np.cumsum(sizes) - sizes
        count = sizes[member]
        return cls(np.concatenate(lists), starts[member], count, np.cumsum(count) - count)

    def rows(self, low: int, high: int) -> tuple[Ints, Ints]:
        """(layout, row of `table`) of all rows of layouts low to high - 1."""
        layout = np.repeat(np.arange(low, high), self.count[low:high])
        place = np.arange(layout.shape[0]) - (self.before[layout] - self.before[low]) + self.start[layout]
        return layout, place


@dataclass(frozen=True, slots=True)
class Space:
    """`columns` maps an axis to an array (L,) of its value in each layout; layout l has `passes.count[l]` x
    `states.count[l]` strategies, of which `before[l]` precede it. `problem` knows the layer splits of the space.
    """

    problem: Problem
    columns: Mapping[str, Ints]
    passes: Ragged
    states: Ragged
    before: Ints

    def __len__(self) -> int:
        return int(self.before[-1])

    @property
    def base(self) -> int:
        """Number of layouts."""
        return int(self.before.shape[0]) - 1

    def pairs(self, start: int, stop: int) -> Pairs:
        """Strategies `start` to `stop` in enumeration order: layout slowest, training states fastest."""
        stop = min(stop, len(self))
        low = int(np.searchsorted(self.before, start, side="right")) - 1
        high = int(np.searchsorted(self.before, stop, side="left"))
        index = np.arange(start, stop)
        edges = np.clip(self.before[low : high + 1], start, stop)
        layout = np.repeat(np.arange(low, high), edges[1:] - edges[:-1])
        ahead, behind = np.divmod(index - self.before[layout], self.states.count[layout])
        ahead += self.passes.before[layout] - self.passes.before[low]
        behind += self.states.before[layout] - self.states.before[low]
        return Pairs(self._list(self.passes, PASS_AXES, low, high), self._list(self.states, STATE_AXES, low, high),
                     ahead, behind)  # fmt: skip

    def rows(self, start: int, stop: int) -> Strategies:
        """Strategies `start` to `stop` as a block."""
        pairs = self.pairs(start, stop)
        return pairs.strategies(np.arange(len(pairs)))

    def at(self, index: Ints) -> Strategies:
        """The strategies with some numbers, in their order."""
        layout = np.searchsorted(self.before, index, side="right") - 1
        ahead, behind = np.divmod(index - self.before[layout], self.states.count[layout])
        axes = {name: values[layout] for name, values in self.columns.items()}
        passes = self.passes.table[self.passes.start[layout] + ahead]
        states = self.states.table[self.states.start[layout] + behind]
        axes |= {name: passes[:, place] for place, name in enumerate(PASS_AXES)}
        axes |= {name: states[:, place] for place, name in enumerate(STATE_AXES)}
        return Strategies.of(**axes)

    def spans(self, size: int = BLOCK) -> list[tuple[int, int]]:
        """(first, one beyond the last) strategy of blocks of at most `size` that do not mix stage tables."""
        names = ("pipeline", "virtual", "schedule", "split")
        new = np.zeros(max(self.base - 1, 0), np.bool_)
        for name in names:
            new |= self.columns[name][1:] != self.columns[name][:-1]
        edges = [0, *self.before[1:-1][new].tolist(), len(self)]
        found = []
        for low, high in pairwise(edges):
            found += [(start, min(start + size, high)) for start in range(low, high, size)]
        return found

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, Strategies]]:
        """(index of the first row, block) in enumeration order."""
        for start in range(0, len(self), size):
            yield start, self.rows(start, start + size)

    def tried(self) -> dict[str, list[int]]:
        """Values of every axis in the space, ascending; -1 recomputed layers are all of a stage's."""
        values = {name: distinct(column).tolist() for name, column in self.columns.items()}
        for ragged, axes in ((self.passes, PASS_AXES), (self.states, STATE_AXES)):
            values |= {name: distinct(ragged.table[:, place]).tolist() for place, name in enumerate(axes)}
        return values

    def layers(self) -> Strategies:
        """One strategy of every combination of layer axes in the space."""
        names = [name for name in LAYER_AXES if name in self.columns]
        first, _ = unique_rows([*(self.columns[name] for name in names), self.passes.start])
        sizes: dict[int, Ints] = {}
        for start, count in zip(self.passes.start[first].tolist(), self.passes.count[first].tolist(), strict=True):
            if start not in sizes:
                sizes[start] = distinct(self.passes.table[start : start + count, PASS_AXES.index("micro_batch_size")])
        chosen = [sizes[start] for start in self.passes.start[first].tolist()]
        layout = np.repeat(first, [values.shape[0] for values in chosen])
        micro = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
        columns = [*(self.columns[name][layout] for name in names), micro]
        rows, _ = unique_rows(columns)
        axes = {name: values[layout[rows]] for name, values in self.columns.items()}
        return Strategies.of(**axes, micro_batch_size=micro[rows])

    def _list(self, ragged: Ragged, axes: tuple[str, ...], low: int, high: int) -> Strategies:
        layout, place = ragged.rows(low, high)
        own = {name: ragged.table[place, column] for column, name in enumerate(axes)}
        return Strategies.of(**{name: values[layout] for name, values in self.columns.items()}, **own)


def strategy_space(problem: Problem, choices: Choices | Mapping[str, int] | None = None) -> Space:
    """Every strategy worth a look; a mapping holds axes of the usual choices.

    Layer splits beyond the problem's own are in `Space.problem`, with which the space is evaluated.
    """
    if not isinstance(choices, Choices):
        choices = fixed(choices or {})
    columns, splits = layouts(problem, choices)
    passes = _passes(problem, choices, columns, stage_layers(problem, columns, splits, problem.recompute_scope))
    states = _states(problem, choices, columns)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(passes.count * states.count)])
    return Space(replace(problem, splits=splits), columns, passes, states, before)


def _passes(problem: Problem, choices: Choices, columns: Mapping[str, Ints], most: Ints) -> Ragged:
    """(micro-batch size, policy, recomputed layers) of each layout."""
    first, member = unique_rows([columns["data"], most])
    lists = []
    for row in first:
        share = problem.global_batch_size // int(columns["data"][row])
        micro = choices.micro_batches(share)
        amounts = recompute_amounts(choices, problem, int(most[row]))
        table = [(size, policy, layers) for size in micro for policy, layers in amounts]
        lists.append(np.asarray(table, np.int64).reshape(len(table), len(PASS_AXES)))
    return Ragged.of(lists or [np.zeros((0, len(PASS_AXES)), np.int64)], member)


def recompute_amounts(choices: Choices, problem: Problem, layers: int) -> list[tuple[int, int]]:
    """(policy, recomputed layers per stage or chunk; -1 all) for stages of at most `layers` layers, each once."""
    found: dict[tuple[int, int], None] = {}
    for policy, share in choices.recomputations(problem):
        if share < 0.0:
            amount = int(-share)
        elif share >= 1.0 or policy == 0:
            amount = -1
        else:
            amount = round(layers * share)
            if amount in (0, layers):
                continue
        found[policy, amount] = None
    return list(found)


def _states(problem: Problem, choices: Choices, columns: Mapping[str, Ints]) -> Ragged:
    """(ZeRO stage, shard group) of each layout."""
    names = ("tensor", "context", "data", "pipeline")
    keys = [columns[name] for name in names]
    first, member = unique_rows(keys)
    lists = []
    for row in first:
        tensor, context, data, pipeline = (int(columns[name][row]) for name in names)
        table = shardings(problem, choices, tensor, context * data, pipeline)
        lists.append(np.asarray(table, np.int64).reshape(len(table), len(STATE_AXES)))
    return Ragged.of(lists or [np.zeros((0, len(STATE_AXES)), np.int64)], member)


def shardings(problem: Problem, choices: Choices, tensor: int, ranks: int, pipeline: int) -> list[tuple[int, int]]:
    """(ZeRO stage, shard group) over a gradient group of `ranks`; group 0 is the whole of it.

    Gradients and parameters are sharded without a pipeline only: DeepSpeed's pipeline engine and Megatron's FSDP refuse
    it. Parameters may be sharded over the ranks of one node, or of a few, and replicated beyond.
    """
    stages: tuple[int, ...] = (0,)
    if ranks > 1:
        stages = (0, 1, 2, 3) if choices.whole else (1, 3)
        stages = stages if pipeline == 1 else stages[: 1 + stages.index(1)]
    table = []
    for stage in choices.of("zero_stage", stages):
        near = max(problem.devices_per_node // tensor, 1)
        parts = [g for g in divisors(ranks) if 1 < g < ranks and g in (near, 4 * near, 16 * near)]
        groups = [0, *parts] if stage == 3 and choices.whole else [0]
        table += [(stage, group) for group in choices.of("shard_group", groups)]
    return table

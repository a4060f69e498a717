"""The one path: a block of strategies to time, memory and feasibility. `estimate` sends one row, searches send many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.gradient_exchange import ExchangeCosts, exchange_costs
from cann_plan.cost.layer_block import LayerBlock, LayerIndex, layer_block
from cann_plan.cost.layer_table import unique_rows
from cann_plan.cost.memory import (
    PARTS,
    PassBytes,
    RankMemory,
    StandingBytes,
    device_bytes,
    memory_of,
    pass_bytes,
    rank_memory,
    standing_bytes,
)
from cann_plan.cost.passes import Passes, passes, recomputed_layers
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState, rank_state
from cann_plan.cost.stages import StageTable, stage_table
from cann_plan.cost.step import BREAKDOWN, OVERLAPPED, breakdown, step_time
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import REASONS, broken_constraint, broken_sharding
from cann_plan.planner.pairs import Pairs, group_columns, pairs_of
from cann_plan.records import dataclass

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

DOES_NOT_FIT = REASONS.index("device_memory")
HOST_DOES_NOT_FIT = REASONS.index("host_memory")


@dataclass(frozen=True, slots=True)
class Scores:
    """What a search compares, arrays (N,): seconds of a step, bytes of the fullest rank and node, `reason` as an index
    of `constraints.REASONS` (0: feasible). Rows that break a structural constraint hold NaN.
    """

    step: Array
    device_bytes: Array
    host_bytes: Array
    reason: Ints

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Rows that break no constraint and fit, (N,)."""
        good: NDArray[np.bool_] = self.reason == 0
        return good


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A block's results: every array has shape (N,); seconds, bytes, FLOPs.

    As `Scores`, with the parts of the step and of memory; `memory` has the worst rank's bytes by part.
    """

    step: Array
    breakdown: dict[str, Array]
    overlapped: dict[str, Array]
    critical_stage: Ints
    hardware_flops: Array
    memory: dict[str, Array]
    device_bytes: Array
    host_bytes: Array
    usable_bytes: Array
    peak_stage: Ints
    reason: Ints

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Rows that break no constraint and fit, (N,)."""
        good: NDArray[np.bool_] = self.reason == 0
        return good


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Memory of every pipeline rank of one strategy: the table it sits on and (1, p) arrays."""

    table: StageTable
    memory: RankMemory


@dataclass(frozen=True, slots=True)
class Group:
    """Passes and states on one stage table; `ahead`, `behind`: which pairs (n,) of them the rows `place` (n,) are."""

    table: StageTable
    passes: Passes
    kept: PassBytes  # (J, passes)
    state: RankState
    costs: ExchangeCosts
    held: StandingBytes  # (J, states)
    ahead: Ints
    behind: Ints
    place: Ints


def micro_batches(problem: Problem, strategies: Strategies) -> Ints:
    """Micro-batches per pipeline and step, (N,); at least 1."""
    per_micro = strategies.data * strategies.micro_batch_size
    slots: Ints = np.maximum(problem.global_batch_size // np.maximum(per_micro, 1), 1)
    return slots


def evaluate(problem: Problem, strategies: Strategies) -> Evaluation:
    """Time, memory and feasibility of N strategies; a row's result does not depend on the others."""
    pairs = pairs_of(strategies)
    reason = broken(problem, pairs)
    result = _empty(len(strategies), reason)
    for group in groups(problem, pairs, np.flatnonzero(reason == 0)):
        _write(problem, group, result)
    _judge(problem, result)
    return result


def score(problem: Problem, pairs: Pairs, layers: LayerIndex) -> Scores:
    """Step time, memory and feasibility of pairs, to the same bits as `evaluate`."""
    reason = broken(problem, pairs)
    step, device, host = (np.full(len(pairs), np.nan) for _ in range(3))
    for group in groups(problem, pairs, np.flatnonzero(reason == 0), layers):
        at, (ahead, behind) = group.place, (group.ahead, group.behind)
        step[at] = step_time(problem, group.table, group.passes, group.costs, group.state, ahead, behind).step
        bytes_of_ranks, host[at] = device_bytes(problem, group.held, group.kept, ahead, behind)
        device[at] = bytes_of_ranks.max(axis=0)
    result = Scores(step, device, host, reason)
    _judge(problem, result)
    return result


def broken(problem: Problem, pairs: Pairs) -> Ints:
    """Code of the first structural constraint each pair breaks, 0 for none, (N,)."""
    ahead, behind = broken_constraint(problem, pairs.passes), broken_sharding(pairs.states)
    first = ahead[pairs.ahead]
    result: Ints = np.where(first == 0, behind[pairs.behind], first)
    return result


def groups(problem: Problem, pairs: Pairs, rows: Ints, layers: LayerIndex | None = None) -> list[Group]:
    """The valid rows of a block, one group per stage table, with the tables of their passes and states."""
    if rows.shape[0] == 0:
        return []
    ahead, behind = pairs.ahead[rows], pairs.behind[rows]
    used_ahead, used_behind = distinct(ahead), distinct(behind)
    first, second = pairs.passes.take(used_ahead), pairs.states.take(used_behind)
    ahead, behind = np.searchsorted(used_ahead, ahead), np.searchsorted(used_behind, behind)
    block = layer_block(problem, first) if layers is None else layers.block
    row = block.row if layers is None else layers.rows(first)
    # any of the passes a state is paired with has its layers' sizes
    example = np.empty(len(second), np.int64)
    example[behind] = ahead
    sample, member = unique_rows(group_columns(first))
    member_behind = member[example]
    found = []
    for index in range(sample.shape[0]):
        mine, its = np.flatnonzero(member == index), np.flatnonzero(member_behind == index)
        place = np.flatnonzero(member[ahead] == index)
        number, number_behind = np.zeros(len(first), np.int64), np.zeros(len(second), np.int64)
        number[mine], number_behind[its] = np.arange(mine.shape[0]), np.arange(its.shape[0])
        tables = _tables(problem, block, first.take(mine), row[mine], second.take(its), row[example[its]])
        found.append(Group(*tables, number[ahead[place]], number_behind[behind[place]], rows[place]))
    return found


def _tables(
    problem: Problem, block: LayerBlock, first: Strategies, row: Ints, second: Strategies, its_row: Ints
) -> tuple[StageTable, Passes, PassBytes, RankState, ExchangeCosts, StandingBytes]:
    table = _stage_table(problem, first)
    made = passes(problem, first, block, row, table, micro_batches(problem, first))
    state = rank_state(problem, second, block, its_row, table)
    costs = exchange_costs(problem, second, state, table)
    held = standing_bytes(problem, second, block, its_row, table, state)
    return table, made, pass_bytes(problem, made.activations, table).columns(), state, costs, held.columns()


def _stage_table(problem: Problem, strategies: Strategies, *, all_ranks: bool = False) -> StageTable:
    """The one stage table of strategies that share it."""
    s = strategies
    return stage_table(
        problem.architecture, int(s.pipeline[0]), int(s.virtual[0]), problem.splits[int(s.split[0])],
        schedule=int(s.schedule[0]), all_ranks=all_ranks or bool((s.recompute_layers < -1).any()),
    )  # fmt: skip


def _empty(count: int, reason: Ints) -> Evaluation:
    def nan() -> Array:
        return np.full(count, np.nan)

    def zero() -> Ints:
        return np.zeros(count, np.int64)

    return Evaluation(
        nan(), {name: nan() for name in BREAKDOWN}, {name: nan() for name in OVERLAPPED}, zero(), nan(),
        {name: nan() for name in PARTS}, nan(), nan(), nan(), zero(), reason,
    )  # fmt: skip


def _judge(problem: Problem, result: Evaluation | Scores) -> None:
    """Replace the reason of rows that break no constraint by whether they fit."""
    valid = np.flatnonzero(result.reason == 0)
    fits = result.device_bytes[valid] <= problem.memory.visible
    held = result.host_bytes[valid] <= problem.offload.capacity
    result.reason[valid] = np.where(fits, np.where(held, 0, HOST_DOES_NOT_FIT), DOES_NOT_FIT)


def _write(problem: Problem, group: Group, result: Evaluation) -> None:
    """Evaluate the pairs of a group in full and write them at their places."""
    at, ahead, behind = group.place, group.ahead, group.behind
    time = step_time(problem, group.table, group.passes, group.costs, group.state, ahead, behind)
    parts, hidden = breakdown(problem, group.passes, time, ahead)
    result.step[at] = time.step
    for name in BREAKDOWN:
        result.breakdown[name][at] = parts[name]
    for name in OVERLAPPED:
        result.overlapped[name][at] = hidden[name]
    result.critical_stage[at] = group.passes.critical[ahead]
    result.hardware_flops[at] = group.passes.hardware_flops[ahead]
    memory = memory_of(problem, group.held.take(behind), group.kept.take(ahead), ranks_axis=0)
    device = memory.device
    worst = np.argmax(device, axis=0)
    pick = np.arange(at.shape[0])
    result.device_bytes[at] = device[worst, pick]
    result.host_bytes[at] = memory.host
    for name in PARTS:
        result.memory[name][at] = getattr(memory, name)[worst, pick]
    outside = memory.communicators[worst, pick] + memory.runtime[worst, pick]
    result.usable_bytes[at] = problem.memory.visible - outside
    result.peak_stage[at] = group.table.candidates[worst]


def stage_memory(problem: Problem, strategies: Strategies, row: int = 0) -> StageMemory:
    """Memory of every pipeline rank of one strategy, by the same functions as `evaluate`."""
    part = strategies.take(np.array([row]))
    block = layer_block(problem, part)
    table = _stage_table(problem, part, all_ranks=True)
    slots = micro_batches(problem, part)
    recomputed = recomputed_layers(problem, part, table)
    state = rank_state(problem, part, block, block.row, table)
    memory = rank_memory(problem, part, block, block.row, table, recomputed, state, slots, part.policy)
    return StageMemory(table, memory)

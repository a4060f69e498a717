"""The one path: a block of strategies to time, memory and feasibility. `estimate` sends one row, searches send many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.gradient_exchange import exchange_costs
from cann_plan.cost.layer_block import LayerBlock, LayerIndex, layer_block
from cann_plan.cost.layer_table import unique_rows
from cann_plan.cost.memory import (
    PARTS,
    RankMemory,
    device_bytes,
    memory_of,
    pass_bytes,
    rank_memory,
    standing_bytes,
)
from cann_plan.cost.memory_activations import rank_activations
from cann_plan.cost.passes import busy_seconds, passes
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import rank_state
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
    """Strategies on one stage table: passes `first` and states `second` with their rows of the layer table `block`, and
    the pairs (n,) of them that the rows `place` (n,) of a block are.
    """

    block: LayerBlock
    table: StageTable
    first: Strategies
    first_row: Ints
    second: Strategies
    second_row: Ints
    ahead: Ints
    behind: Ints
    place: Ints


def micro_batches(problem: Problem, strategies: Strategies) -> Ints:
    """Micro-batches per pipeline and step, (N,); at least 1."""
    per_micro = strategies.data * strategies.micro_batch_size
    slots: Ints = np.maximum(problem.global_batch_size // np.maximum(per_micro, 1), 1)
    return slots


def evaluate(problem: Problem, strategies: Strategies, layers: LayerIndex | None = None) -> Evaluation:
    """Time, memory and feasibility of N strategies; a row's result does not depend on the others.

    `layers`: a layer table that holds all their combinations of layer axes, where one is at hand.
    """
    pairs = pairs_of(strategies)
    reason = broken(problem, pairs)
    result = _empty(len(strategies), reason)
    for group in groups(problem, pairs, np.flatnonzero(reason == 0), layers):
        _write(problem, group, result)
    valid = np.flatnonzero(reason == 0)
    reason[valid] = unfit(problem, result.device_bytes[valid], result.host_bytes[valid])
    return result


def score(problem: Problem, pairs: Pairs, layers: LayerIndex | None = None, limit: float = np.inf) -> Scores:
    """Step time, memory and feasibility of pairs, to the same bits as `evaluate`; the time only of those that fit.

    A step whose busiest stage alone works longer than `limit` seconds is not worked out: its time is infinite.
    """
    reason = broken(problem, pairs)
    step, device, host = (np.full(len(pairs), np.nan) for _ in range(3))
    for group in groups(problem, pairs, np.flatnonzero(reason == 0), layers):
        block = group.block
        state = rank_state(problem, group.second, block, group.second_row, group.table)
        held = standing_bytes(problem, group.second, block, group.second_row, group.table, state)
        slots = micro_batches(problem, group.first)
        activations = rank_activations(problem, group.first, block, group.first_row, group.table, slots)
        kept = pass_bytes(problem, activations, group.table)
        ranks, nodes = device_bytes(problem, held, kept, group.ahead, group.behind)
        fullest = ranks.max(axis=0)
        device[group.place], host[group.place] = fullest, nodes
        reason[group.place] = unfit(problem, fullest, nodes)
        fits = np.flatnonzero(reason[group.place] == 0)
        if fits.shape[0]:
            step[group.place[fits]] = _steps(problem, group, fits, limit)
    return Scores(step, device, host, reason)


ROUNDING = 1e-9
"""Relative margin for the last bits in which a bound and the time it bounds may differ."""


def _steps(problem: Problem, group: Group, rows: Ints, limit: float) -> Array:
    """Seconds of a step of some of a group's pairs from their passes and states only; infinite beyond `limit`."""
    block, ahead, behind = group.block, group.ahead[rows], group.behind[rows]
    used = distinct(ahead)
    if np.isfinite(limit):
        first = group.first.take(used)
        slots = micro_batches(problem, first)
        busy = busy_seconds(problem, first, block, group.first_row[used], group.table, slots)
        within = busy * (1.0 - ROUNDING) + problem.compute.stack.step_s <= limit
        kept = np.flatnonzero(within[np.searchsorted(used, ahead)])
        result = np.full(rows.shape[0], np.inf)
        if kept.shape[0]:
            result[kept] = _steps(problem, group, rows[kept], np.inf)
        return result
    its = distinct(behind)
    first, second = group.first.take(used), group.second.take(its)
    made = passes(
        problem, first, block, group.first_row[used], group.table, micro_batches(problem, first), parts=False
    )  # fmt: skip
    state = rank_state(problem, second, block, group.second_row[its], group.table)
    costs = exchange_costs(problem, second, state, group.table)
    once = _kept_once(problem, group, first, group.first_row[used])
    ahead, behind = np.searchsorted(used, ahead), np.searchsorted(its, behind)
    return step_time(problem, group.table, made, once, costs, state, ahead, behind).step


def _kept_once(problem: Problem, group: Group, first: Strategies, row: Ints) -> Array | None:
    """Bytes of activations of one micro-batch, (J, passes); None where nothing is offloaded."""
    if not problem.offload.active:
        return None
    kept = rank_activations(problem, first, group.block, row, group.table, micro_batches(problem, first))
    return kept.kept / np.maximum(kept.in_flight, 1.0)


def broken(problem: Problem, pairs: Pairs) -> Ints:
    """Code of the first structural constraint each pair breaks, 0 for none, (N,)."""
    ahead, behind = broken_constraint(problem, pairs.passes), broken_sharding(pairs.states)
    first = ahead[pairs.ahead]
    result: Ints = np.where(first == 0, behind[pairs.behind], first)
    return result


def unfit(problem: Problem, device: Array, host: Array) -> Ints:
    """Why strategies do not fit, 0 where they do, (n,), from bytes of their fullest rank and node."""
    held = np.where(host <= problem.offload.capacity, 0, HOST_DOES_NOT_FIT)
    room = problem.memory.visible * problem.memory.limit
    result: Ints = np.where(device <= room, held, DOES_NOT_FIT)
    return result


def groups(problem: Problem, pairs: Pairs, rows: Ints, layers: LayerIndex | None = None) -> list[Group]:
    """The valid rows of a block, one group per stage table."""
    if rows.shape[0] == 0:
        return []
    ahead, behind = pairs.ahead[rows], pairs.behind[rows]
    used_ahead, used_behind = distinct(ahead), distinct(behind)
    first, second = pairs.passes.take(used_ahead), pairs.states.take(used_behind)
    ahead, behind = np.searchsorted(used_ahead, ahead), np.searchsorted(used_behind, behind)
    if layers is not None:
        block, row = layers.block, layers.rows(first)
    else:
        block = layer_block(problem, first)
        row = block.row
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
        part = first.take(mine)
        found.append(
            Group(
                block, _stage_table(problem, part), part, row[mine], second.take(its), row[example[its]],
                number[ahead[place]], number_behind[behind[place]], rows[place],
            )
        )  # fmt: skip
    return found


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


def _write(problem: Problem, group: Group, result: Evaluation) -> None:
    """Evaluate the pairs of a group in full and write them at their places."""
    at, ahead, behind = group.place, group.ahead, group.behind
    block, table = group.block, group.table
    slots = micro_batches(problem, group.first)
    made = passes(problem, group.first, block, group.first_row, table, slots)
    state = rank_state(problem, group.second, block, group.second_row, table)
    costs = exchange_costs(problem, group.second, state, table)
    activations = rank_activations(problem, group.first, block, group.first_row, table, slots)
    once = activations.kept / np.maximum(activations.in_flight, 1.0) if problem.offload.active else None
    time = step_time(problem, table, made, once, costs, state, ahead, behind)
    parts, hidden = breakdown(problem, made, time, ahead)
    result.step[at] = time.step
    for name in BREAKDOWN:
        result.breakdown[name][at] = parts[name]
    for name in OVERLAPPED:
        result.overlapped[name][at] = hidden[name]
    result.critical_stage[at] = made.critical[ahead]
    result.hardware_flops[at] = made.hardware_flops[ahead]
    held = standing_bytes(problem, group.second, block, group.second_row, table, state)
    memory = memory_of(problem, held.take(behind), pass_bytes(problem, activations, table).take(ahead))
    device = memory.device
    worst = np.argmax(device, axis=0)
    pick = np.arange(at.shape[0])
    result.device_bytes[at] = device[worst, pick]
    result.host_bytes[at] = memory.host
    for name in PARTS:
        result.memory[name][at] = getattr(memory, name)[worst, pick]
    outside = memory.communicators[worst, pick] + memory.runtime[worst, pick]
    result.usable_bytes[at] = problem.memory.visible - outside
    result.peak_stage[at] = table.candidates[worst]


def stage_memory(problem: Problem, strategies: Strategies, row: int = 0) -> StageMemory:
    """Memory of every pipeline rank of one strategy, by the same functions as `evaluate`."""
    part = strategies.take(np.array([row]))
    block = layer_block(problem, part)
    table = _stage_table(problem, part, all_ranks=True)
    slots = micro_batches(problem, part)
    state = rank_state(problem, part, block, block.row, table)
    memory = rank_memory(problem, part, block, block.row, table, state, slots)
    return StageMemory(table, memory)

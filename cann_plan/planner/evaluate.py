"""The one path: a block of strategies to time, memory and feasibility. `estimate` sends one row, searches send many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_block import layer_block
from cann_plan.cost.layer_table import unique_rows
from cann_plan.cost.memory import PARTS, RankMemory, rank_memory
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import rank_state
from cann_plan.cost.stages import StageTable, stage_table
from cann_plan.cost.step import BREAKDOWN, OVERLAPPED, step_time
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import REASONS, broken_constraint
from cann_plan.records import dataclass

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

DOES_NOT_FIT = REASONS.index("device_memory")
HOST_DOES_NOT_FIT = REASONS.index("host_memory")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A block's results: every array has shape (N,); seconds, bytes, FLOPs.

    `reason` indexes `constraints.REASONS` (0: feasible); rows that break a structural constraint hold NaN. `memory`
    has the worst rank's bytes by part.
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


def micro_batches(problem: Problem, strategies: Strategies) -> Ints:
    """Micro-batches per pipeline and step, (N,); at least 1."""
    per_micro = strategies.data * strategies.micro_batch_size
    slots: Ints = np.maximum(problem.global_batch_size // np.maximum(per_micro, 1), 1)
    return slots


def evaluate(problem: Problem, strategies: Strategies) -> Evaluation:
    """Time, memory and feasibility of N strategies; a row's result does not depend on the others."""
    count = len(strategies)
    result = _empty(count)
    reason = broken_constraint(problem, strategies)
    valid = np.flatnonzero(reason == 0)
    if valid.shape[0]:
        _evaluate_valid(problem, strategies.take(valid), valid, result)
    fits = result.device_bytes <= problem.memory.visible
    held = result.host_bytes <= problem.offload.capacity
    reason[valid] = np.where(fits[valid], np.where(held[valid], 0, HOST_DOES_NOT_FIT), DOES_NOT_FIT)
    result.reason[:] = reason
    return result


def _empty(count: int) -> Evaluation:
    def nan() -> Array:
        return np.full(count, np.nan)

    def zero() -> Ints:
        return np.zeros(count, np.int64)

    return Evaluation(
        nan(), {name: nan() for name in BREAKDOWN}, {name: nan() for name in OVERLAPPED}, zero(), nan(),
        {name: nan() for name in PARTS}, nan(), nan(), nan(), zero(), zero(),
    )  # fmt: skip


def _evaluate_valid(problem: Problem, strategies: Strategies, place: Ints, result: Evaluation) -> None:
    """Evaluate structurally valid rows and write them at `place`, one pass per (pipeline, virtual, split)."""
    block = layer_block(problem, strategies)
    first, group = unique_rows((strategies.pipeline, strategies.virtual, strategies.split))
    for index, sample in enumerate(first):
        rows = np.flatnonzero(group == index)
        part = strategies.take(rows)
        table = _table(problem, strategies, int(sample), all_ranks=bool((part.recompute_layers < -1).any()))
        slots = micro_batches(problem, part)
        row = block.row[rows]
        recomputed = table.recomputed(part.recompute_layers, problem.recompute_lists, problem.recompute_scope)
        recomputed = np.where((part.policy == 0)[:, None], 0, recomputed)
        state = rank_state(problem, part, block, row, table)
        time = step_time(problem, part, block, row, table, recomputed, state, slots, part.policy)
        memory = rank_memory(problem, part, block, row, table, recomputed, state, slots, part.policy)
        at = place[rows]
        result.step[at] = time.step
        for name in BREAKDOWN:
            result.breakdown[name][at] = time.breakdown[name]
        for name in OVERLAPPED:
            result.overlapped[name][at] = time.overlapped[name]
        result.critical_stage[at] = time.critical_stage
        result.hardware_flops[at] = time.hardware_flops
        device = memory.device
        worst = np.argmax(device, axis=1)
        pick = np.arange(rows.shape[0])
        result.device_bytes[at] = device[pick, worst]
        result.host_bytes[at] = memory.host
        for name in PARTS:
            result.memory[name][at] = getattr(memory, name)[pick, worst]
        outside = memory.communicators[pick, worst] + memory.runtime[pick, worst]
        result.usable_bytes[at] = problem.memory.visible - outside
        result.peak_stage[at] = table.candidates[worst]


def _table(problem: Problem, strategies: Strategies, row: int, *, all_ranks: bool) -> StageTable:
    return stage_table(
        problem.architecture, int(strategies.pipeline[row]), int(strategies.virtual[row]),
        problem.splits[int(strategies.split[row])], all_ranks=all_ranks,
    )  # fmt: skip


def stage_memory(problem: Problem, strategies: Strategies, row: int = 0) -> StageMemory:
    """Memory of every pipeline rank of one strategy, by the same functions as `evaluate`."""
    part = strategies.take(np.array([row]))
    block = layer_block(problem, part)
    table = _table(problem, part, 0, all_ranks=True)
    slots = micro_batches(problem, part)
    recomputed = table.recomputed(part.recompute_layers, problem.recompute_lists, problem.recompute_scope)
    recomputed = np.where((part.policy == 0)[:, None], 0, recomputed)
    state = rank_state(problem, part, block, block.row, table)
    memory = rank_memory(problem, part, block, block.row, table, recomputed, state, slots, part.policy)
    return StageMemory(table, memory)

"""A rank's tensors as a list of allocations over two steps, replayed through the framework's allocator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cann_plan.cost.memory import RankMemory
from cann_plan.cost.memory_allocator import Event, replay
from cann_plan.cost.pipeline_orders import Kind, Schedule, stage_orders
from cann_plan.cost.problem import Problem
from cann_plan.cost.recompute import Policy
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.memory_operators import operator_lists
from cann_plan.workload.operators.operator import Operator

GIB = 2.0**30
MOST_EVENTS = 120_000
"""Allocations replayed at most; longer steps are cut to fewer micro-batches."""


def replay_rank(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, memory: RankMemory, stage: int,
    micro_batches: int, *, expandable: bool, pool: str,
) -> dict[str, Any]:  # fmt: skip
    """What the allocator reserves for the rank's allocations of two steps, without a limit and within the device.

    `pool` unified: one pool without segments, whose reserve is what is allocated.
    """
    outside = float(memory.communicators[0, stage] + memory.runtime[0, stage])
    limit = problem.memory.visible - outside
    trace = list(_events(problem, strategies, table, recomputed, memory, stage, micro_batches))
    free = replay(trace, expandable=expandable or pool == "unified")
    bound = replay(trace, capacity=limit, expandable=expandable or pool == "unified")
    reserved = free.peak_allocated if pool == "unified" else free.peak_reserved
    return {
        "stage": stage,
        "allocations": len(trace),
        "pool": pool,
        "expandable_segments": expandable,
        "peak_allocated_gib": free.peak_allocated / GIB,
        "peak_reserved_gib": reserved / GIB,
        "fragmentation": reserved / free.peak_allocated - 1.0 if free.peak_allocated else 0.0,
        "predicted_fragmentation": problem.memory.fragmentation,
        "limit_gib": limit / GIB,
        "fits": bound.failed is None,
        "failed_at": bound.failed,
        "segments_given_back": bound.given_back,
    }


def _events(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, memory: RankMemory, stage: int,
    micro_batches: int,
) -> Iterator[Event]:  # fmt: skip
    """States, then two steps of the stage's passes; the optimizer's moments appear after the first."""
    layers = _layers(problem, strategies, table, recomputed, stage)
    count = max(sum(len(chunk) for chunk in layers.values()), 1)
    yield from _spread("weights", float(memory.weights[0, stage]), count)
    yield from _spread("gradients", float(memory.gradients[0, stage]), 1)
    optimizer, late = float(memory.optimizer[0, stage]), float(memory.late[0, stage])
    yield from _spread("master", optimizer - late, 1)
    yield from _spread("standing", float(memory.standing[0, stage]), 4)
    schedule = Schedule(SCHEDULES[int(strategies.schedule[0])])
    each = 8 * sum(len(operators) for chunk in layers.values() for operators, _ in chunk) + 1
    slots = max(min(micro_batches, MOST_EVENTS // (2 * each)), 1)
    slots = min(max(slots, min(micro_batches, table.pipeline)), micro_batches)
    if schedule is Schedule.INTERLEAVED:
        slots = max(slots // table.pipeline, 1) * table.pipeline if micro_batches >= table.pipeline else micro_batches
    for step in range(2):
        for operation in stage_orders(schedule, table.pipeline, slots, table.virtual)[stage]:
            for work in operation:
                tag = f"{step}.{work.micro_batch}.{work.chunk}"
                chunk = layers[work.chunk]
                if work.kind is Kind.FORWARD:
                    yield from _forward(chunk, tag)
                else:
                    # what the gradient of the weights needs stays until that pass
                    yield from _backward(
                        chunk, tag, runs=work.kind is not Kind.BACKWARD_WEIGHT,
                        frees=work.kind is not Kind.BACKWARD_INPUT,
                    )  # fmt: skip
        if step == 0:
            yield from _spread("moments", late, count)
        yield from _touch("update", float(memory.update[0, stage] - memory.states[0, stage]))


def _spread(name: str, size: float, pieces: int) -> Iterator[Event]:
    if size >= pieces:
        for index in range(pieces):
            yield Event(f"{name}.{index}", int(size / pieces))


def _touch(name: str, size: float) -> Iterator[Event]:
    if size >= 1.0:
        yield Event(name, int(size))
        yield Event(name, 0)


def _layers(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, stage: int
) -> dict[int, list[tuple[list[Operator], Policy]]]:
    """Operators and policy of every layer of every chunk of the stage, with the embedding and the head at the ends."""
    lists = operator_lists(problem, strategies)
    kinds = len(problem.architecture.kinds)
    plain, policy = problem.policies[0], problem.policies[int(strategies.policy[0])]
    sequence = problem.architecture.sequence
    chunks: dict[int, list[tuple[list[Operator], Policy]]] = {}
    last = table.sizes.shape[0] - 1
    for chunk in (int(chunk) for chunk in table.chunks_of(stage)):
        start, size, again = int(table.starts[chunk]), int(table.sizes[chunk]), int(recomputed[0, chunk])
        held = [
            (lists[sequence[start + index]], policy if index < again else plain) for index in range(size)
        ]  # fmt: skip
        if chunk == 0:
            held.insert(0, (lists[kinds], plain))
        if chunk == last:
            held.append((lists[kinds + 1], plain))
        chunks[chunk] = held
    return chunks


def _size(value: Any) -> int:
    return int(np.sum(value))


def _forward(chunk: list[tuple[list[Operator], Policy]], tag: str) -> Iterator[Event]:
    for index, (operators, policy) in enumerate(chunk):
        for operator in operators:
            for saved in policy.saved(operator):
                if not policy.drops(saved) and _size(saved.size):
                    yield Event(f"{tag}.{index}.{operator.name}.{saved.name}", _size(saved.size))
            yield from _touch(f"{tag}.{index}.{operator.name}.t", float(np.max(operator.forward_temporary)))


def _backward(
    chunk: list[tuple[list[Operator], Policy]], tag: str, *, runs: bool, frees: bool
) -> Iterator[Event]:  # fmt: skip
    for index, (operators, policy) in reversed(list(enumerate(chunk))):
        if runs:
            for operator in operators:
                for saved in policy.saved(operator):
                    if policy.drops(saved) and _size(saved.size):
                        yield Event(f"{tag}.{index}.{operator.name}.{saved.name}", _size(saved.size))
        for operator in reversed(operators):
            if runs:
                yield from _touch(f"{tag}.{index}.{operator.name}.g", float(np.max(operator.backward_temporary)))
            for saved in policy.saved(operator):
                if frees and _size(saved.size):
                    yield Event(f"{tag}.{index}.{operator.name}.{saved.name}", 0)

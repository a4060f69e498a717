"""Exact execution of one schedule for many rows at once, on fewer micro-batches.

Where no closed form is close enough, the dependency recurrence itself is evaluated: every pass in a fixed topological
order, each as one operation on arrays of rows. The schedule depends only on (stages, chunks, micro-batches), so the
order is prepared once. Its cost is 2 or 3 array operations per pass: about p * v * M * 3 of them, so callers cap M.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_orders import Kind, Operation, Schedule, stage_of, stage_orders
from cann_plan.records import dataclass

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 4096  # rows per pass over the program: two dozen arrays of this length stay in a core's cache

Token = tuple[int, int, int]  # (1 forward or -1 gradient of the input, supplying chunk, micro-batch)
Parts = tuple[tuple[int, int], ...]  # ((kind, chunk), ...) that run as one


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: which stage, which duration, what it waits for, what it supplies to another stage."""

    stage: int
    cost: int  # index into Program.costs
    waits: tuple[Token, ...]
    supplies: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A schedule's operations in an order in which every input precedes its consumer."""

    steps: tuple[Step, ...]
    costs: tuple[Parts, ...]  # distinct durations
    sends: tuple[bool, ...]  # whether an operation of that duration sends to another stage


def prepare(schedule: Schedule, stages: int, micro_batches: int, virtual: int) -> Program:
    """Topological order of a schedule. Raises ValueError as `stage_orders`, RuntimeError if operations deadlock."""
    chunks = stages * virtual
    orders = [
        [_step(schedule, stages, chunks, micro_batches, stage, operation) for operation in order]
        for stage, order in enumerate(stage_orders(schedule, stages, micro_batches, virtual))
    ]
    steps: list[Step] = []
    costs: dict[Parts, int] = {}
    sends: list[bool] = []
    ready: set[Token] = set()
    at = [0] * stages
    while sum(at) < sum(len(order) for order in orders):
        before = len(steps)
        for stage, order in enumerate(orders):
            while at[stage] < len(order):
                waits, supplies, parts = order[at[stage]]
                if any(token not in ready for token in waits):
                    break
                if parts not in costs:
                    costs[parts] = len(costs)
                    sends.append(bool(supplies))
                steps.append(Step(stage, costs[parts], waits, supplies))
                ready.update(supplies)
                at[stage] += 1
        if len(steps) == before:
            raise RuntimeError("the schedule's operations wait for each other")
    return Program(tuple(steps), tuple(costs), tuple(sends))


# A prepared pass takes 350 bytes: many programs up to 11 MB are kept, larger ones (to 100 MB) only while in use.
SMALL_PROGRAM = 32_000  # passes
_small = lru_cache(maxsize=32)(prepare)
_large = lru_cache(maxsize=2)(prepare)


def program(schedule: Schedule, stages: int, micro_batches: int, virtual: int) -> Program:
    """`prepare`, remembered."""
    small = 2 * stages * virtual * micro_batches <= SMALL_PROGRAM
    return (_small if small else _large)(schedule, stages, micro_batches, virtual)


def _step(
    schedule: Schedule, stages: int, chunks: int, m: int, stage: int, operation: Operation
) -> tuple[tuple[Token, ...], tuple[Token, ...], Parts]:
    """What an operation waits for from other stages, what it supplies to others, and what it costs."""
    waits: list[Token] = []
    supplies: list[Token] = []
    for kind, chunk, i in operation:
        if kind is Kind.BACKWARD_WEIGHT:
            continue
        way = 1 if kind is Kind.FORWARD else -1
        source, target = chunk - way, chunk + way
        if 0 <= source < chunks and stage_of(schedule, stages, source, i, m) != stage:
            waits.append((way, source, i))
        if 0 <= target < chunks and stage_of(schedule, stages, target, i, m) != stage:
            supplies.append((way, chunk, i))
    return tuple(waits), tuple(supplies), tuple((int(kind), chunk) for kind, chunk, _ in operation)


def slowest_stage(
    schedule: Schedule, forward: Floats, backward: Floats, weight: Floats, send: Floats, virtual: int, overlapped: bool
) -> Floats:
    """Seconds of the slowest stage per micro-batch with its blocking sends, (N,): the least pace of a pipeline."""
    chunks = forward.shape[1]
    stages = chunks // virtual
    work = forward + backward + weight
    halves = 2 if schedule is Schedule.DUALPIPE else 1
    total = np.zeros((forward.shape[0], stages))
    for micro_batch in range(halves):
        owner = [stage_of(schedule, stages, chunk, micro_batch, halves) for chunk in range(chunks)]
        for chunk, stage in enumerate(owner):
            seconds = work[:, chunk]
            if not overlapped and not schedule.fuses_passes:
                hops = [other for other in (chunk - 1, chunk + 1) if 0 <= other < chunks and owner[other] != stage]
                seconds = seconds + len(hops) * send
            total[:, stage] = total[:, stage] + seconds / halves
    return np.asarray(total.max(axis=1))


def recurrence_seconds(
    schedule: Schedule,
    forward: Floats,
    backward: Floats,
    weight: Floats,
    send: Floats,
    micro_batches: int,
    virtual: int,
    overlapped: bool,
) -> Floats:
    """Seconds of one step, exact, (N,).

    forward, backward (gradient of the input, or all of it with weight zero), weight: (N, p*v) seconds. send: (N,).
    """
    stages = forward.shape[1] // virtual
    plan = program(schedule, stages, micro_batches, virtual)
    result = np.empty(forward.shape[0])
    for start in range(0, forward.shape[0], ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        columns = tuple(np.ascontiguousarray(x[rows].T) for x in (forward, backward, weight))
        result[rows] = _run(plan, columns, np.ascontiguousarray(send[rows]), stages, overlapped)
    return result


def _run(plan: Program, columns: tuple[Floats, ...], send: Floats, stages: int, overlapped: bool) -> Floats:
    forward, to_input, to_weight = columns
    by_kind = (forward, to_input + to_weight, to_input, to_weight)
    costs: list[Floats] = []
    for parts, sends in zip(plan.costs, plan.sends, strict=True):
        seconds = by_kind[parts[0][0]][parts[0][1]]
        for kind, chunk in parts[1:]:
            seconds = seconds + by_kind[kind][chunk]
        costs.append(seconds + send if sends and not overlapped else seconds)
    clock = [np.zeros_like(send) for _ in range(stages)]
    ready: dict[Token, Floats] = {}
    for step in plan.steps:
        now = clock[step.stage]
        for token in step.waits:
            now = np.maximum(now, ready.pop(token))
        now = now + costs[step.cost]
        clock[step.stage] = now
        for token in step.supplies:
            ready[token] = now + send if overlapped else now
    end = clock[0]
    for other in clock[1:]:
        end = np.maximum(end, other)
    return end

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

Parts = tuple[tuple[int, int], ...]  # ((kind, chunk), ...) that run as one

NONE = -1  # no result waited for or supplied


@dataclass(frozen=True, slots=True)
class Program:
    """A schedule's operations in an order in which every input precedes its consumer.

    `steps` (S, 6): stage, place of the duration in `costs`, places of up to two results of other stages waited for and
    of up to two supplied to other stages. A place is used again once its result was taken; `places` in all.
    """

    steps: NDArray[np.int32]
    costs: tuple[Parts, ...]  # distinct durations
    sends: tuple[bool, ...]  # whether an operation of that duration sends to another stage
    places: int


def prepare(schedule: Schedule, stages: int, micro_batches: int, virtual: int) -> Program:
    """Topological order of a schedule. Raises ValueError as `stage_orders`, RuntimeError if operations deadlock."""
    chunks, m = stages * virtual, micro_batches
    halves = [[stage_of(schedule, stages, chunk, i, m) for chunk in range(chunks)] for i in (0, m - 1)]
    orders = stage_orders(schedule, stages, m, virtual)
    steps: list[tuple[int, ...]] = []
    costs: dict[Parts, int] = {}
    sends: list[bool] = []
    held: dict[int, int] = {}  # result supplied and not yet taken -> its place
    free: list[int] = []
    places = 0
    at = [0] * stages
    left = sum(len(order) for order in orders)
    while left:
        before = left
        for stage, order in enumerate(orders):
            while at[stage] < len(order):
                operation = order[at[stage]]
                waits, supplies = _exchanges(operation, stage, halves, chunks, m)
                if any(token not in held for token in waits):
                    break
                parts = tuple([(int(kind), chunk) for kind, chunk, _ in operation])
                cost = costs.get(parts)
                if cost is None:
                    cost = costs[parts] = len(costs)
                    sends.append(bool(supplies))
                taken = [held.pop(token) for token in waits]
                given = []
                for token in supplies:
                    if not free:
                        free.append(places)
                        places += 1
                    held[token] = free.pop()
                    given.append(held[token])
                free += taken
                steps.append((stage, cost, *taken, *[NONE] * (2 - len(taken)), *given, *[NONE] * (2 - len(given))))
                at[stage] += 1
                left -= 1
        if left == before:
            raise RuntimeError("the schedule's operations wait for each other")
    return Program(np.asarray(steps, np.int32), tuple(costs), tuple(sends), places)


def _exchanges(
    operation: Operation, stage: int, owners: list[list[int]], chunks: int, m: int
) -> tuple[list[int], list[int]]:
    """Results an operation waits for from other stages and supplies to others, as integers."""
    waits, supplies = [], []
    for kind, chunk, i in operation:
        if kind == Kind.BACKWARD_WEIGHT:
            continue
        owner = owners[2 * i >= m]  # only DualPipe's differs between the halves of the micro-batches
        way = 1 if kind == Kind.FORWARD else -1
        source, target = chunk - way, chunk + way
        side = chunks if way == 1 else 0
        if 0 <= source < chunks and owner[source] != stage:
            waits.append((side + source) * m + i)
        if 0 <= target < chunks and owner[target] != stage:
            supplies.append((side + chunk) * m + i)
    return waits, supplies


# A prepared pass takes 24 bytes: many programs up to 0.8 MB are kept, larger ones (to 7 MB) few.
SMALL_PROGRAM = 32_000  # passes
_small = lru_cache(maxsize=256)(prepare)
_large = lru_cache(maxsize=8)(prepare)


def program(schedule: Schedule, stages: int, micro_batches: int, virtual: int) -> Program:
    """`prepare`, remembered."""
    small = 2 * stages * virtual * micro_batches <= SMALL_PROGRAM
    return (_small if small else _large)(schedule, stages, micro_batches, virtual)


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
    clock = list(np.zeros((stages, send.shape[0])))
    ready = list(np.empty((plan.places, send.shape[0])))
    maximum, add = np.maximum, np.add
    lag = send if overlapped else np.zeros_like(send)
    for stage, cost, first, second, out, other in plan.steps.tolist():
        now = clock[stage]
        if first >= 0:
            maximum(now, ready[first], out=now)
            if second >= 0:
                maximum(now, ready[second], out=now)
        add(now, costs[cost], out=now)
        if out >= 0:
            add(now, lag, out=ready[out])
            if other >= 0:
                add(now, lag, out=ready[other])
    end = clock[0]
    for late in clock[1:]:
        end = maximum(end, late)
    return end

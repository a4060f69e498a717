"""Exact execution of a pipeline schedule: every pass of every micro-batch on every stage.

The closed forms of `pipeline` are proved against this simulator, and it supplies the timeline of a plan. It executes
each stage's ordered list of operations (`pipeline_orders`) as soon as their inputs are there; nothing is reordered.

Sends. Blocking (Megatron's default `overlap_p2p_comm = False`): after a forward or an input gradient whose consumer
is another stage, the sending stage is occupied for `send` seconds, and the consumer may start when the send has ended.
Overlapped: the sending stage goes on at once and only the consumer waits for `send` seconds more. Two passes that run
as one operation (DualPipe) send both results in one exchange.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.cost.pipeline_orders import Kind, Order, Schedule, chunks_per_stage, stage_of, stage_orders
from cann_plan.records import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row per pass, in order of execution stage by stage. Passes that run as one have equal start and end."""

    stage: Ints
    kind: Ints  # values of `Kind`
    chunk: Ints
    micro_batch: Ints
    start: Floats  # seconds
    end: Floats  # seconds, without a blocking send


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a step of the pipeline took. Arrays have one entry per stage."""

    makespan: float  # seconds
    busy: Floats  # seconds of compute
    sending: Floats  # seconds occupied by blocking sends
    idle: Floats  # seconds, makespan - busy - sending
    in_flight: Ints  # peak of chunk activations alive: from the start of the forward to the end of the last
    # backward pass that needs them (the weight gradient where the schedule splits it)
    chunk_in_flight: Ints  # the same per chunk in model order, (p*v,)
    timeline: Timeline


def simulate(
    schedule: Schedule,
    forward: ArrayLike,
    backward: ArrayLike,
    send: float,
    micro_batches: int,
    virtual: int = 1,
    backward_weight: ArrayLike | None = None,
    overlapped: bool = False,
) -> Simulation:
    """Execute one step.

    forward: (p*v,) seconds per chunk in model order. backward: likewise, the whole backward, or the gradient of the
    input alone when `backward_weight` (gradient of the weights, same shape) is given. send: seconds per hop between
    stages. Raises ValueError for shapes or counts that the schedule cannot have.
    """
    f = np.atleast_1d(np.asarray(forward, dtype=np.float64))
    b = np.atleast_1d(np.asarray(backward, dtype=np.float64))
    w = np.zeros_like(f) if backward_weight is None else np.atleast_1d(np.asarray(backward_weight, dtype=np.float64))
    v = chunks_per_stage(schedule, virtual)
    if f.ndim != 1 or f.shape != b.shape or f.shape != w.shape or f.size == 0 or f.size % v:
        raise ValueError(f"forward, backward and backward_weight need one shape, a multiple of {v}: {f.shape}")
    stages = f.size // v
    orders = stage_orders(schedule, stages, micro_batches, v)
    hop = [_hops(schedule, stages, chunk, f.size, micro_batches) * float(send) for chunk in range(f.size)]
    run = _Run(f.tolist(), (b + w).tolist(), b.tolist(), w.tolist(), hop, micro_batches, overlapped)
    records = run.execute(orders)
    return _summary(orders, records, run, f.size)


def _hops(schedule: Schedule, stages: int, chunk: int, chunks: int, m: int) -> int:
    """1 when the output of `chunk` has to be sent to another stage, 0 when its consumer is the same or none."""
    if chunk + 1 == chunks:
        return 0
    return int(stage_of(schedule, stages, chunk, 0, m) != stage_of(schedule, stages, chunk + 1, 0, m))


class _Run:
    """Mutable state of one execution; plain floats, since there is one operation at a time."""

    def __init__(
        self,
        forward: list[float],
        full: list[float],
        to_input: list[float],
        to_weight: list[float],
        hop: list[float],
        micro_batches: int,
        overlapped: bool,
    ) -> None:
        self.seconds = (forward, full, to_input, to_weight)
        self.chunks = len(forward)
        self.m = micro_batches
        self.down = hop  # seconds to send the output of chunk i
        self.up = [0.0, *hop[:-1]]  # seconds to send the input gradient of chunk i
        self.overlapped = overlapped
        # When the result of (direction, chunk, micro-batch) can be consumed; negative while it is not there.
        self.ready = ([-1.0] * (self.chunks * self.m), [-1.0] * (self.chunks * self.m))

    def execute(self, orders: list[Order]) -> list[list[tuple[float, float, float]]]:
        """(start, end of compute, end of send) of every operation of every stage."""
        records: list[list[tuple[float, float, float]]] = [[] for _ in orders]
        clock = [0.0] * len(orders)
        progress = True
        while progress:
            progress = False
            for stage, order in enumerate(orders):
                done = records[stage]
                while len(done) < len(order):
                    record = self.attempt(order[len(done)], clock[stage])
                    if record is None:
                        break
                    done.append(record)
                    clock[stage] = record[2]
                    progress = True
        if any(len(done) < len(order) for done, order in zip(records, orders, strict=True)):
            raise RuntimeError("the schedule's operations wait for each other")
        return records

    def attempt(self, operation: tuple[tuple[int, int, int], ...], clock: float) -> tuple[float, float, float] | None:
        """Execute an operation, or None when an input is not there yet."""
        m, forwards, backwards = self.m, self.ready[0], self.ready[1]
        start = clock
        seconds = send = 0.0
        for kind, chunk, i in operation:
            if kind == Kind.FORWARD:
                if chunk:
                    at = forwards[(chunk - 1) * m + i]
                    if at < 0.0:
                        return None
                    start = max(start, at)
                send = max(send, self.down[chunk])
            elif kind != Kind.BACKWARD_WEIGHT:
                at = backwards[(chunk + 1) * m + i] if chunk + 1 < self.chunks else forwards[chunk * m + i]
                if at < 0.0:
                    return None
                start = max(start, at)
                send = max(send, self.up[chunk])
            seconds += self.seconds[kind][chunk]
        end = start + seconds
        for kind, chunk, i in operation:
            if kind == Kind.FORWARD:
                forwards[chunk * m + i] = end + self.down[chunk]
            elif kind != Kind.BACKWARD_WEIGHT:
                backwards[chunk * m + i] = end + self.up[chunk]
        return start, end, (end if self.overlapped else end + send)


def _summary(
    orders: list[Order], records: list[list[tuple[float, float, float]]], run: _Run, chunks: int
) -> Simulation:
    rows: list[tuple[int, int, int, int]] = []
    times: list[tuple[float, float]] = []
    busy, sending = np.zeros(len(orders)), np.zeros(len(orders))
    in_flight, per_chunk = np.zeros(len(orders), dtype=np.int64), np.zeros(chunks, dtype=np.int64)
    makespan = 0.0
    for stage, (order, done) in enumerate(zip(orders, records, strict=True)):
        alive = 0
        chunk_alive: dict[int, int] = {}
        for operation, (start, end, free) in zip(order, done, strict=True):
            freed: list[int] = []
            busy[stage] += end - start
            sending[stage] += free - end
            for kind, chunk, i in operation:
                rows.append((stage, kind, chunk, i))
                times.append((start, end))
                if kind == Kind.FORWARD:
                    alive += 1
                    chunk_alive[chunk] = chunk_alive.get(chunk, 0) + 1
                    per_chunk[chunk] = max(per_chunk[chunk], chunk_alive[chunk])
                elif kind != Kind.BACKWARD_INPUT:
                    freed.append(chunk)
            in_flight[stage] = max(in_flight[stage], alive)
            for chunk in freed:
                alive -= 1
                chunk_alive[chunk] -= 1
        makespan = max(makespan, done[-1][1])
    columns = np.array(rows, dtype=np.int64)
    spans = np.array(times, dtype=np.float64)
    timeline = Timeline(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], spans[:, 0], spans[:, 1])
    return Simulation(makespan, busy, sending, makespan - busy - sending, in_flight, per_chunk, timeline)

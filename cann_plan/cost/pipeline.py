"""Seconds of one pass of all micro-batches through a pipeline, for blocks of strategies, any schedule.

Closed forms where they are close to the exact execution (`pipeline_simulator`), the exact recurrence on fewer
micro-batches where not; which of the two depends on a row's own values only, so a row costs the same figure alone or in
a block. `benchmarks/pipeline_accuracy.py` prints the errors and the speed.
"""

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_capped import capped_seconds
from cann_plan.cost.pipeline_dualpipe import dualpipe_v_seconds
from cann_plan.cost.pipeline_interleaved import interleaved_seconds
from cann_plan.cost.pipeline_one_f_one_b import gpipe_seconds, one_f_one_b_seconds
from cann_plan.cost.pipeline_orders import Schedule, chunks_per_stage, runnable, stage_of
from cann_plan.cost.pipeline_zb_v import zb_v_seconds
from cann_plan.cost.pipeline_zero_bubble import zb_h1_seconds
from cann_plan.records import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Spread of the slowest chunks (see `pipeline_interleaved`) up to which the closed form is used: the error can reach the
# spread itself (2.3% at a spread of 2.4%); up to this one 2,000 random cases stay within 1.4% of the simulator.
LARGEST_SPREAD = 0.02
# The closed form of the interleaved schedule assumes that a receiver's extra wait hides behind the schedule's slack of
# one pair per two hops; half of that is kept as a margin.
LARGEST_LAG = 0.25
# Rows of one pass over the closed forms: temporaries of about 100 KB stay in a core's cache and below the size from
# which the C library maps and clears fresh pages for each of them (three times as fast for p = 8 as 1 MB).
NUMBERS_AT_ONCE, ROWS_AT_LEAST = 15_000, 1_024


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """A step and what the busiest stage does in it; arrays (N,), seconds."""

    seconds: Floats
    critical_stage: Ints  # stage with the most compute
    busy: Floats  # compute of that stage
    sending: Floats  # blocking sends of that stage
    bubble: Floats  # the rest: seconds - busy - sending


def step_seconds(
    schedule: str,
    forward: Floats,
    backward: Floats,
    send: Floats,
    micro_batches: Ints,
    virtual: int = 1,
    backward_weight: Floats | None = None,
    overlapped: bool = False,
) -> Floats:
    """Seconds from the first forward to the last backward, (N,).

    schedule: a value of `Schedule`. forward, backward: (N, p*v) seconds per chunk in model order, v = `virtual` (2 for
    the V-shaped schedules). send: (N,) seconds per hop between stages. micro_batches: (N,) per step.
    backward_weight: the part of the backward that is the gradient of the weights, (N, p*v), `backward` then being the
    rest; zero-bubble and DualPipe schedules take half of `backward` without it (equal FLOPs in a matrix product).
    overlapped: a send delays the receiver only; otherwise it also occupies the sender (Megatron's default).
    Infinite where the framework refuses the number of micro-batches (`runnable`). Raises ValueError for shapes that do
    not fit each other or the schedule.
    """
    kind = Schedule(schedule)
    forward, backward, weight, v = _checked(kind, forward, backward, send, micro_batches, virtual, backward_weight)
    stages = forward.shape[1] // v
    result = np.full(forward.shape[0], np.inf)
    rows = np.flatnonzero(runnable(kind, stages, micro_batches))
    if rows.size == 0:
        return result
    if rows.size < result.size:
        forward, backward, weight = forward[rows], backward[rows], weight[rows]
    if stages == 1:
        result[rows] = micro_batches[rows] * (forward + backward + weight).sum(axis=1)
    else:
        result[rows] = _seconds(kind, forward, backward, weight, send[rows], micro_batches[rows], v, overlapped)
    return result


def step_parts(
    schedule: str,
    forward: Floats,
    backward: Floats,
    send: Floats,
    micro_batches: Ints,
    virtual: int = 1,
    backward_weight: Floats | None = None,
    overlapped: bool = False,
) -> PipelineStep:
    """The step with its busiest stage, that stage's compute, sends and bubble. Arguments of `step_seconds`."""
    kind = Schedule(schedule)
    seconds = step_seconds(schedule, forward, backward, send, micro_batches, virtual, backward_weight, overlapped)
    forward, backward, weight, v = _checked(kind, forward, backward, send, micro_batches, virtual, backward_weight)
    chunks = forward.shape[1]
    stages = chunks // v
    hops = _hops(kind, stages, chunks)
    work = forward + backward + weight
    per_stage, sends = np.zeros((forward.shape[0], stages)), np.zeros(stages)
    halves = 2 if kind is Schedule.DUALPIPE else 1  # its two replicas carry half of the micro-batches each
    for micro_batch in range(halves):
        for chunk in range(chunks):
            stage = stage_of(kind, stages, chunk, micro_batch, halves)
            per_stage[:, stage] = per_stage[:, stage] + work[:, chunk] / halves
            sends[stage] += (hops[chunk] + (hops[chunk - 1] if chunk else 0.0)) / halves
    critical = per_stage.argmax(axis=1)
    busy = micro_batches * per_stage[np.arange(critical.size), critical]
    rest = np.maximum(seconds - busy, 0.0)
    sending = np.zeros_like(busy) if overlapped else np.minimum(micro_batches * sends[critical] * send, rest)
    return PipelineStep(seconds, critical, busy, sending, rest - sending)


def _checked(
    kind: Schedule,
    forward: Floats,
    backward: Floats,
    send: Floats,
    micro_batches: Ints,
    virtual: int,
    weight: Floats | None,
) -> tuple[Floats, Floats, Floats, int]:
    """Forward, gradient of the input, gradient of the weights, chunks per stage."""
    v = chunks_per_stage(kind, virtual)
    if forward.ndim != 2 or forward.shape != backward.shape or (weight is not None and weight.shape != forward.shape):
        raise ValueError(f"forward and backward need one shape (N, p*v): {forward.shape}, {backward.shape}")
    if send.shape != forward.shape[:1] or micro_batches.shape != forward.shape[:1]:
        raise ValueError(f"send and micro_batches need shape {forward.shape[:1]}: {send.shape}, {micro_batches.shape}")
    if v != virtual:  # a V-shaped schedule given whole stages: two equal chunks each, in model order
        forward, backward = (np.repeat(x / v, v, axis=1) for x in (forward, backward))
        weight = None if weight is None else np.repeat(weight / v, v, axis=1)
    if forward.shape[1] == 0 or forward.shape[1] % v:
        raise ValueError(f"{forward.shape[1]} chunks do not divide into {v} per stage")
    if weight is None:
        weight = backward / 2.0 if kind.splits_backward else np.zeros_like(backward)
        backward = backward - weight
    return forward, backward, weight, v


def _hops(kind: Schedule, stages: int, chunks: int) -> Floats:
    """1 where a chunk's output goes to another stage, (p*v,)."""
    owner = np.array([stage_of(kind, stages, chunk, 0, 2) for chunk in range(chunks)])
    return np.append((owner[1:] != owner[:-1]).astype(np.float64), 0.0)


def _seconds(
    kind: Schedule,
    forward: Floats,
    backward: Floats,
    weight: Floats,
    send: Floats,
    micro_batches: Ints,
    v: int,
    overlapped: bool,
) -> Floats:
    """Closed forms for blocks of rows that fit a core's cache, then the recurrence for the rows that need it."""
    n, chunks = forward.shape
    if kind.fuses_passes and overlapped:  # zig-zags without slack: no closed form
        return capped_seconds(kind, forward, backward, weight, send, micro_batches, v, overlapped)
    result, exact = np.empty(n), np.zeros(n, dtype=np.bool_)
    size = max(NUMBERS_AT_ONCE // chunks, ROWS_AT_LEAST)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        parts = (forward[rows], backward[rows], weight[rows], send[rows], micro_batches[rows])
        result[rows], exact[rows] = _closed_form(kind, *parts, v, overlapped)
    again = np.flatnonzero(exact)
    if again.size:
        parts = (forward[again], backward[again], weight[again], send[again], micro_batches[again])
        recurrence = capped_seconds(kind, *parts, v, overlapped)
        # the closed form of the interleaved schedule is a lower bound, and exact for some slow transients
        result[again] = np.maximum(recurrence, result[again]) if kind is Schedule.INTERLEAVED else recurrence
    return result


def _closed_form(
    kind: Schedule,
    forward: Floats,
    backward: Floats,
    weight: Floats,
    send: Floats,
    micro_batches: Ints,
    v: int,
    overlapped: bool,
) -> tuple[Floats, NDArray[np.bool_]]:
    """(seconds, rows for which the form is not close enough), each (N,). Inputs (N, p*v)."""
    chunks = forward.shape[1]
    stages = chunks // v
    f, w = forward.T.copy(), weight.T
    b = backward.T.copy() if kind.splits_backward else (backward + weight).T.copy()
    m = micro_batches.astype(np.float64)
    if kind.fuses_passes:
        half = 2 if kind is Schedule.DUALPIPE else 1
        few = 2.0 * micro_batches < 5.0 * stages  # the form is 8% too slow at 2p, 2.5% just above it
        m = np.maximum(m, float(2 * stages + half))
        return dualpipe_v_seconds(f, b, w.copy(), send, m / half, half == 2), few
    lag = send if overlapped else None
    if not overlapped:
        hops = _hops(kind, stages, chunks)[:-1, None]
        f[:-1] += hops * send
        b[1:] += hops * send
    close = np.zeros(send.shape, dtype=np.bool_)
    if kind is Schedule.GPIPE:
        return gpipe_seconds(f, b, lag, m), close
    if kind is Schedule.ONE_F_ONE_B or (kind is Schedule.INTERLEAVED and v == 1):
        return one_f_one_b_seconds(f, b, lag, m), close
    if kind is Schedule.ZB_H1:
        return zb_h1_seconds(f, b, w.copy(), lag, np.maximum(m, stages)), micro_batches < stages
    if kind is Schedule.ZB_V:
        few = micro_batches < (5 if overlapped else 2) * stages  # zig-zags of overlapped sends: 2% at 4p
        return zb_v_seconds(f, b, w.copy(), lag, np.maximum(m, 2 * stages)), few
    seconds, spread = interleaved_seconds(f, b, lag, m, v)
    uneven = spread > LARGEST_SPREAD
    return seconds, uneven if lag is None else uneven | (lag > LARGEST_LAG * (f + b).min(axis=0))

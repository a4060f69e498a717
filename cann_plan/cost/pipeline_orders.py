"""The order in which each pipeline stage executes its passes, for every schedule, as frameworks run it.

Vocabulary: `p` stages (ranks), `v` chunks of the model per stage, `p * v` chunks in model order, `m` micro-batches.
A pass is one chunk's forward or backward of one micro-batch. Sources are named at each order.
"""

from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Schedule(StrEnum):
    """Pipeline schedules that the cost model and the simulator know."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZB_H1 = "zb-h1"
    ZB_V = "zb-v"
    DUALPIPE = "dualpipe"
    DUALPIPE_V = "dualpipe-v"

    @property
    def splits_backward(self) -> bool:
        """Whether the schedule separates the gradient of the weights from that of the input."""
        return self in _SPLITTING

    @property
    def fuses_passes(self) -> bool:
        """Whether a forward and a backward run as one operation with one exchange (DualPipe)."""
        return self in (Schedule.DUALPIPE, Schedule.DUALPIPE_V)


_SPLITTING = frozenset({Schedule.ZB_H1, Schedule.ZB_V, Schedule.DUALPIPE, Schedule.DUALPIPE_V})


class Kind(IntEnum):
    """What a pass computes."""

    FORWARD = 0
    BACKWARD = 1  # gradient of input and weights together
    BACKWARD_INPUT = 2
    BACKWARD_WEIGHT = 3


class Pass(NamedTuple):
    """One chunk's work for one micro-batch."""

    kind: Kind
    chunk: int
    micro_batch: int


# One entry of a stage's list: a pass, or two passes that run as one (DualPipe's overlapped forward and backward).
Operation = tuple[Pass, ...]
Order = list[Operation]


def chunks_per_stage(schedule: Schedule, virtual: int) -> int:
    """Chunks of the model order per stage, v. Raises ValueError for a count that the schedule cannot have."""
    if schedule is Schedule.INTERLEAVED:
        if virtual < 1:
            raise ValueError(f"virtual must be at least 1, not {virtual}")
        return virtual
    fixed = 2 if schedule in (Schedule.ZB_V, Schedule.DUALPIPE_V) else 1
    if virtual not in (1, fixed):
        raise ValueError(f"schedule {schedule} has {fixed} chunk(s) per stage, not {virtual}")
    return fixed


def stage_of(schedule: Schedule, stages: int, chunk: int, micro_batch: int, micro_batches: int) -> int:
    """Stage that executes `chunk` for `micro_batch` (only DualPipe, with its two replicas, depends on the latter)."""
    if schedule is Schedule.INTERLEAVED:
        return chunk % stages
    if schedule in (Schedule.ZB_V, Schedule.DUALPIPE_V):
        return chunk if chunk < stages else 2 * stages - 1 - chunk
    if schedule is Schedule.DUALPIPE and 2 * micro_batch >= micro_batches:
        return stages - 1 - chunk
    return chunk


def runnable(schedule: Schedule, stages: int, micro_batches: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the framework accepts the number of micro-batches, same shape.

    Interleaved: a multiple of p (Megatron-LM `get_pp_rank_microbatches` and argument checks). DualPipe: an even number,
    at least 2p, on an even number of stages; DualPipeV: at least 2p (asserts of github.com/deepseek-ai/DualPipe).
    """
    enough = np.asarray(micro_batches >= (2 * stages if schedule.fuses_passes else 1))
    if schedule is Schedule.INTERLEAVED:
        enough &= micro_batches % stages == 0
    if schedule is Schedule.DUALPIPE:
        enough &= (micro_batches % 2 == 0) & (stages % 2 == 0)
    return enough


def stage_orders(schedule: Schedule, stages: int, micro_batches: int, virtual: int = 1) -> list[Order]:
    """Operations of every stage in execution order.

    Raises ValueError for a combination that the frameworks refuse (`runnable`, `chunks_per_stage`).
    """
    v = chunks_per_stage(schedule, virtual)
    if not runnable(schedule, stages, np.array([micro_batches]))[0]:
        raise ValueError(f"{schedule} does not run {micro_batches} micro-batches on {stages} stages")
    return [_ORDERS[schedule](stages, rank, micro_batches, v) for rank in range(stages)]


def _forward(chunk: int, micro_batch: int) -> Operation:
    return (Pass(Kind.FORWARD, chunk, micro_batch),)


def _backward(chunk: int, micro_batch: int) -> Operation:
    return (Pass(Kind.BACKWARD, chunk, micro_batch),)


def _input(chunk: int, micro_batch: int) -> Operation:
    return (Pass(Kind.BACKWARD_INPUT, chunk, micro_batch),)


def _weight(chunk: int, micro_batch: int) -> Operation:
    return (Pass(Kind.BACKWARD_WEIGHT, chunk, micro_batch),)


def _gpipe(p: int, rank: int, m: int, v: int) -> Order:
    """All forwards, then all backwards (Huang et al. 2019, arXiv:1811.06965; order of PyTorch's ScheduleGPipe)."""
    return [_forward(rank, i) for i in range(m)] + [_backward(rank, i) for i in range(m)]


def _one_f_one_b(p: int, rank: int, m: int, v: int) -> Order:
    """Warm-up of min(p - rank - 1, m) forwards, then one forward and one backward in turn.

    Narayanan et al. 2021, arXiv:2104.04473; Megatron-LM `forward_backward_pipelining_without_interleaving`.
    """
    warm_up = min(p - rank - 1, m)
    order = [_forward(rank, i) for i in range(warm_up)]
    for i in range(m - warm_up):
        order += [_forward(rank, warm_up + i), _backward(rank, i)]
    return order + [_backward(rank, i) for i in range(m - warm_up, m)]


def interleaved_warm_up(stages: int, rank: int, micro_batches: int, virtual: int) -> int:
    """Chunk forwards before the first backward: min((p - rank - 1)*2 + (v - 1)*p, m*v).

    Megatron-LM `get_pp_rank_microbatches` with its default micro-batch group of p.
    """
    return min((stages - rank - 1) * 2 + (virtual - 1) * stages, micro_batches * virtual)


def _interleaved(p: int, rank: int, m: int, v: int) -> Order:
    """Megatron-LM `forward_backward_pipelining_with_interleaving`: groups of p micro-batches walk the v chunks.

    Narayanan et al. 2021, arXiv:2104.04473, section 2.2; chunk order of Megatron-LM `get_schedule_table`. With one
    chunk a stage Megatron runs plain 1F1B.
    """
    if v == 1:
        return _one_f_one_b(p, rank, m, v)
    table = [
        (start + i, slot * p + rank) for start in range(0, m, p) for slot in range(v) for i in range(min(p, m - start))
    ]
    forwards = [_forward(chunk, i) for i, chunk in table]
    backwards = [_backward((v - 1 - chunk // p) * p + rank, i) for i, chunk in table]
    warm_up = interleaved_warm_up(p, rank, m, v)
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[m * v - warm_up :]


def _zb_h1(p: int, rank: int, m: int, v: int) -> Order:
    """1F1B whose weight gradients run `rank` micro-batches late, so that all stages hold p micro-batches.

    Qi et al. 2023, arXiv:2401.10241, section 2.1 (ZB-H1); the delay is that of the authors' Megatron fork
    (sail-sg/zero-bubble-pipeline-parallelism, `schedules.py`, "delay W by rank").
    """
    order: Order = []
    for operation in _one_f_one_b(p, rank, m, v):
        kind, chunk, i = operation[0]
        if kind is Kind.FORWARD:
            order.append(operation)
            continue
        order.append(_input(chunk, i))
        if i >= rank:
            order.append(_weight(chunk, i - rank))
    return order + [_weight(rank, i) for i in range(max(m - rank, 0), m)]


def _zb_v(p: int, rank: int, m: int, v: int) -> Order:
    """Two chunks a stage in a V, hand-made order of Qi et al. 2023, arXiv:2401.10241, section 6.

    The order is the fixed one of PyTorch `ScheduleZBVZeroBubble`: it plans for at least 2p - 1 micro-batches and drops
    the passes of those that do not exist.
    """
    first, last = rank, 2 * p - 1 - rank
    planned = max(2 * p - 1, m)
    order: Order = []
    count = {first: [0, 0, 0], last: [0, 0, 0]}  # forwards, input gradients, weight gradients so far

    def add(make: Callable[[int, int], Operation], which: int, chunk: int) -> None:
        order.append(make(chunk, count[chunk][which]))
        count[chunk][which] += 1

    def triple(chunk: int, forward: bool = True) -> None:
        if forward:
            add(_forward, 0, chunk)
        add(_input, 1, chunk)
        add(_weight, 2, chunk)

    for _ in range(2 * (p - rank) - 1):
        add(_forward, 0, first)
    for _ in range(rank):
        add(_forward, 0, last)
        add(_forward, 0, first)
    for _ in range(p - rank):
        triple(last)
    while count[last][0] < count[first][0] or count[first][0] < planned:
        triple(first, forward=count[first][0] < planned)
        triple(last)
    for _ in range(rank):
        add(_input, 1, first)
        add(_input, 1, last)
    for _ in range(p - rank):
        add(_input, 1, first)
        add(_weight, 2, first)
    for chunk in (last, first):
        while count[chunk][2] < count[chunk][1]:
            add(_weight, 2, chunk)
    return [operation for operation in order if operation[0].micro_batch < m]


def _bidirectional(p: int, rank: int, m: int, near: tuple[int, int], far: tuple[int, int]) -> Order:
    """DualPipe's eight steps on p "ranks" counted from the turning point, m micro-batches in each direction.

    `near` and `far` are (chunk, first micro-batch) of the direction entering first and second. DeepSeek-V3 report,
    arXiv:2412.19437, section 3.2.1; steps of github.com/deepseek-ai/DualPipe `dualpipe.py` and `dualpipev.py`.
    """
    order: Order = []
    forwards, backwards = [0, 0], [0, 0]
    pending: list[Operation] = []
    sides = (near, far)

    def forward(side: int) -> Pass:
        chunk, first = sides[side]
        forwards[side] += 1
        return Pass(Kind.FORWARD, chunk, first + forwards[side] - 1)

    def backward(side: int, split: bool = False) -> Pass:
        chunk, first = sides[side]
        i = first + backwards[side]
        backwards[side] += 1
        if split:
            pending.append(_weight(chunk, i))
        return Pass(Kind.BACKWARD_INPUT if split else Kind.BACKWARD, chunk, i)

    for _ in range((p - rank - 1) * 2):  # 1: nF0
        order.append((forward(0),))
    for _ in range(rank + 1):  # 2: nF0F1
        order += [(forward(0),), (forward(1),)]
    for _ in range(p - rank - 1):  # 3: nB1W1F1
        order.append((backward(1, split=True),))
        order += [pending.pop(0), (forward(1),)]
    for i in range(m - 2 * p + rank + 1):  # 4: nF0B1F1B0, the first pair of the turning rank not overlapped
        if i == 0 and rank == p - 1:
            order += [(forward(0),), (backward(1),)]
        else:
            order.append((forward(0), backward(1)))
        order.append((forward(1), backward(0)))
    for _ in range(p - rank - 1):  # 5: nB1F1B0
        order += [(backward(1),), (forward(1), backward(0))]
    split = False
    for i in range(rank + 1):  # 6: nB1B0, the second half with split backwards
        split = split or (i == (rank + 1) // 2 and rank % 2 == 1)
        order.append((backward(1, split),))
        split = split or (i == (rank + 1) // 2 and rank % 2 == 0)
        order.append((backward(0, split),))
    for _ in range(p - rank - 1):  # 7: nWB0
        order += [pending.pop(0), (backward(0, split=True),)]
    return order + pending  # 8: nW


def _dualpipe(p: int, rank: int, m: int, v: int) -> Order:
    """Two replicas of the model in opposite directions; half of the micro-batches enter at each end."""
    half = m // 2
    near, far = (rank, 0), (p - 1 - rank, half)
    if rank >= p // 2:
        near, far = far, near
    return _bidirectional(p // 2, min(rank, p - 1 - rank), half, near, far)


def _dualpipe_v(p: int, rank: int, m: int, v: int) -> Order:
    """DualPipe cut in half: stage `rank` holds chunks `rank` and `2p - 1 - rank` of one model."""
    return _bidirectional(p, rank, m, (rank, 0), (2 * p - 1 - rank, 0))


_ORDERS: dict[Schedule, Callable[[int, int, int, int], Order]] = {
    Schedule.GPIPE: _gpipe,
    Schedule.ONE_F_ONE_B: _one_f_one_b,
    Schedule.INTERLEAVED: _interleaved,
    Schedule.ZB_H1: _zb_h1,
    Schedule.ZB_V: _zb_v,
    Schedule.DUALPIPE: _dualpipe,
    Schedule.DUALPIPE_V: _dualpipe_v,
}

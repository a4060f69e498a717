"""Closed form of the interleaved 1F1B schedule (Megatron-LM order) for uneven chunks.

The longest path stays on one stage r for its whole work, m times the seconds of its chunks, apart from how it gets
there and how it leaves. "How it gets there" is X_f(r) = arrival at one of r's passes minus r's own work before it,
the largest of these arrivals:

- through the forwards of the warm-up. A block is the p forwards of one chunk on one stage; a path enters a block on
  the stage where it left the previous one, or goes on along the chain of chunks, spends p - 1 steps on the slowest
  stage it passes, and leaves. E_c(r), the end of block c on stage r, follows from E_{c-1} by two running maxima.
- with the first backward, which comes back to r after the last chunk's forward.
- with the second group's chunk 1, over the wrap from the last stage, having spent the first steady block near the end.

Leaving is the mirror image, forwards and backwards exchanged. The step is max_r m t_r + X_f(r) + X_b(r).

Every such path exists, so the form is a lower bound but for the partial blocks; it is close where one stage is the
slowest in every chunk. `spread` tells how far from that a row is: the seconds by which the slowest chunks, taken
together, exceed the slowest stage, as a fraction of the step.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def interleaved_seconds(
    forward: Floats, backward: Floats, lag: Floats, micro_batches: Ints, virtual: int
) -> tuple[Floats, Floats]:
    """(seconds, spread) of an interleaved step, each (N,).

    forward, backward: (N, p*v) seconds in model order with v = virtual >= 2, including the sender's part of a send.
    lag: (N,) seconds a receiver waits more. micro_batches: (N,) multiples of p.
    """
    n, chunks = forward.shape
    p = chunks // virtual
    rank, m = np.arange(p), micro_batches[:, None]
    by_stage = (forward + backward).reshape(n, virtual, p)
    stage = by_stage[:, 0]
    for chunk in range(1, virtual):
        stage = stage + by_stage[:, chunk]
    # forwards from block v - 1 on, up to and including the first of the steady phase
    rest = np.minimum(2 * (p - 1 - rank) + (virtual - 1) * p + 1, m * virtual) - (virtual - 1) * p
    enter = _arrival(forward, backward, lag, m, rest, virtual)
    leave = _arrival(backward, forward, lag, m, rest, virtual)
    ends = np.maximum(enter[1], enter[2]) + np.maximum(leave[1], leave[2])
    # a stage whose forwards all precede its backwards: the first backward returning and the last forward leaving
    # exclude each other
    apart = np.maximum(enter[1] + leave[1], np.maximum(enter[2] + leave[0], enter[0] + leave[2]))
    mixed = rest < m * virtual - (virtual - 1) * p
    seconds = (m * stage + np.where(mixed, ends, apart)).max(axis=1)
    slowest = _sum_of_slowest(forward, n, virtual, p) + _sum_of_slowest(backward, n, virtual, p)
    return seconds, micro_batches * (slowest - stage.max(axis=1)) / seconds


def _sum_of_slowest(seconds: Floats, n: int, virtual: int, p: int) -> Floats:
    """Sum over chunk slots of the slowest stage's seconds, (N,)."""
    slowest = seconds.reshape(n, virtual, p).max(axis=2)
    total = slowest[:, 0]
    for chunk in range(1, virtual):
        total = total + slowest[:, chunk]
    return total


def _arrival(
    forward: Floats, backward: Floats, lag: Floats, m: Ints, rest: Ints, virtual: int
) -> tuple[Floats, Floats, Floats]:
    """Seconds by which a path arrives later than each stage's own work, (N, p) each.

    First: through the whole blocks of the warm-up. Second: through all of the warm-up. Third: later.
    """
    n, chunks = forward.shape
    p = chunks // virtual
    f, b = forward.reshape(n, virtual, p), backward.reshape(n, virtual, p)
    hop = lag[:, None]
    chain = (np.cumsum(forward, axis=1) + np.arange(chunks) * hop).reshape(n, virtual, p)
    own = np.zeros((n, p))  # this stage's work in the blocks so far
    entry, spent, end = np.zeros((n, p)), np.full((n, p), -np.inf), np.zeros((n, p))
    whole = np.full((n, p), -np.inf)
    before_last = own
    for chunk in range(virtual):
        if chunk:
            start = np.maximum(end - (chain[:, chunk] - f[:, chunk]), entry[:, -1:])
            entry = np.maximum.accumulate(start, axis=1)
        spent = np.maximum.accumulate(np.maximum(entry + (p - 1) * f[:, chunk], spent[:, -1:]), axis=1)
        end = chain[:, chunk] + spent
        before_last = own
        own = own + p * f[:, chunk]
        if chunk < virtual - 1:
            whole = np.maximum(whole, end - own)
    last = np.minimum(rest, p)
    own_last = before_last + last * f[:, -1]
    slowest = np.maximum.accumulate(forward, axis=1).reshape(n, virtual, p)[:, -1]
    partial = chain[:, -1] + np.maximum(entry + (last - 1) * f[:, -1], (last - 1) * slowest)
    through = np.maximum(whole, np.where(rest >= p, end - own, partial - own_last))
    # first backward: the last chunk's first forward, then backwards from the last stage to this one
    rank = np.arange(p)
    back = np.cumsum(b[:, -1, ::-1], axis=1)[:, ::-1] + (p - 1 - rank) * hop
    turn = (chain[:, -1] + entry)[:, -1:]
    first = turn + back - b[:, -1] - own_last - (rest - last) * f[:, 0]
    return whole, through, np.maximum(first, _over_the_wrap(f, b, hop, chain, turn + back, own, m > p))


def _over_the_wrap(
    f: Floats, b: Floats, hop: Floats, chain: Floats, first: Floats, own: Floats, groups: NDArray[np.bool_]
) -> Floats:
    """Arrival of the second group's chunk 1 after the first steady block on stage j, the best j near the end, (N, p).

    first: arrival of the first backward, (N, p). groups: whether there is a second group, (N, 1).
    """
    p = f.shape[2]
    rank = np.arange(p)
    pairs = p - 2 * (p - 1 - rank)  # of the last chunk on stage j before its first forward of the second group
    to_end = chain[:, 0, -1:] - (chain[:, 0] - f[:, 0])
    wrapped = np.where((pairs >= 1) & groups, first + (pairs - 1) * (f[:, -1] + b[:, -1]) + to_end, -np.inf)
    at_first = wrapped.max(axis=1)[:, None] + hop
    arrival = at_first + chain[:, 1] - (chain[:, 1] - f[:, 1])[:, :1]
    done = np.minimum(2 + 2 * rank, p)  # backwards of this stage before it, last chunk, then the one before
    return arrival - own - p * f[:, 0] - f[:, 1] - done * b[:, -1] - (2 + 2 * rank - done) * b[:, -2]

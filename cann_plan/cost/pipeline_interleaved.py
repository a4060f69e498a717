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

from cann_plan.cost.pipeline_scan import running_max, running_sum, suffix_sum

Floats = NDArray[np.float64]


def interleaved_seconds(
    forward: Floats, backward: Floats, lag: Floats | None, micro_batches: Floats, virtual: int
) -> tuple[Floats, Floats]:
    """(seconds, spread) of an interleaved step, each (N,).

    forward, backward: (p*v, N) seconds in model order with v = virtual >= 2, including the sender's part of a send.
    lag: (N,) seconds a receiver waits more for an overlapped send, None when sends block. micro_batches: (N,) multiples
    of p.
    """
    chunks, n = forward.shape
    p, m = chunks // virtual, micro_batches
    f, b = forward.reshape(virtual, p, n), backward.reshape(virtual, p, n)
    stage = f[0] + b[0]
    for chunk in range(1, virtual):
        stage = stage + (f[chunk] + b[chunk])
    # forwards from block v - 1 on, up to and including the first of the steady phase
    before_last = (virtual - 1) * p
    rest = np.minimum(2 * (p - 1 - np.arange(float(p))[:, None]) + before_last + 1, m * virtual) - before_last
    enter = _arrival(f, b, lag, m, rest)
    leave = _arrival(b, f, lag, m, rest)
    ends = np.maximum(enter[1], enter[2]) + np.maximum(leave[1], leave[2])
    # a stage whose forwards all precede its backwards: the first backward returning and the last forward leaving
    # exclude each other
    mixed = rest < m * virtual - before_last
    if not mixed.all():
        apart = np.maximum(enter[1] + leave[1], np.maximum(enter[2] + leave[0], enter[0] + leave[2]))
        ends = np.where(mixed, ends, apart)
    seconds = np.asarray((m * stage + ends).max(axis=0))
    slowest = np.zeros(n)
    for chunk in range(virtual):
        slowest = slowest + (f[chunk].max(axis=0) + b[chunk].max(axis=0))
    return seconds, m * (slowest - stage.max(axis=0)) / seconds


def _arrival(f: Floats, b: Floats, lag: Floats | None, m: Floats, rest: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds by which a path arrives later than each stage's own work, (p, N) each; f, b: (v, p, N).

    First: through the whole blocks of the warm-up. Second: through all of the warm-up. Third: later.
    """
    virtual, p, n = f.shape
    chain = running_sum(f.reshape(virtual * p, n))
    if lag is not None:
        chain = chain + np.arange(virtual * p)[:, None] * lag
    chain = chain.reshape(virtual, p, n)
    own = np.zeros((p, n))  # this stage's work in the blocks so far
    entry, spent, end = np.zeros((p, n)), np.full((p, n), -np.inf), own
    whole, before_last = spent, own
    for chunk in range(virtual):
        if chunk:
            start = end - (chain[chunk] - f[chunk])
            np.maximum(start[0], entry[-1], out=start[0])
            entry = running_max(start)
        stays = entry + (p - 1) * f[chunk]
        np.maximum(stays[0], spent[-1], out=stays[0])
        spent = running_max(stays)
        end = chain[chunk] + spent
        before_last = own
        own = own + p * f[chunk]
        if chunk < virtual - 1:
            whole = np.maximum(whole, end - own)
    last = np.minimum(rest, p)
    own_last = before_last + last * f[-1]
    earlier = f[0].max(axis=0)
    for chunk in range(1, virtual - 1):
        earlier = np.maximum(earlier, f[chunk].max(axis=0))
    slowest = np.maximum(running_max(f[-1]), earlier)
    partial = chain[-1] + np.maximum(entry + (last - 1) * f[-1], (last - 1) * slowest)
    through = np.maximum(whole, np.where(rest >= p, end - own, partial - own_last))
    # first backward: the last chunk's first forward, then backwards from the last stage to this one
    back = suffix_sum(b[-1])
    if lag is not None:
        back = back + (p - 1 - np.arange(p)[:, None]) * lag
    returned = chain[-1, -1] + entry[-1] + back
    first = returned - b[-1] - own_last - (rest - last) * f[0]
    return whole, through, np.maximum(first, _over_the_wrap(f, b, lag, chain, returned, own, m > p))


def _over_the_wrap(
    f: Floats, b: Floats, lag: Floats | None, chain: Floats, first: Floats, own: Floats, groups: NDArray[np.bool_]
) -> Floats:
    """Arrival of the second group's chunk 1 after the first steady block on stage j, the best j near the end, (p, N).

    first: arrival of the first backward, (p, N). groups: whether there is a second group, (N,).
    """
    p = f.shape[1]
    rank = np.arange(float(p))[:, None]
    near = slice(p // 2, p)
    pairs = 2 * rank[near] - p + 2  # of the last chunk on stage j before its first forward of the second group
    to_end = chain[0, -1] - (chain[0] - f[0])[near]
    wrapped = first[near] + (pairs - 1) * (f[-1] + b[-1])[near] + to_end
    at_first = np.where(groups, wrapped.max(axis=0), -np.inf) + (0.0 if lag is None else lag)
    arrival = at_first + chain[1] - (chain[1] - f[1])[0]
    done = np.minimum(2 + 2 * rank, p)  # backwards of this stage before it, last chunk, then the one before
    return np.asarray(arrival - own - p * f[0] - f[1] - done * b[-1] - (2 + 2 * rank - done) * b[-2])

"""Closed form of the zero-bubble schedule ZB-V (Qi et al. 2023, arXiv:2401.10241, section 6) for uneven chunks.

Stage r holds a near chunk r and a far chunk 2p - 1 - r. The longest path spends its time on one stage h, m t(h), apart
from how it gets there, X, and how it leaves, Z; both are seconds beyond the stage's own work before and after, whose
passes are counted from the order (`pipeline_orders`). X is the largest of the arrivals at one of h's passes: near
forwards of the warm-up; the first far forward, coming back through stages that may have spent their warm-up in near
forwards; the first far backward; far forward p - 1 and the first near backward, both having spent the passes before it
on a stage nearer the turn. Z is the largest of: staying (0); following the last far backward to a stage nearer the
turn, and the last near backward from there to a stage e; leaving with a near backward p - 1 - e earlier and spending
e's drain.

Each of these paths exists, so the form is a lower bound. It needs m >= 2p: with fewer there is no steady phase.
"""

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_scan import follow, running_max, running_sum, suffix_max

Floats = NDArray[np.float64]


def zb_v_seconds(
    forward: Floats, backward: Floats, weight: Floats, lag: Floats | None, micro_batches: Floats
) -> Floats:
    """Seconds of a ZB-V step with m >= 2p, (N,).

    forward, backward (gradient of the input), weight: (2p, N) seconds in model order, including the sender's part of a
    send. lag: (N,) seconds a receiver waits more for an overlapped send, None when sends block. micro_batches: (N,).
    """
    p = forward.shape[0] // 2
    forwards, backwards, weights = ((x[:p], x[p:][::-1]) for x in (forward, backward, weight))
    stage = (forwards[0] + forwards[1]) + (backwards[0] + backwards[1]) + (weights[0] + weights[1])
    enter = _entering(forwards, backwards, weights, lag)
    leave = _leaving(backwards, weights, lag)
    return np.asarray((micro_batches * stage + enter + leave).max(axis=0))


Pair = tuple[Floats, Floats]  # of the near and the far chunks of the stages, (p, N) each


def _entering(forwards: Pair, backwards: Pair, weights: Pair, lag: Floats | None) -> Floats:
    (f0, f1), (b0, b1), (_, w1) = forwards, backwards, weights
    p = f0.shape[0]
    rank = np.arange(float(p))[:, None]
    hop = 0.0 if lag is None else lag
    first = 2 * (p - rank) - 1  # near forwards before the first far one
    warm = running_sum(f0) + rank * hop + (first - 1) * running_max(f0)
    far = follow(warm, f1, hop)  # end of the first far forward
    best = np.maximum(warm - first * f0, far - first * f0 - f1)
    triple = f1 + b1 + w1
    returned = far[0] + running_sum(b1) + rank * hop  # end of the first far backward
    head = (p - 1 - rank) * np.maximum(triple[0] - triple, 0.0)  # later far backwards, spent on the first stage
    own = (2 * p - rank - 1) * f0
    best = np.maximum(best, returned - (own + (rank + 1) * f1 + b1) + head)
    rest = (p - rank - 1) * triple
    last_far = returned + rest - b1
    last_far[-1] = -np.inf  # there the far forward precedes the far backward
    last_far = follow(last_far - f1, f1, hop)
    best = np.maximum(best, last_far - (own + p * f1 + (p - rank - 1) * (b1 + w1)))
    near = follow(returned + w1 + rest + f0, b0, hop)  # end of the first near backward
    return np.asarray(np.maximum(best, near - (own + f0 + p * f1 + (p - rank) * (b1 + w1) + b0)))


def _leaving(backwards: Pair, weights: Pair, lag: Floats | None) -> Floats:
    (b0, b1), (w0, w1) = backwards, weights
    p, n = b0.shape
    rank, at = np.arange(float(p))[:, None], np.arange(n)
    hops = 0.0 if lag is None else rank * lag
    up = running_sum(b1) + hops
    down = running_sum(b0) - b0 + hops
    after_far = (p - rank) * b0 + p * w0 + np.maximum(rank, 1.0) * w1  # own work after the last far backward
    after_near = w0 + rank * (w0 + w1)
    near = down + running_max(after_near - down) - after_near
    best = suffix_max(up + after_far + near) - up - after_far
    both = b0 + w0
    for end in (np.zeros(n, dtype=np.int64), np.argmax(both[:-1], axis=0)):
        drain = (p - 1 - end) * both[end, at] + after_near[end, at] - down[end, at] + end * (b0 + b1)
        own = rank * w1 + p * w0 + (p - 1) * b0 + rank * b1
        best = np.maximum(best, np.where(rank > end, down + drain - own, -np.inf))
    return np.asarray(best)

"""Closed form of DualPipe and DualPipeV for uneven chunks and blocking sends.

Stage r holds a near chunk r and a far chunk 2p - 1 - r. DualPipe's ranks r and p - 1 - r do the same work at the same
time for opposite directions, so DualPipe on p ranks with m micro-batches is DualPipeV on p/2 with m/2, but for a send
at the turn; only the latter is written here.

In the main phase a stage alternates a near forward with a far backward ("out") and a far forward with a near backward
("in"), each pair run as one operation with one exchange. Every dependency then advances one slot, as in 1F1B
(`pipeline_one_f_one_b`): a path is a walk that goes to the turn in "out" and from it in "in", and whose spare pairs can
be spent at any stage it visits. With O, I the running sums of "out" and "in" over stages, S = O + I, t = out + in,
E(k) the longest path to the end of stage k's first "out", D(k) the longest path from its last "in":

    step = max_h S(h) + e(h) + d(h) + (m - 2p + h) t(h)
    e(h) = max( max_{k >= h} E(k) - O(k) + S(k) - S(h),  max_{k <= h} E(k) - O(k) - (h - k) t(h) ),  d likewise

E comes from the warm-up (arrivals as in `pipeline_zb_v`), D from the drain; the second maximum is tried for two stages
only. The form needs m >= 2.5 p; near m = 2p the main phase is too short for the spare pairs it assumes.
"""

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_scan import follow, running_max, running_sum, suffix_max

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]  # of the near and the far chunks of the stages, (p, N) each


def dualpipe_v_seconds(
    forward: Floats, backward: Floats, weight: Floats, send: Floats, micro_batches: Floats, turn: bool
) -> Floats:
    """Seconds of a DualPipeV step with m > 2p, better m >= 2.5 p, (N,).

    forward, backward (gradient of the input), weight: (2p, N) seconds in model order, without sends. send: (N,) seconds
    per hop, blocking. micro_batches: (N,). turn: whether the last near and the first far chunk are on different ranks
    (DualPipe), so that there is a send between them too.
    """
    p = forward.shape[0] // 2
    f, b, w = ((x[:p], x[p:][::-1]) for x in (forward, backward, weight))
    rank = np.arange(float(p))[:, None]
    to_turn = np.where(turn | (rank < p - 1), send, 0.0)
    from_turn = np.where(rank > 0, send, 0.0)
    out = (f[0] + b[1] + w[1]) + to_turn
    back = (f[1] + b[0] + w[0]) + from_turn
    forwards, backwards = (f[0] + to_turn, f[1] + from_turn), (b[0] + from_turn, b[1] + to_turn)
    pair, sum_out, sum_back = out + back, running_sum(out), running_sum(back)
    total = sum_out + sum_back
    enter = _walk(_entering(forwards, backwards[1], w[1], out) - sum_out, total, pair)
    leave = _walk(_leaving(backwards, w, back) - sum_back, total, pair)
    return np.asarray((total + enter + leave + (micro_batches - 2 * p + rank) * pair).max(axis=0))


def _walk(end: Floats, total: Floats, pair: Floats) -> Floats:
    """e(h) or d(h) of the module's formula from E(k) - O(k) or D(k) - I(k)."""
    p, n = end.shape
    rank, at = np.arange(float(p))[:, None], np.arange(n)
    best = suffix_max(end + total) - total
    for k in (np.zeros(n, dtype=np.int64), np.argmax(end, axis=0)):
        best = np.maximum(best, np.where(rank >= k, end[k, at] - (rank - k) * pair, -np.inf))
    return best


def _entering(forwards: Pair, b1: Floats, w1: Floats, out: Floats) -> Floats:
    """Longest path to the end of each stage's first "out", (p, N)."""
    f0, f1 = forwards
    p = f0.shape[0]
    rank = np.arange(float(p))[:, None]
    first = 2 * (p - rank) - 1  # near forwards before the first far one
    warm = running_sum(f0) + (first - 1) * running_max(f0)
    far = follow(warm, f1, 0.0)  # end of the first far forward
    own = (2 * p - rank - 1) * f0 + p * f1 + (p - 1 - rank) * (b1 + w1)
    late = np.maximum(warm - first * f0, far - first * f0 - f1)
    triple = f1 + b1 + w1
    returned = far[0] + running_sum(b1)  # end of the first far backward
    head = (p - 1 - rank) * np.maximum(triple[0] - triple, 0.0)  # later far backwards, spent on the first stage
    late_back = returned - ((2 * p - rank - 1) * f0 + (rank + 1) * f1 + b1) + head
    late[:-1] = np.maximum(late[:-1], late_back[:-1])
    ready = late + own
    ready[:-1] = follow(ready - f1, f1, 0.0)[:-1]  # the last far forward of the warm-up, from nearer the turn
    ready[-1:] = late[-1:] + own[-1:]
    end = ready + out
    # far backwards coming from the first stage; at the turn "out" is two operations, the backward the second
    tail = out.copy()
    tail[-1] = b1[-1] + w1[-1]
    end[1:] = np.maximum(end[1:], returned[:-1] + (p - 1 - rank[1:]) * triple[0] + tail[1:])
    split = ready[-1] + f0[-1] + b1[-1] + w1[-1]
    end[-1] = np.maximum(end[-1], np.maximum(split, returned[-1] + w1[-1]))
    return np.asarray(end)


def _leaving(backwards: Pair, weights: Pair, back: Floats) -> Floats:
    """Longest path from the start of each stage's last main "in", (p, N)."""
    (b0, b1), (w0, w1) = backwards, weights
    p = b0.shape[0]
    rank = np.arange(float(p))[:, None]
    far_after, far_last = _deferred(p)
    after_far = (p - rank) * b0 + far_after * w1 + (p - far_after) * w0  # own work after the last far backward
    after_near = far_last * w1 + (rank + 1 - far_last) * w0
    last = b1.copy()
    last[0] = b1[0] + w1[0]  # the first stage does not split it
    up, down = running_sum(last), running_sum(b0) - b0
    near = down + running_max(after_near - down) - after_near
    stay = suffix_max(up + after_far + near) - up - after_far
    # after the last "in" of the drain: far and near backwards in turn, then near ones
    drain = (rank + 1) * (b1 + w1) + p * (b0 + w0) + stay
    best = drain.copy()
    for k in range(1, p):
        np.maximum(drain[k], back[k - 1] + best[k - 1], out=best[k])
    return np.asarray(back + (p - 1 - rank) * (b1 + w1 + back) + best)


def _deferred(p: int) -> tuple[Floats, Floats]:
    """Weight gradients of the far chunk that run after the last far backward, and after the last near one, (p, 1)."""
    rank = np.arange(p)
    after = (rank + 1) // 2
    meanwhile = p - 1 - rank  # popped while the near backwards drain, alternating from the oldest
    popped = np.where(rank % 2 == 1, (meanwhile + 1) // 2, meanwhile // 2)
    return after[:, None].astype(np.float64), (after - np.minimum(after, popped))[:, None].astype(np.float64)

"""Closed form of the zero-bubble schedule ZB-H1 for uneven stages (Qi et al. 2023, arXiv:2401.10241).

With d = f + b and t = f + b + w of a stage, the longest path spends its time on one stage h, m t(h), apart from how it
gets there and how it leaves (see `pipeline_one_f_one_b` for the walk over stages). Weight gradients lie only on paths
that stay on a stage, so every detour gives some up; stage r runs its first r backwards without any, and has r of them
left at the end. The step is max_h X(h) + m t(h) + Z(h). Getting there, X, is the largest of: the forwards of the
warm-up; the first backward coming back from stage k >= h; the same having spent h pairs without weight gradients on a
slower stage, or on the way to stage 0 and back. Leaving, Z: staying for the weight gradients (0); with the last
backward to a stage e <= h and its e + 1 weight gradients, having spent drain steps on a slower stage; with the last
forward to a stage k >= h and from there to e.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def zb_h1_seconds(forward: Floats, backward: Floats, weight: Floats, lag: Floats, micro_batches: Ints) -> Floats:
    """Seconds of a ZB-H1 step with m >= p, (N,).

    forward, backward (gradient of the input), weight: (N, p) seconds, including the sender's part of a send. lag:
    (N,) seconds a receiver waits more. micro_batches: (N,), at least p: fewer never reach the steady phase.
    """
    p = forward.shape[1]
    m, rank = micro_batches[:, None], np.arange(p)
    hop = rank * lag[:, None]
    down = np.cumsum(forward, axis=1) + hop
    up = np.cumsum(backward, axis=1) + hop
    fill = down + (p - 1 - rank) * np.maximum.accumulate(forward, axis=1)
    own = (p - rank) * forward
    returned = _suffix_max(fill + up)
    early = fill - own
    back = np.maximum(early, _returning(forward, backward, weight, lag, m, up + own, returned))
    stay, past = _leaving(forward, backward, weight, down, up)
    # where no forward is left after the first backward came back, that return and leaving by a forward are exclusive
    ends = np.where(m - p + rank > 0, back + np.maximum(stay, past), np.maximum(early + past, back + stay))
    return np.asarray((m * (forward + backward + weight) + ends).max(axis=1))


def _returning(
    forward: Floats, backward: Floats, weight: Floats, lag: Floats, m: Ints, own: Floats, returned: Floats
) -> Floats:
    """Arrival of an early backward on each stage minus the stage's own work before it, (N, p).

    own: the part of `returned` and of the stage's work to take off. returned: the first backward's way down and up.
    """
    n, p = forward.shape
    rank, at = np.arange(p), np.arange(n)
    pair = forward + backward
    spare = np.minimum(rank, m - p)
    best = returned - own
    for slow in (np.argmax(pair, axis=1), np.full(n, p - 1)):
        gain = returned[at, slow][:, None] + spare * (pair[at, slow][:, None] - pair) - own
        best = np.maximum(best, np.where(rank <= slow[:, None], gain, -np.inf))
    to_first = np.cumsum(pair, axis=1) - pair + rank * (2.0 * lag[:, None] - pair) + weight[:, :1] - weight
    best = np.maximum(best, np.where((rank > 0) & (m - p >= rank), returned - own + to_first, -np.inf))
    if lag.any():  # zig-zags between this stage and the last
        length = p - rank
        mean = np.cumsum(pair[:, ::-1], axis=1)[:, ::-1] / length
        crossings = 2.0 * lag[:, None] * (spare - np.ceil(spare / length))
        best = np.maximum(best, returned - own + spare * (mean - pair) + crossings)
    return best


def _leaving(forward: Floats, backward: Floats, weight: Floats, down: Floats, up: Floats) -> tuple[Floats, Floats]:
    """What follows a stage's last pass that a path uses, minus the stage's own work after it, (N, p) each.

    First: leaving with a backward, or not at all. Second: leaving with the last forward.
    """
    n, p = forward.shape
    rank, at = np.arange(p), np.arange(n)
    before = up - backward
    tail = (rank + 1) * weight
    best_end = np.maximum.accumulate(tail - before, axis=1)
    stay = np.maximum(0.0, before + best_end - tail)
    both = backward + weight
    for slow in (np.zeros(n, dtype=np.int64), np.argmax(both, axis=1)):
        k = slow[:, None]
        gain = both[at, slow][:, None] - both
        drain = np.maximum((p - 1 - rank) * gain, (p - 1 - k) * gain - (rank - k) * forward)
        stay = np.maximum(stay, np.where(k <= rank, before + drain + best_end[at, slow][:, None] - tail, -np.inf))
    through = _suffix_max(down + (p - rank) * both - weight + before + best_end)
    return stay, through - down - (p - rank) * backward - p * weight


def _suffix_max(x: Floats) -> Floats:
    return np.maximum.accumulate(x[:, ::-1], axis=1)[:, ::-1]

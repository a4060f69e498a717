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

from cann_plan.cost.pipeline_scan import running_max, running_sum, suffix_max, suffix_sum

Floats = NDArray[np.float64]


def zb_h1_seconds(
    forward: Floats, backward: Floats, weight: Floats, lag: Floats | None, micro_batches: Floats
) -> Floats:
    """Seconds of a ZB-H1 step with m >= p, (N,).

    forward, backward (gradient of the input), weight: (p, N) seconds, including the sender's part of a send. lag: (N,)
    seconds a receiver waits more for an overlapped send, None when sends block. micro_batches: (N,), at least p: fewer
    never reach the steady phase.
    """
    p, m = forward.shape[0], micro_batches
    rank = np.arange(float(p))[:, None]
    down, up = running_sum(forward), running_sum(backward)
    if lag is not None:
        down, up = down + rank * lag, up + rank * lag
    fill = down + (p - 1 - rank) * running_max(forward)
    own = (p - rank) * forward
    returned = suffix_max(fill + up)
    early = fill - own
    back = np.maximum(early, _returning(forward + backward, weight, lag, m, up + own, returned))
    stay, past = _leaving(forward, backward, weight, down, up)
    # where no forward is left after the first backward came back, that return and leaving by a forward are exclusive
    ends = np.where(m - p + rank > 0, back + np.maximum(stay, past), np.maximum(early + past, back + stay))
    return np.asarray((m * (forward + backward + weight) + ends).max(axis=0))


def _returning(pair: Floats, weight: Floats, lag: Floats | None, m: Floats, own: Floats, returned: Floats) -> Floats:
    """Arrival of an early backward on each stage minus the stage's own work before it, (p, N).

    pair: forward and gradient of the input. own: the part of `returned` and of the stage's work to take off.
    returned: the first backward's way down and up.
    """
    p, n = pair.shape
    rank, at = np.arange(p)[:, None], np.arange(n)
    spare = np.minimum(rank, m - p)
    direct = returned - own
    best = direct
    for slow in (np.argmax(pair, axis=0), np.full(n, p - 1)):
        gain = returned[slow, at] + spare * (pair[slow, at] - pair) - own
        best = np.maximum(best, np.where(rank <= slow, gain, -np.inf))
    to_first = running_sum(pair) - pair + rank * ((0.0 if lag is None else 2.0 * lag) - pair) + weight[0] - weight
    best = np.maximum(best, np.where((rank > 0) & (m - p >= rank), direct + to_first, -np.inf))
    if lag is not None:  # zig-zags between this stage and the last
        length = p - rank
        crossings = 2.0 * lag * (spare - np.ceil(spare / length))
        best = np.maximum(best, direct + spare * (suffix_sum(pair) / length - pair) + crossings)
    return best


def _leaving(forward: Floats, backward: Floats, weight: Floats, down: Floats, up: Floats) -> tuple[Floats, Floats]:
    """What follows a stage's last pass that a path uses, minus the stage's own work after it, (p, N) each.

    First: leaving with a backward, or not at all. Second: leaving with the last forward.
    """
    p, n = forward.shape
    rank, at = np.arange(p)[:, None], np.arange(n)
    before = up - backward
    tail = (rank + 1) * weight
    best_end = running_max(tail - before)
    stay = np.maximum(0.0, before + best_end - tail)
    both = backward + weight
    for slow in (np.zeros(n, dtype=np.int64), np.argmax(both, axis=0)):
        gain = both[slow, at] - both
        drain = np.maximum((p - 1 - rank) * gain, (p - 1 - slow) * gain - (rank - slow) * forward)
        stay = np.maximum(stay, np.where(slow <= rank, before + drain + best_end[slow, at] - tail, -np.inf))
    through = suffix_max(down + (p - rank) * both - weight + before + best_end)
    return stay, through - down - (p - rank) * backward - p * weight

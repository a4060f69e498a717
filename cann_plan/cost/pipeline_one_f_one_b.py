"""Closed forms of GPipe and 1F1B for uneven stages.

A step is the longest path through its passes. Put the passes of 1F1B on a grid of slots so that every dependency in
the steady phase advances one slot: then all paths between two passes have equally many passes, and a path is a walk
over the stages that goes right in forwards, left in backwards, and alternates forward and backward where it stays.
What a walk visits beyond the direct way comes in pairs (forward and backward of one stage), each of which can be spent
at any visited stage: all at the slowest. In the warm-up the walk may also stay on a stage in forwards only, in the
drain in backwards only (a flow shop of equal jobs: Johnson 1954). With S(k) the sum of f + b of stages 0 to k, w(k)
the warm-up steps left after reaching stage k, F(k) and B(k) the largest forward and backward up to k:

    G_f(k) = S(k) + w(k) F(k),  G_b(k) = S(k) + w(k) B(k),  w(k) = min(p - 1 - k, m - 1)
    step = max over h >= p - m of  max_{k >= h} G_f(k) + max_{k >= h} G_b(k) - S(h) + (m - p + h) t(h)
    and, for stages k < p - m that run all forwards first,  S(k) + (m - 1) (F(k) + B(k))

GPipe: step = max_k S(k) + (m - 1) (F(k) + B(k)). Both are exact (proved by the simulator to 1e-12) when a send is part
of the sender's forward or backward. A send that only delays the receiver (`lag`) makes zig-zags over L stages longest,
which gain 2 lag on all but one of their L pairs; a handful of L is tried, which is within 1% of the simulator.
"""

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_scan import running_max, running_sum, suffix_max

Floats = NDArray[np.float64]

# Lengths of the zig-zags tried when sends are overlapped; the gain of a length in between is under
# 2 lag (1/8 - 1/12), that is 8% of a send, more than that of the next smaller one.
ZIGZAGS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def gpipe_seconds(forward: Floats, backward: Floats, lag: Floats | None, micro_batches: Floats) -> Floats:
    """Seconds of a GPipe step, (N,).

    forward, backward: (p, N) seconds, including the sender's part of a send. lag: (N,) seconds a receiver waits
    more for an overlapped send, None when sends block.
    """
    path = running_sum(forward + backward)
    if lag is not None:
        path = path + np.arange(float(forward.shape[0]))[:, None] * (2.0 * lag)
    slowest = running_max(forward) + running_max(backward)
    return np.asarray((path + (micro_batches - 1) * slowest).max(axis=0))


def one_f_one_b_seconds(forward: Floats, backward: Floats, lag: Floats | None, micro_batches: Floats) -> Floats:
    """Seconds of a 1F1B step, (N,). Arguments as for `gpipe_seconds`."""
    p, m = forward.shape[0], micro_batches
    rank = np.arange(float(p))[:, None]
    pair = forward + backward
    path = running_sum(pair)
    if lag is not None:
        path = path + rank * (2.0 * lag)
    left = np.minimum(p - 1 - rank, m - 1)
    fill = left * running_max(forward)
    drain = left * running_max(backward)
    enter, leave = suffix_max(path + fill), suffix_max(path + drain)
    spare = m - p + rank
    base = enter + leave - path
    steady = base + spare * pair
    if lag is not None:  # without a spare pair the walk cannot turn at this stage both on its way in and on its way out
        steady = np.where(spare > 0, steady, np.maximum(enter + drain, leave + fill))
    best = np.where(spare >= 0, steady, path + fill + drain)
    if lag is not None:
        _zigzag(best, base, pair, lag, spare)
    return np.asarray(best.max(axis=0))


def _zigzag(best: Floats, base: Floats, pair: Floats, lag: Floats, spare: Floats) -> None:
    """Raise `best` in place where spending the spare pairs on zig-zags of L stages is longer."""
    p = pair.shape[0]
    total = running_sum(np.concatenate([np.zeros((1, pair.shape[1])), pair]))
    for length in sorted({*(z for z in ZIGZAGS if z < p), p} - {1}):
        n = p - length + 1
        mean = (total[length:] - total[:n]) / length
        pairs = spare[:n]
        crossings = pairs - 1 - np.ceil((pairs - 1) / length)
        gain = base[:n] + pairs * mean + 2.0 * lag * crossings
        np.maximum(best[:n], gain, out=best[:n], where=pairs > 0)

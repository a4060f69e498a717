"""Whole-run losses: failures, checkpoints, restarts, warm-up. Pure functions over arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

NODE_FAILURES_PER_1000_DAYS = 3.79
"""Failures per 1,000 node-days that stop a job: 419 in 54 days on 16,384 H100 (Llama 3, arXiv 2407.21783 3.3.4)."""
RESTART_S = 600.0
"""From failure to training again, seconds: 10 minutes, the restart time of Daly's worked example (doi
10.1016/j.future.2004.11.016)."""
CHECKPOINT_WRITE_S = 60.0
"""Blocking time of one checkpoint where no bandwidth is stated, seconds (BLOOM-176B took 40 s for 2.3 TB)."""


def job_mtbf_s(nodes: ArrayLike, failures_per_1000_node_days: ArrayLike) -> Array:
    """Mean time between failures of the whole job, seconds: 1 / (nodes x rate)."""
    count = np.asarray(nodes, np.float64)
    rate = np.asarray(failures_per_1000_node_days, np.float64) / 1000.0 / 86400.0
    with np.errstate(divide="ignore"):
        result: Array = 1.0 / (count * rate)
    return np.atleast_1d(result)


def young_daly_interval_s(write_s: ArrayLike, mtbf_s: ArrayLike) -> Array:
    """Best time between checkpoints, seconds: sqrt(2 C M) (Young, CACM 17(9), 1974), at least the write itself."""
    write = np.atleast_1d(np.asarray(write_s, np.float64))
    interval = np.sqrt(2.0 * write * np.asarray(mtbf_s, np.float64))
    return np.maximum(interval, write)


def goodput(
    interval_s: ArrayLike, blocking_s: ArrayLike, write_s: ArrayLike, mtbf_s: ArrayLike, restart_s: ArrayLike
) -> Array:
    """Useful share of elapsed time (first order of Daly, FGCS 22, 2006).

    Overhead per useful second: blocking / interval, and per failure the restart plus half an interval of lost work
    (plus the write of an asynchronous checkpoint, which is not yet usable). Clipped to [0, 1].
    """
    interval = np.atleast_1d(np.asarray(interval_s, np.float64))
    blocking = np.asarray(blocking_s, np.float64)
    lost = np.asarray(restart_s, np.float64) + (interval + np.asarray(write_s, np.float64)) * 0.5
    stretch = 1.0 + blocking / interval
    share = (1.0 - lost / np.asarray(mtbf_s, np.float64)) / stretch
    result: Array = np.clip(share, 0.0, 1.0)
    return result

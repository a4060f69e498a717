"""Activations that a pipeline stage holds at its peak.

Unit: all chunks of one stage for one micro-batch, so with v chunks a stage counts in steps of 1/v. An activation lives
from its forward to the last backward pass that needs it (the gradient of the weights where the schedule splits it: the
input gradient frees only part of it, which these figures ignore). All forms equal the simulator's counts.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.cost.pipeline_orders import Schedule, chunks_per_stage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def in_flight(schedule: str, stages: int, virtual: int, rank: ArrayLike, micro_batches: ArrayLike) -> Floats:
    """Micro-batches held at the peak of stage `rank`; rank and micro_batches broadcast, the result has their shape.

    1F1B: min(p - r, m) (Narayanan et al. 2021). GPipe: m. Interleaved: the warm-up's chunks and one more, at most all:
    min((p - r - 1)*2 + (v - 1)*p + 1, m*v) / v. ZB-H1: min(p, m) on all stages (Qi et al. 2023: the memory of 1F1B's
    first stage). ZB-V: the same p, with few micro-batches min(2p, 2m, m + r + 1) / 2. DualPipe: p + 1, of either
    replica's chunk; DualPipeV p + 1/2 (DeepSeek-V3 report, table 2: PP + 1 chunks). Raises ValueError for an unknown
    schedule or chunk count.
    """
    kind = Schedule(schedule)
    v = chunks_per_stage(kind, virtual)
    r, m = np.broadcast_arrays(np.asarray(rank, dtype=np.int64), np.asarray(micro_batches, dtype=np.int64))
    if kind is Schedule.GPIPE:
        held = m
    elif kind is Schedule.ONE_F_ONE_B or (kind is Schedule.INTERLEAVED and v == 1):
        held = np.minimum(stages - r, m)
    elif kind is Schedule.INTERLEAVED:
        held = np.minimum((stages - r - 1) * 2 + (v - 1) * stages + 1, m * v) / v
    elif kind is Schedule.ZB_V:
        held = np.minimum(2 * stages, np.minimum(2 * m, m + r + 1)) / 2
    elif kind is Schedule.ZB_H1:
        held = np.minimum(stages, m)
    else:
        held = np.full(m.shape, stages + (1.0 if kind is Schedule.DUALPIPE else 0.5))
    return np.asarray(held, dtype=np.float64)


def chunk_in_flight(schedule: str, stages: int, virtual: int, chunk: ArrayLike, micro_batches: ArrayLike) -> Ints:
    """Micro-batches whose activations one chunk holds at its peak; chunk (model order) and micro_batches broadcast.

    For what only some chunks keep, such as the embedding's output or the logits. Interleaved: the forwards of the chunk
    among all that precede its first backward, 2(p - r) - 1 + (2v - 2 - k) p of stage r for the k-th of its chunks.
    Raises ValueError as `in_flight`.
    """
    kind = Schedule(schedule)
    v = chunks_per_stage(kind, virtual)
    c, m = np.broadcast_arrays(np.asarray(chunk, dtype=np.int64), np.asarray(micro_batches, dtype=np.int64))
    if kind is Schedule.GPIPE:
        held = m
    elif kind is Schedule.ZB_H1:
        held = np.minimum(stages, m)
    elif kind is Schedule.INTERLEAVED and v > 1:
        k, r = c // stages, c % stages
        rounds, rest = np.divmod(2 * (stages - r) - 1 + (2 * v - 2 - k) * stages, v * stages)
        held = np.minimum(rounds * stages + np.clip(rest - k * stages, 0, stages), m)
    else:
        held = np.minimum(stages * v - c, m)
    return np.asarray(held, dtype=np.int64)

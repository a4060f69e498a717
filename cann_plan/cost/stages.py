"""Which layers sit on which pipeline stage: a small table per (pipeline, virtual, split)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct, distinct_rows
from cann_plan.records import dataclass
from cann_plan.workload.architecture import Architecture

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StageTable:
    """Layers per chunk in model order (chunk c runs on rank c mod p); C = p * v chunks, K layer kinds.

    `candidates`: the earliest rank of every distinct layer profile, the first and the last: with fewer micro-batches
    in flight on later ranks, no other rank can hold more than one of these.
    """

    pipeline: int
    virtual: int
    sizes: Ints  # (C,)
    starts: Ints  # (C,)
    counts: Ints  # (K, C)
    prefix: Ints  # (K, L + 1)
    candidates: Ints  # (J,)

    def recomputed(self, layers: Ints, lists: tuple[tuple[int, ...], ...], scope: str) -> Ints:
        """Recomputed layers per chunk, shape (n, C), for strategies asking for `layers` (n,) per stage or chunk.

        -1: all; values below -1 pick a per-stage list. With scope `stage` a rank's first chunks fill up first.
        """
        sizes = self.sizes[None, :]
        wanted = np.broadcast_to(layers[:, None], (layers.shape[0], self.sizes.shape[0]))
        if scope == "stage" and self.virtual > 1:
            per_rank = self.sizes.reshape(self.virtual, self.pipeline)
            before = np.concatenate([np.zeros((1, self.pipeline), np.int64), np.cumsum(per_rank, axis=0)[:-1]])
            wanted = wanted - before.reshape(1, -1)
        result = np.clip(wanted, 0, sizes)
        result = np.where(layers[:, None] == -1, sizes, result)
        for index, values in enumerate(lists):
            chosen = layers == -(index + 2)
            if chosen.any():
                row = np.resize(np.asarray(values, np.int64), self.sizes.shape[0])
                result = np.where(chosen[:, None], np.minimum(row[None, :], sizes), result)
        return result


def chunk_sizes(layers: int, pipeline: int, virtual: int, split: tuple[int, ...] | None) -> Ints:
    """Layers per chunk in model order, shape (p * v,).

    An even split that does not divide gives the remainder to the chunks after the first, which also holds the
    embedding; the last, which holds the head, gets one only if all others have.
    A split lists layers per stage; with virtual stages each stage's layers are spread evenly over its chunks.
    """
    chunks = pipeline * virtual
    if split is None:
        base, rest = divmod(layers, chunks)
        sizes = np.full(chunks, base, np.int64)
        order = np.concatenate([np.arange(1, chunks - 1), np.arange(min(chunks, 2)) * (chunks - 1)])
        sizes[order[:rest]] += 1
        return sizes
    stages = np.asarray(split, np.int64)
    if stages.shape[0] == chunks:
        return stages
    each = stages // virtual
    left = stages - each * virtual
    return np.concatenate([each + (left > chunk) for chunk in range(virtual)])


def stage_table(
    architecture: Architecture, pipeline: int, virtual: int, split: tuple[int, ...] | None, *, all_ranks: bool = False
) -> StageTable:
    """Build the table of one (pipeline, virtual, split); `all_ranks` makes every rank a candidate."""
    sizes = chunk_sizes(architecture.layers, pipeline, virtual, split)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    sequence = np.asarray(architecture.sequence, np.int64)
    kinds = len(architecture.kinds)
    onehot = (sequence[None, :] == np.arange(kinds)[:, None]).astype(np.int64)
    prefix = np.concatenate([np.zeros((kinds, 1), np.int64), np.cumsum(onehot, axis=1)], axis=1)
    counts = prefix[:, ends] - prefix[:, starts]
    profile = counts.reshape(kinds * virtual, pipeline).T
    earliest = np.arange(pipeline) if all_ranks else distinct_rows(profile)
    candidates = distinct(np.concatenate([earliest, np.array([0, pipeline - 1], np.int64)]))
    return StageTable(pipeline, virtual, sizes, starts, counts, prefix, candidates)

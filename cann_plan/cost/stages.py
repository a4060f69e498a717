"""Which layers sit on which pipeline stage: a small table per (pipeline, virtual, split)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct, distinct_rows
from cann_plan.cost.strategies import SCHEDULES
from cann_plan.records import dataclass
from cann_plan.workload.architecture import Architecture

Ints = NDArray[np.int64]


LOOP, VEE, PAIR = range(3)
"""How chunks sit on ranks: c mod p; down to the last rank and back up (V-shaped schedules); chunk r on ranks r and
p - 1 - r, each working on half of the micro-batches (DualPipe).
"""

_VEE = frozenset(SCHEDULES.index(name) for name in ("zb-v", "dualpipe-v"))
_PAIR = SCHEDULES.index("dualpipe")


def placement_of(schedule: Ints) -> Ints:
    """Placement of each schedule code, same shape."""
    vee = np.zeros(schedule.shape, np.bool_)
    for code in _VEE:
        vee = vee | (schedule == code)
    return np.where(schedule == _PAIR, PAIR, np.where(vee, VEE, LOOP))


@dataclass(frozen=True, slots=True)
class StageTable:
    """Layers per chunk in model order; C = p * v chunks, K layer kinds.

    `candidates`: the earliest rank of every distinct layer profile, the first and the last: with fewer micro-batches
    in flight on later ranks, no other rank can hold more than one of these; with V-shaped placement, where later ranks
    may hold more, the latest too. `layers`: layers of each kind on a rank.
    """

    pipeline: int
    virtual: int
    sizes: Ints  # (C,)
    starts: Ints  # (C,)
    counts: Ints  # (K, C)
    prefix: Ints  # (K, L + 1)
    candidates: Ints  # (J,)
    placement: int
    layers: Ints  # (K, p)

    def per_rank(self, chunks: NDArray[Any]) -> NDArray[Any]:
        """Chunk values (..., C) added up per rank, (..., p), in chunk order; a paired rank holds two whole chunks."""
        return per_rank(chunks, self.pipeline, self.virtual, self.placement)

    def work(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds a rank works on one micro-batch, (..., p), from those of its chunks (..., C)."""
        total: NDArray[np.float64] = self.per_rank(seconds)
        return total * 0.5 if self.placement == PAIR else total

    def holders(self, chunk: int) -> Ints:
        """Ranks that hold a chunk."""
        if self.placement == PAIR:
            return distinct(np.array([chunk, self.pipeline - 1 - chunk]))
        if self.placement == VEE and chunk >= self.pipeline:
            return np.array([2 * self.pipeline - 1 - chunk])
        return np.array([chunk % self.pipeline])

    def holds(self, chunk: int) -> NDArray[np.bool_]:
        """Whether a candidate rank holds a chunk, (J,)."""
        held = np.zeros(self.candidates.shape, np.bool_)
        for rank in self.holders(chunk):
            held = held | (self.candidates == rank)
        return held

    def recomputed(self, layers: Ints, lists: tuple[tuple[int, ...], ...], scope: str) -> Ints:
        """Recomputed layers per chunk, shape (n, C), for strategies asking for `layers` (n,) per stage or chunk.

        -1: all; values below -1 pick a per-stage list. With scope `stage` a rank's first chunks fill up first.
        """
        sizes = self.sizes[None, :]
        wanted = np.broadcast_to(layers[:, None], (layers.shape[0], self.sizes.shape[0]))
        if scope == "stage" and self.virtual > 1:
            by_chunk = self.sizes.reshape(self.virtual, self.pipeline).copy()
            if self.placement == VEE:
                by_chunk[1] = by_chunk[1][::-1].copy()
            before = np.concatenate([np.zeros((1, self.pipeline), np.int64), np.cumsum(by_chunk, axis=0)[:-1]])
            if self.placement == VEE:
                before[1] = before[1][::-1].copy()
            wanted = wanted - before.reshape(1, -1)
        result = np.clip(wanted, 0, sizes)
        result = np.where(layers[:, None] == -1, sizes, result)
        for index, values in enumerate(lists):
            chosen = layers == -(index + 2)
            if chosen.any():
                row = np.resize(np.asarray(values, np.int64), self.sizes.shape[0])
                result = np.where(chosen[:, None], np.minimum(row[None, :], sizes), result)
        return result


def per_rank(chunks: NDArray[Any], pipeline: int, virtual: int, placement: int) -> NDArray[Any]:
    """Chunk values (..., C) added up per rank, (..., p); see `StageTable.per_rank`."""
    total: NDArray[Any] = chunks[..., :pipeline]
    if placement == PAIR:
        both: NDArray[Any] = total + total[..., ::-1]
        return both
    for index in range(1, virtual):
        part = chunks[..., index * pipeline : (index + 1) * pipeline]
        total = total + (part[..., ::-1] if placement == VEE else part)
    return total


def chunk_sizes(layers: int, pipeline: int, virtual: int, split: tuple[int, ...] | None, placement: int = LOOP) -> Ints:
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
    parts = [each + (left > chunk) for chunk in range(virtual)]
    if placement == VEE:
        parts[1] = parts[1][::-1]
    return np.concatenate(parts)


def stage_table(
    architecture: Architecture, pipeline: int, virtual: int, split: tuple[int, ...] | None, *, schedule: int = 0,
    all_ranks: bool = False,
) -> StageTable:  # fmt: skip
    """Build the table of one (pipeline, virtual, split, placement of a schedule); `all_ranks`: every rank a candidate.

    The result does not depend on the schedule beyond its placement.
    """
    placement = int(placement_of(np.array([schedule]))[0])
    sizes = chunk_sizes(architecture.layers, pipeline, virtual, split, placement)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    sequence = np.asarray(architecture.sequence, np.int64)
    kinds = len(architecture.kinds)
    onehot = (sequence[None, :] == np.arange(kinds)[:, None]).astype(np.int64)
    prefix = np.concatenate([np.zeros((kinds, 1), np.int64), np.cumsum(onehot, axis=1)], axis=1)
    counts = prefix[:, ends] - prefix[:, starts]
    by_chunk = counts.reshape(kinds, virtual, pipeline).copy()
    if placement == VEE:
        by_chunk[:, 1] = by_chunk[:, 1, ::-1].copy()
    profile = by_chunk.reshape(kinds * virtual, pipeline).T
    if placement == PAIR:
        profile = np.concatenate([profile, profile[::-1]], axis=1)
    earliest = np.arange(pipeline) if all_ranks else distinct_rows(profile)
    latest = pipeline - 1 - distinct_rows(profile[::-1]) if placement == VEE else earliest
    candidates = distinct(np.concatenate([earliest, latest, np.array([0, pipeline - 1], np.int64)]))
    layers = per_rank(counts, pipeline, virtual, placement)
    return StageTable(pipeline, virtual, sizes, starts, counts, prefix, candidates, placement, layers)

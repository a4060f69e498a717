"""Which layers sit on which pipeline stage: a small table per (pipeline, virtual, split)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct, row_numbers
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
    may hold more, the latest too. `layers`: layers of each kind on a rank; `before`: layers of a chunk's rank in
    earlier chunks. `classes`: the first of every class of chunks that cost the same, `member` the class of each chunk;
    `profile`: place among `candidates` of a rank that holds the same chunk classes.
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
    classes: Ints  # (Q,)
    member: Ints  # (C,)
    profile: Ints  # (p,)
    before: Ints  # (C,)

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
        """Recomputed layers per chunk, shape (n, C), for strategies asking for `layers` (n,) per stage or chunk."""
        found: Ints = self.recomputed_by_class(layers, lists, scope)[self.member].T
        return found

    def recomputed_by_class(self, layers: Ints, lists: tuple[tuple[int, ...], ...], scope: str) -> Ints:
        """Recomputed layers of a chunk of each class, (Q, n), where `layers` (n,) are asked for per stage or chunk.

        -1: all; values below -1 pick a per-stage list. With scope `stage` a rank's first chunks fill up first.
        """
        sizes = self.sizes[self.classes][:, None]
        wanted = np.broadcast_to(layers, (sizes.shape[0], layers.shape[0]))
        if scope == "stage" and self.virtual > 1:
            wanted = wanted - self.before[self.classes][:, None]
        result = np.minimum(np.maximum(wanted, 0), sizes)
        result = np.where(layers == -1, sizes, result)
        for index, values in enumerate(lists):
            chosen = layers == -(index + 2)
            if chosen.any():
                column = np.resize(np.asarray(values, np.int64), self.sizes.shape[0])[self.classes]
                result = np.where(chosen, np.minimum(column[:, None], sizes), result)
        return result

    def replayed(self, recomputed: Ints) -> list[Ints]:
        """Layers of each kind among the recomputed ones of a chunk of each class: K arrays (Q, n)."""
        if len(self.prefix) == 1:
            return [recomputed]
        starts = self.starts[self.classes][:, None]
        return [prefix[starts + recomputed] - prefix[starts] for prefix in self.prefix]

    def of_ranks(self, classes: NDArray[Any]) -> NDArray[Any]:
        """Chunk-class values (Q, n) added up per candidate rank, (J, n), in chunk order."""
        rows = []
        for rank in self.candidates:
            chunks = self.chunks_of(int(rank))
            total = classes[self.member[chunks[0]]]
            for chunk in chunks[1:]:
                total = total + classes[self.member[chunk]]
            rows.append(total)
        return np.stack(rows)

    def chunks_of(self, rank: int) -> list[int]:
        """Chunks that a rank holds, in model order."""
        if self.placement == PAIR:
            return [rank, self.pipeline - 1 - rank]
        if self.placement == VEE:
            return [rank, 2 * self.pipeline - 1 - rank]
        return [index * self.pipeline + rank for index in range(self.virtual)]


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
    before = _before(sizes, pipeline, virtual, placement)
    if all_ranks:
        classes = member = np.arange(sizes.shape[0])
    else:
        classes, member = row_numbers(_chunk_profiles(sequence, sizes, starts, before))
    held = member.reshape(virtual, pipeline).copy()
    if placement == VEE:
        held[1] = held[1][::-1].copy()
    held = np.concatenate([held, held[:, ::-1]]) if placement == PAIR else held
    earliest, profile = row_numbers(held.T)
    latest = pipeline - 1 - row_numbers(held.T[::-1])[0] if placement == VEE else earliest
    candidates = distinct(np.concatenate([earliest, latest, np.array([0, pipeline - 1], np.int64)]))
    profile = np.searchsorted(candidates, earliest)[profile]
    layers = per_rank(counts, pipeline, virtual, placement)
    return StageTable(
        pipeline, virtual, sizes, starts, counts, prefix, candidates, placement, layers, classes, member, profile,
        before,
    )  # fmt: skip


def _before(sizes: Ints, pipeline: int, virtual: int, placement: int) -> Ints:
    """Layers that a chunk's rank holds in earlier chunks, (C,)."""
    if placement == PAIR:
        return np.zeros_like(sizes)
    by_chunk = sizes.reshape(virtual, pipeline).copy()
    if placement == VEE:
        by_chunk[1] = by_chunk[1][::-1].copy()
    before = np.cumsum(by_chunk, axis=0) - by_chunk
    if placement == VEE:
        before[1] = before[1][::-1].copy()
    return before.reshape(-1)


def _chunk_profiles(sequence: Ints, sizes: Ints, starts: Ints, before: Ints) -> Ints:
    """What tells chunks apart, (C, ...): their layers' kinds, layers before them on the rank, whether first or last."""
    most = max(int(sizes.max()), 1)
    place = np.arange(most)[None, :]
    inside = np.minimum(starts[:, None] + place, max(sequence.shape[0] - 1, 0))
    kinds = np.where(place < sizes[:, None], sequence[inside], -1)
    ends = np.zeros((sizes.shape[0], 2), np.int64)
    ends[0, 0] = ends[-1, 1] = 1
    return np.concatenate([kinds, before[:, None], ends], axis=1)

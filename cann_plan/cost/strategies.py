"""A block of strategies: one row of integers per strategy, held as a struct of arrays."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from cann_plan.records import dataclass

Ints = NDArray[np.int64]

SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v")
"""Order fixes the integer code of a schedule."""

RANK_ORDERS = ("tensor-context-data-pipeline", "tensor-context-pipeline-data")
"""Parallel axes from adjacent ranks outwards; order fixes the integer code."""


@dataclass(frozen=True, slots=True)
class Strategies:
    """N strategies; every array has shape (N,) and dtype int64.

    `policy` and `split` index the problem's lists of recompute policies and layer splits. `recompute_layers`: layers
    recomputed per stage (or chunk), -1 for all. `zero_stage`: 0 none, 1 optimizer, 2 + gradients, 3 + parameters.
    `shard_group`: ranks over which states are sharded, 0 for the whole data-parallel group. `rank_order` indexes
    `RANK_ORDERS`.
    """

    tensor: Ints
    pipeline: Ints
    data: Ints
    context: Ints
    context_kind: Ints
    ulysses: Ints
    expert: Ints
    expert_tensor: Ints
    virtual: Ints
    schedule: Ints
    micro_batch_size: Ints
    sequence_parallel: Ints
    zero_stage: Ints
    shard_group: Ints
    policy: Ints
    recompute_layers: Ints
    split: Ints
    rank_order: Ints

    def __len__(self) -> int:
        return int(self.tensor.shape[0])

    @property
    def devices(self) -> Ints:
        """Ranks each strategy uses, shape (N,)."""
        return self.tensor * self.pipeline * self.data * self.context

    def take(self, index: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Strategies:
        """The rows of `index` as a new block."""
        return Strategies(**{f.name: getattr(self, f.name)[index] for f in fields(self)})

    @classmethod
    def of(cls, **axes: object) -> Strategies:
        """A block from scalars or arrays that broadcast to one shape; axes left out take their neutral value.

        Raises:
            ValueError: an axis does not exist or the shapes do not broadcast.
        """
        neutral = {"context_kind": 0, "schedule": 0, "sequence_parallel": 0, "zero_stage": 0, "shard_group": 0,
                   "policy": 0, "recompute_layers": -1, "split": 0, "rank_order": 0}  # fmt: skip
        names = [f.name for f in fields(cls)]
        unknown = set(axes) - set(names)
        if unknown:
            raise ValueError(f"no such axis: {', '.join(sorted(unknown))}")
        values = [np.atleast_1d(np.asarray(axes.get(name, neutral.get(name, 1)), dtype=np.int64)) for name in names]
        broadcast = np.broadcast_arrays(*values)
        return cls(**{name: np.ascontiguousarray(value) for name, value in zip(names, broadcast, strict=True)})

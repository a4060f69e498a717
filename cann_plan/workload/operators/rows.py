"""Inputs of the operator walk: the axes that change what one layer does on one device, and the fixed settings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array
from cann_plan.workload.operators.retention import DEFAULT_RETENTION, Retention

CONTEXT_KINDS = ("ring", "ulysses", "hybrid", "all_gather")
"""Order fixes the integer code of a context-parallel kind."""


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Distinct axis combinations; every array is float64 of shape (R,)."""

    tensor: Array
    context: Array
    context_kind: NDArray[np.int64]
    ulysses: Array
    expert: Array
    expert_tensor: Array
    micro_batch: Array
    sequence_parallel: Array  # 0 or 1

    @property
    def sequence_shards(self) -> Array:
        """Ways a token-wise tensor is split over the tensor-parallel group, shape (R,)."""
        return np.where(self.sequence_parallel > 0, self.tensor, 1.0)


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """What is the same for every row of a problem.

    `fused`: element-wise fusions that are on (names of `software.fused`). `imbalance`: load of the busiest expert
    rank over the mean. `capacity_factor`: tokens an expert takes over the mean, None for dropless routing.
    `loss_chunk`: tokens whose logits exist at once, None for all. `gather_dispatch`: experts get all tokens by
    all-gather instead of their own by all-to-all.
    """

    sequence_length: int
    hidden: int
    element_bytes: float = 2.0
    flash: bool = True
    causal: bool = True
    document_length: int | None = None
    fused: frozenset[str] = frozenset()
    dropout: bool = False
    imbalance: float = 1.0
    capacity_factor: float | None = None
    fp8: bool = False
    lora_rank: int = 0
    lora_targets: frozenset[str] = frozenset()
    probs_in_activation: bool = False
    loss_chunk: int | None = None
    gather_dispatch: bool = False
    norm: str = "rmsnorm"
    position: str = "rotary"
    retention: Retention = DEFAULT_RETENTION

    def tokens(self, rows: LayerRows) -> Array:
        """Tokens of one micro-batch that a tensor-parallel group works on, shape (R,)."""
        return rows.micro_batch * self.sequence_length / rows.context

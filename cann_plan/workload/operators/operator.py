"""What one operator does on one device: its work, the tensors it keeps for backward and its temporaries.

Every size is a float64 array of shape (R,), one value per row of the layer table (or a 1-element array that
broadcasts). Bytes are bytes, GEMM dimensions are element counts on one device.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from cann_plan.records import dataclass

Array = NDArray[np.float64]
ZERO: Array = np.zeros(1)


@dataclass(frozen=True, slots=True)
class Gemm:
    """A dense product (m x k)(k x n), `batch` times; backward is one product per operand.

    `weight`: the k x n operand is a trained matrix (its gradient accumulates in `main_grad` precision);
    `frozen`: a weight that gets no gradient (LoRA base); `quantised`: runs in fp8 where the plan asks for fp8.
    """

    m: Array
    n: Array
    k: Array
    batch: Array = field(default_factory=lambda: np.ones(1))
    weight: bool = True
    frozen: bool = False
    quantised: bool = True


@dataclass(frozen=True, slots=True)
class GroupedGemm:
    """`experts` products sharing `tokens` rows in all: (tokens/experts x k)(k x n) each."""

    experts: Array
    tokens: Array
    n: Array
    k: Array
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class CoreAttention:
    """softmax(QK^T)V over `batch` sequences; lengths per call; `fused`: flash kernel, scores never stored."""

    batch: Array
    heads: Array
    kv_heads: Array
    q_length: Array
    kv_length: Array
    head_dim: int
    v_head_dim: int
    causal: bool
    window: int | None
    fused: bool
    calls: Array = field(default_factory=lambda: np.ones(1))  # kernel calls per layer (context-parallel ring steps)


@dataclass(frozen=True, slots=True)
class Vector:
    """Element-wise or reduction work, counted in bytes read and written."""

    forward_bytes: Array
    backward_bytes: Array
    forward_launches: int = 1
    backward_launches: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """One collective call of `size` bytes (convention of the collective), `repeats` times; size 0 costs nothing."""

    collective: str  # all_reduce | all_gather | reduce_scatter | all_to_all | send
    size: Array
    repeats: Array = field(default_factory=lambda: np.ones(1))


@dataclass(frozen=True, slots=True)
class Exchange:
    """Collectives over one parallel axis: in forward, in backward, and in backward behind a weight gradient."""

    axis: str  # tensor | context | expert | expert_tensor
    forward: tuple[Message, ...]
    backward: tuple[Message, ...]
    backward_hidden: tuple[Message, ...] = ()


Work = Gemm | GroupedGemm | CoreAttention | Vector | Exchange


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor kept from forward to backward unless one of the modules in `rebuilt_by` is recomputed.

    `only_by`: recompute modules under which alone anything keeps it.
    """

    name: str
    size: Array
    rebuilt_by: tuple[str, ...] = ()
    only_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of the ordered walk over a layer.

    `modules`: the recompute modules that replay this operator (any of them). `forward_temporary` and
    `backward_temporary`: bytes alive only while the operator runs, besides what is saved.
    """

    name: str
    modules: tuple[str, ...]
    work: Work
    saved: tuple[Saved, ...] = ()
    forward_temporary: Array = field(default_factory=lambda: np.zeros(1))
    backward_temporary: Array = field(default_factory=lambda: np.zeros(1))

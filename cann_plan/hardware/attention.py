"""Time of attention: fused kernels forward and backward, and the unfused composition.

All functions broadcast their array arguments to shape (N,), work in float64 and SI units, and return seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cann_plan.hardware.device import Device
from cann_plan.hardware.gemm import gemm_seconds
from cann_plan.hardware.operator_model import ELEMENT_BYTES, AttentionFit, BoolArray, FloatArray, as_array
from cann_plan.hardware.vector import vector_seconds

PHASES = ("forward", "backward")

QUERY_TILE = 128.0
"""Queries one work item handles (FlashAttention-2 and -3 block size; Dao 2023, section 3.3)."""

REFERENCE_HEAD_DIM = 128.0
"""Head dimension the efficiencies are quoted at; wider heads are not credited with more."""

TENSOR_PASSES = {"forward": (1.0, 1.0), "backward": (5.5, 2.0)}
"""Traffic of a fused kernel in units of query-plus-output and key-plus-value tensors. Forward reads q, k, v and writes
o. Backward as in FlashAttention-2 (Dao 2023, algorithm 2): o and do for the row sums; q, k, v, do; the fp32 accumulator
of dq zeroed, added to and converted (2 + 2 + 2 half-precision tensors); dq, dk and dv written."""

UNFUSED_PASSES = {"forward": 5.5, "backward": 6.0}
"""2-byte passes over the (batch, heads, s, s) scores of unfused attention: scale and mask, softmax, dropout and the
products' own traffic. Source: fit on published Megatron-DeepSpeed runs (BigScience, A100, 2021-2022)."""


def attention_fit(device: Device, kernel: str) -> AttentionFit:
    """Constants of `kernel`, or of the family's default kernel where that one was not measured."""
    operators = device.operators
    return operators.attention.get(kernel, operators.attention[operators.default_attention])


def attention_pairs(
    q_length: ArrayLike, kv_length: ArrayLike, causal: ArrayLike, window: ArrayLike = 0.0
) -> FloatArray:
    """Query-key pairs per head that a kernel must compute.

    Causal masks are aligned to the last key (query i sees kv - q + i + 1 keys). `window` > 0 limits a query to that
    many most recent keys; 0 means no limit. Without a mask a window limits the number of keys.

    Returns:
        pairs, shape (N,).
    """
    q, kv = as_array(q_length), as_array(kv_length)
    width = as_array(window)
    width = np.where(width > 0.0, np.minimum(width, kv), kv)
    seeing = np.minimum(q, kv)  # under a causal mask earlier queries would see no key
    before = kv - seeing  # keys every query may see besides those of its own block
    growing = np.minimum(np.maximum(width - before, 0.0), seeing)  # queries whose key count still grows
    masked = growing * before + growing * (growing + 1.0) * 0.5 + (seeing - growing) * width
    return np.where(np.asarray(causal, dtype=np.bool_), masked, q * width)


def attention_flops(
    phase: str,
    batch: ArrayLike,
    heads: ArrayLike,
    pairs: ArrayLike,
    head_dim: ArrayLike,
    v_head_dim: ArrayLike | None = None,
) -> FloatArray:
    """FLOPs of a fused kernel: two products forward, five backward (scores are recomputed).

    forward 2 pairs (d + dv), backward 2 pairs (3 d + 2 dv) per head; Dao 2023 (FlashAttention-2), section 4.1.

    Raises:
        ValueError: `phase` is neither forward nor backward.
    """
    d = as_array(head_dim)
    dv = d if v_head_dim is None else as_array(v_head_dim)
    if phase == "forward":
        width = d + dv
    elif phase == "backward":
        width = 3.0 * d + 2.0 * dv
    else:
        raise ValueError(f"phase {phase!r}; allowed: {', '.join(PHASES)}")
    return 2.0 * as_array(batch) * as_array(heads) * as_array(pairs) * width


def attention_seconds(
    device: Device,
    kernel: str,
    phase: str,
    batch: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    q_length: ArrayLike,
    kv_length: ArrayLike,
    head_dim: ArrayLike,
    v_head_dim: ArrayLike | None = None,
    causal: ArrayLike = True,
    window: ArrayLike = 0.0,
    dtype: str = "bf16",
    rate: ArrayLike = 1.0,
) -> FloatArray:
    """Seconds of one fused attention call; the form is in `AttentionFit`.

    Args:
        device: peak, bandwidth and constants.
        kernel: name of the kernel generation (flash-v1, flash-v2, flash-v3, cudnn, sdpa, ascend-fusion, ...);
            one the family did not measure uses the family's default kernel.
        phase: forward or backward.
        batch: sequences.
        heads: query heads on this device.
        kv_heads: key/value heads on this device.
        q_length: queries per sequence [tokens].
        kv_length: keys per sequence [tokens].
        head_dim: width of queries and keys [elements].
        v_head_dim: width of values; None means `head_dim`.
        causal: triangular mask (also a boolean array).
        window: sliding window [keys]; 0 means none.
        dtype: precision.
        rate: multiplies the compute rate (software profile: kernel generation in training). The kernel never gets
            faster than the dense peak.

    Raises:
        UnsupportedPrecision: no dense peak for `dtype`.
        ValueError: unknown `phase`.
    """
    fit = attention_fit(device, kernel)
    peak = device.peak(dtype)
    batch, heads, kv_heads = as_array(batch), as_array(heads), as_array(kv_heads)
    q, kv = as_array(q_length), as_array(kv_length)
    d = as_array(head_dim)
    dv = d if v_head_dim is None else as_array(v_head_dim)
    pairs = attention_pairs(q, kv, causal, window)
    flops = attention_flops(phase, batch, heads, pairs, d, dv)
    one = np.ones(1)
    keys = np.maximum(pairs / np.maximum(q, one), one)
    units = np.maximum(batch * heads * q / QUERY_TILE, 1.0 / QUERY_TILE)
    width = np.minimum((d + dv) * 0.5, REFERENCE_HEAD_DIM)
    masked = np.where(np.asarray(causal, dtype=np.bool_), fit.half_keys, 0.0)
    fill = (1.0 + masked / keys) * (1.0 + fit.half_units / units)
    fill = fill * ((1.0 + fit.half_dim / np.maximum(width, one)) / (1.0 + fit.half_dim / REFERENCE_HEAD_DIM))
    relative = fit.backward_efficiency if phase == "backward" else 1.0
    efficiency = np.minimum(fit.efficiency * relative * as_array(rate) / fill, 1.0)
    size = ELEMENT_BYTES[dtype]
    q_passes, kv_passes = TENSOR_PASSES[phase]
    moved = size * batch * (d + dv) * (q_passes * heads * q + kv_passes * kv_heads * kv)
    compute = flops / (peak * efficiency)
    memory = moved / (device.memory_bandwidth * fit.memory_efficiency)
    return np.where(flops > 0.0, fit.launch_s + np.sqrt(compute * compute + memory * memory), 0.0)


def attention_outside_validity(
    device: Device,
    kernel: str,
    batch: ArrayLike,
    heads: ArrayLike,
    q_length: ArrayLike,
    head_dim: ArrayLike,
) -> BoolArray:
    """True where the kernel was not measured on this family or an input leaves the fitted range; shape (N,)."""
    known = kernel in device.operators.attention
    fit = attention_fit(device, kernel)
    outside = fit.validity.outside(batch=batch, heads=heads, q_length=q_length, head_dim=head_dim)
    return outside | (not known)


def unfused_attention_seconds(
    device: Device,
    phase: str,
    batch: ArrayLike,
    heads: ArrayLike,
    q_length: ArrayLike,
    kv_length: ArrayLike,
    head_dim: ArrayLike,
    v_head_dim: ArrayLike | None = None,
    dtype: str = "bf16",
    launches: ArrayLike = 4.0,
) -> FloatArray:
    """Seconds of attention from batched products and passes over the score matrix; masks save nothing here.

    Forward: scores (q, kv) = Q K^T and context (q, dv) = P V. Backward: two products for each of them. Passes of
    2 bytes over batch * heads * q * kv: `UNFUSED_PASSES`.

    Args:
        device: peak, bandwidth and constants.
        phase: forward or backward.
        batch: sequences.
        heads: query heads on this device.
        q_length: queries per sequence [tokens].
        kv_length: keys per sequence [tokens].
        head_dim: width of queries and keys [elements].
        v_head_dim: width of values; None means `head_dim`.
        dtype: precision of the products.
        launches: element-wise kernels in the composition.

    Raises:
        UnsupportedPrecision: no peak or no constants for `dtype`.
        ValueError: unknown `phase`.
    """
    if phase not in PHASES:
        raise ValueError(f"phase {phase!r}; allowed: {', '.join(PHASES)}")
    groups = as_array(batch) * as_array(heads)
    q, kv = as_array(q_length), as_array(kv_length)
    d = as_array(head_dim)
    dv = d if v_head_dim is None else as_array(v_head_dim)
    if phase == "forward":
        products = gemm_seconds(device, dtype, q, kv, d, batch=groups)
        products = products + gemm_seconds(device, dtype, q, dv, kv, batch=groups)
    else:
        products = gemm_seconds(device, dtype, q, kv, dv, batch=groups)  # dP = dO V^T
        products = products + gemm_seconds(device, dtype, kv, dv, q, batch=groups)  # dV = P^T dO
        products = products + gemm_seconds(device, dtype, q, d, kv, batch=groups)  # dQ = dS K
        products = products + gemm_seconds(device, dtype, kv, d, q, batch=groups)  # dK = dS^T Q
    scores = 2.0 * groups * q * kv
    return products + vector_seconds(device, UNFUSED_PASSES[phase] * scores, launches)

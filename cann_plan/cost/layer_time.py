"""Seconds of one operator in forward and backward on one device, without communication."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from cann_plan.cost.stack import Stack
from cann_plan.hardware.attention import attention_seconds, unfused_attention_seconds
from cann_plan.hardware.device import Device
from cann_plan.hardware.gemm import gemm_seconds, grouped_gemm_seconds
from cann_plan.hardware.vector import vector_seconds
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import ZERO, Array, CoreAttention, Gemm, GroupedGemm, Vector

FRAGMENT = 16.0
"""Rows a matrix unit contracts at once in bf16 (cube unit 16x16x16; NVIDIA mma m16n8k16)."""


@dataclass(frozen=True, slots=True)
class Compute:
    """How operators run: device, precisions, attention kernel, stack parameters.

    `dtype`: activations and unquantised products; `linear_dtype`: linear layers (fp8 where the plan asks for it);
    `gradient_bytes`: bytes per element of the accumulated weight gradient.
    """

    device: Device
    stack: Stack
    dtype: str
    linear_dtype: str
    attention_kernel: str
    gradient_bytes: float


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Seconds and FLOPs of one operator, arrays of shape (R,) or (1,); `*_launches` are kernel counts.

    `weight`: the part of `backward` that is a weight gradient, which zero-bubble schedules may postpone.
    """

    forward: Array
    backward: Array
    forward_flops: Array
    backward_flops: Array
    forward_launches: int
    backward_launches: int
    weight: Array = field(default_factory=lambda: ZERO)


def gemm_time(work: Gemm, compute: Compute) -> OperatorTime:
    """One product forward; backward the input gradient and, for a trained weight, the weight gradient.

    The weight gradient reads and writes the accumulator (`gradient_bytes` twice per weight element). An fp8 product
    of training gets operands that its producers already cast, so no cast is charged.
    """
    stack = compute.stack
    dtype = compute.linear_dtype if work.quantised and work.weight else compute.dtype
    rate = stack.fp8_rate if dtype == "fp8" else 1.0
    device = compute.device
    forward = gemm_seconds(device, dtype, work.m, work.n, work.k, batch=work.batch, rate=rate, cast=False)
    input_gradient = gemm_seconds(device, dtype, work.m, work.k, work.n, batch=work.batch, rate=rate, cast=False)
    flops = 2.0 * work.m * work.n * work.k * work.batch
    if work.frozen:
        return OperatorTime(forward * stack.compute_time, input_gradient * stack.compute_time, flops, flops, 1, 1)
    weight_gradient = gemm_seconds(
        device, dtype, work.k, work.n, work.m, batch=work.batch,
        out_bytes=compute.gradient_bytes if work.weight else 2.0, accumulate=work.weight, rate=rate, cast=False,
    )  # fmt: skip
    backward = input_gradient + weight_gradient
    a = stack.compute_time
    return OperatorTime(forward * a, backward * a, flops, 2.0 * flops, 1, 2, weight_gradient * a)


def grouped_time(work: GroupedGemm, compute: Compute) -> OperatorTime:
    """Grouped expert product: as `gemm_time`, the rows spread over the local experts."""
    stack = compute.stack
    dtype = compute.linear_dtype
    rate = stack.fp8_rate if dtype == "fp8" else 1.0
    factor = stack.compute_time * stack.grouped_time
    # whole fragments: the contraction of the weight gradient runs along rows, whose count sets no stride, so it is
    # padded and not misaligned
    rows = np.ceil(work.tokens / np.maximum(work.experts, 1.0) / FRAGMENT) * FRAGMENT
    forward = grouped_gemm_seconds(compute.device, dtype, work.experts, work.tokens, work.n, work.k, rate=rate)
    backward = grouped_gemm_seconds(compute.device, dtype, work.experts, work.tokens, work.k, work.n, rate=rate)
    flops = 2.0 * work.tokens * work.n * work.k
    # the weight gradient of each expert is a (k, n) product over that expert's rows
    weight_gradient = gemm_seconds(
        compute.device, dtype, work.k, work.n, rows, batch=work.experts, out_bytes=compute.gradient_bytes,
        accumulate=True, rate=rate, cast=False,
    )  # fmt: skip
    both = (backward + weight_gradient) * factor
    return OperatorTime(forward * factor, both, flops, 2.0 * flops, 1, 2, weight_gradient * factor)


def vector_time(work: Vector, compute: Compute) -> OperatorTime:
    """Element-wise work by bytes moved."""
    factor = compute.stack.vector_time
    forward = vector_seconds(compute.device, work.forward_bytes, work.forward_launches)
    backward = vector_seconds(compute.device, work.backward_bytes, work.backward_launches)
    zero = np.zeros(1)
    return OperatorTime(forward * factor, backward * factor, zero, zero, work.forward_launches, work.backward_launches)


def attention_time(work: CoreAttention, compute: Compute) -> OperatorTime:
    """Core attention; with a context-parallel ring one causal block call and (calls - 1) half-block calls.

    Zigzag placement balances a causal ring: each later step works on half of its block (arXiv 2310.01889, Megatron
    context parallelism).
    """
    if work.fused:
        forward, forward_flops = _flash(work, compute, "forward")
        backward, backward_flops = _flash(work, compute, "backward")
        factor = compute.stack.compute_time
        return OperatorTime(forward * factor, backward * factor, forward_flops, backward_flops, 1, 2)
    common = (compute.device,)
    shape = (work.batch, work.heads, work.q_length, work.kv_length, float(work.head_dim))
    forward = unfused_attention_seconds(*common, "forward", *shape, dtype=compute.dtype)
    backward = unfused_attention_seconds(*common, "backward", *shape, dtype=compute.dtype)
    flops = 2.0 * work.batch * work.heads * work.q_length * work.kv_length * (work.head_dim + work.v_head_dim)
    factor = compute.stack.compute_time
    return OperatorTime(forward * factor, backward * factor, flops, 2.0 * flops, 7, 10)


def _flash(work: CoreAttention, compute: Compute, phase: str) -> tuple[Array, Array]:
    rate = compute.stack.attention_rate
    window = float(work.window or 0)
    block = work.kv_length / work.calls

    def seconds(kv_length: Array, causal: bool) -> Array:
        return attention_seconds(
            compute.device, compute.attention_kernel, phase, work.batch, work.heads, work.kv_heads, work.q_length,
            kv_length, float(work.head_dim), float(work.v_head_dim), causal=causal, window=window,
            dtype=compute.dtype, rate=rate,
        )  # fmt: skip

    steps = np.maximum(work.calls - 1.0, 0.0)
    later = block * 0.5 if work.causal else block
    total = seconds(block, work.causal) + np.where(steps > 0.0, steps * seconds(later, False), 0.0)
    half = 0.5 if work.causal else 1.0
    keys = work.kv_length if work.window is None else np.minimum(work.kv_length, float(work.window) / half)
    pairs = work.q_length * keys * half
    products = work.head_dim + work.v_head_dim
    flops = 2.0 * work.batch * work.heads * pairs * products
    return total, flops if phase == "forward" else 2.0 * flops

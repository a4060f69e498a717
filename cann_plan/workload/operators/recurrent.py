"""Linear-attention (gated delta rule) and state-space (Mamba-2) mixers as ordered lists of operators."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.architecture import LinearAttention, StateSpace
from cann_plan.workload.operators.common import enter_tensor_parallel, leave_tensor_parallel, linear, norm, residual
from cann_plan.workload.operators.operator import Array, Exchange, Gemm, Message, Operator, Saved, Vector
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

BLOCK = "attention"
CHUNK = 64.0
"""Tokens per chunk of the chunked scan (delta rule and SSD kernels work in chunks of 64 to 256)."""


def _scan(
    name: str, rows: LayerRows, settings: LayerSettings, tokens: Array, heads: Array, key: float, value: float
) -> list[Operator]:
    """Chunked scan: intra-chunk scores and products, chunk states in and out: four products per chunk and head."""
    e = settings.element_bytes
    chunks = tokens / CHUNK * heads
    side = np.full_like(tokens, CHUNK)
    key_dim = np.full_like(tokens, key)
    value_dim = np.full_like(tokens, value)
    state = chunks * key * value * e
    modules = (BLOCK, "core_attention")
    traffic = tokens * heads * (2.0 * key + 2.0 * value) * e
    return [
        Operator(f"{name}_scores", modules, Gemm(side, side, key_dim, chunks, weight=False, quantised=False)),
        Operator(f"{name}_local", modules, Gemm(side, value_dim, side, chunks, weight=False, quantised=False)),
        Operator(f"{name}_state_in", modules, Gemm(key_dim, value_dim, side, chunks, weight=False, quantised=False)),
        Operator(f"{name}_state_out", modules, Gemm(side, value_dim, key_dim, chunks, weight=False, quantised=False),
                 saved=(Saved(f"{name}_states", state, ("layer", *modules)),)),
        Operator(f"{name}_decay", modules, Vector(traffic, traffic * 2.0, 4, 8), forward_temporary=traffic),
    ]  # fmt: skip


def _context(rows: LayerRows, settings: LayerSettings, tokens: Array, width: Array) -> Operator:
    """Context parallelism of a recurrent mixer: all-to-all to heads before the scan and back after it."""
    size = np.where(rows.context > 1.0, tokens * width * settings.element_bytes, 0.0)
    messages = (Message("all_to_all", size),)
    return Operator("context_exchange", (BLOCK, "core_attention"), Exchange("context", messages, messages))


def _mixer(
    rows: LayerRows, settings: LayerSettings, in_width: Array, out_width: Array, conv_width: Array, kernel: int,
    scan: list[Operator], *, norms: int, skip_norm: bool,
) -> list[Operator]:  # fmt: skip
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    hidden = np.full_like(in_width, float(settings.hidden))
    operators: list[Operator] = []
    if not skip_norm:
        operators.append(norm("attention_norm", rows, settings, settings.hidden, keep_input=True))
    operators.append(enter_tensor_parallel("mixer_gather", (BLOCK,), rows, settings, settings.hidden))
    operators.append(
        linear("mixer_in", (BLOCK, "qkv"), settings, tokens, in_width, hidden,
               saved=(Saved("mixer_input", tokens * in_width * e, ("layer", BLOCK)),))
    )  # fmt: skip
    if kernel:
        conv = tokens * conv_width * e
        operators.append(
            Operator("causal_conv", (BLOCK,), Vector(conv * 2.0, conv * 3.0, 1, 2),
                     saved=(Saved("conv_output", conv, ("layer", BLOCK)),), forward_temporary=conv)
        )  # fmt: skip
    operators.append(_context(rows, settings, tokens, conv_width + out_width))
    operators += scan
    gated = tokens * out_width * e
    operators.append(
        Operator("gated_norm", (BLOCK,), Vector(gated * 3.0, gated * 5.0, 1, 2),
                 saved=(Saved("scan_output", gated, ("layer", BLOCK)),), forward_temporary=gated)
    )  # fmt: skip
    operators.append(
        linear("mixer_out", (BLOCK, "projection"), settings, tokens, hidden, out_width,
               saved=(Saved("context", gated, ("layer", BLOCK)),))
    )  # fmt: skip
    operators.append(leave_tensor_parallel("mixer_scatter", (BLOCK,), rows, settings, settings.hidden))
    if norms >= 4:
        operators.append(norm("attention_post_norm", rows, settings, settings.hidden, keep_input=False))
    operators.append(residual("attention_residual", (BLOCK,), rows, settings))
    return operators


def linear_attention_operators(
    mixer: LinearAttention, rows: LayerRows, settings: LayerSettings, *, norms: int = 2, skip_norm: bool = False
) -> list[Operator]:
    """Gated delta-rule mixer (arXiv 2412.06464): q, k, v, z, beta and decay projections, convolution, scan, gate."""
    tokens = settings.tokens(rows)
    keys = mixer.key_heads * mixer.key_head_dim / rows.tensor
    values = mixer.value_heads * mixer.value_head_dim / rows.tensor
    in_width = 2.0 * keys + 2.0 * values
    if mixer.style == "gated_delta":
        in_width = in_width + 2.0 * mixer.value_heads / rows.tensor  # beta and decay
    heads = mixer.value_heads / rows.tensor
    ranks: list[Operator] = []
    if mixer.style == "kimi_delta":
        # decay and output gate come through low ranks: one down projection of both, one up projection each
        key_rank = np.full_like(keys, float(mixer.key_head_dim))
        value_rank = np.full_like(values, float(mixer.value_head_dim))
        in_width = 2.0 * keys + values + heads + key_rank + value_rank
        ranks = [
            linear("decay_up", (BLOCK,), settings, tokens, keys, key_rank),
            linear("gate_up", (BLOCK,), settings, tokens, values, value_rank),
        ]
    scan = ranks + _scan("delta", rows, settings, tokens, heads, float(mixer.key_head_dim), float(mixer.value_head_dim))
    return _mixer(rows, settings, in_width, values, 2.0 * keys + values, mixer.conv_kernel, scan, norms=norms,
                  skip_norm=skip_norm)  # fmt: skip


def state_space_operators(
    mixer: StateSpace, rows: LayerRows, settings: LayerSettings, *, norms: int = 2, skip_norm: bool = False
) -> list[Operator]:
    """Mamba-2 mixer (arXiv 2405.21060): input projection, convolution, SSD scan, gated norm, output projection."""
    tokens = settings.tokens(rows)
    inner = mixer.heads * mixer.head_dim / rows.tensor
    groups = np.maximum(mixer.groups / rows.tensor, 1.0) * mixer.state_dim
    heads = mixer.heads / rows.tensor
    if mixer.dt_rank:
        return _selective_scan(mixer, rows, settings, inner, norms=norms, skip_norm=skip_norm)
    in_width = 2.0 * inner + 2.0 * groups + heads
    scan = _scan("ssd", rows, settings, tokens, heads, float(mixer.state_dim), float(mixer.head_dim))
    return _mixer(rows, settings, in_width, inner, inner + 2.0 * groups, mixer.conv_kernel, scan, norms=norms,
                  skip_norm=skip_norm)  # fmt: skip


def _selective_scan(
    mixer: StateSpace, rows: LayerRows, settings: LayerSettings, inner: Array, *, norms: int, skip_norm: bool
) -> list[Operator]:
    """Mamba-1 (arXiv 2312.00752): x and z projections, convolution, step-size and B/C projections, fused scan.

    The scan kernel reads and writes its inputs once and keeps no states (section 3.3.2); its 9 FLOPs per state element
    run on the vector unit at memory speed.
    """
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    small = np.full_like(inner, float(mixer.dt_rank + 2 * mixer.state_dim))
    rank = np.full_like(inner, float(mixer.dt_rank))
    traffic = tokens * inner * 4.0 * e
    scan = [
        linear("step_and_state", (BLOCK, "core_attention"), settings, tokens, small, inner),
        linear("step_size", (BLOCK, "core_attention"), settings, tokens, inner, rank),
        Operator("selective_scan", (BLOCK, "core_attention"), Vector(traffic, traffic * 2.5, 1, 1),
                 saved=(Saved("step", tokens * inner * e, ("layer", BLOCK, "core_attention")),)),
    ]  # fmt: skip
    return _mixer(rows, settings, 2.0 * inner, inner, inner, mixer.conv_kernel, scan, norms=norms,
                  skip_norm=skip_norm)  # fmt: skip

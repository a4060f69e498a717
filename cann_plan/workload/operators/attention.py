"""Grouped-query softmax attention as an ordered list of operators, with its context-parallel exchanges."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.architecture import Attention
from cann_plan.workload.operators.common import (
    ALTERNATE,
    ROPE_PASSES_FUSED,
    ROPE_PASSES_UNFUSED,
    enter_tensor_parallel,
    leave_tensor_parallel,
    linear,
    lora_adapter,
    norm,
    residual,
    trained,
)
from cann_plan.workload.operators.operator import Array, CoreAttention, Exchange, Message, Operator, Saved, Vector
from cann_plan.workload.operators.rows import CONTEXT_KINDS, LayerRows, LayerSettings

BLOCK = "attention"


def local_kv_heads(attention: Attention, rows: LayerRows) -> Array:
    """Key/value heads on one device; with more tensor-parallel ranks than heads each rank keeps a copy of one."""
    return np.maximum(attention.kv_heads / rows.tensor, 1.0)


def effective_window(attention: Attention, settings: LayerSettings) -> int | None:
    """Keys a query can see at most, from a sliding window or a local chunk; None where the sequence is shorter."""
    spans = [span for span in (attention.window, attention.chunk) if span is not None]
    if not spans or min(spans) >= settings.sequence_length:
        return None
    return min(spans)


def attention_operators(
    attention: Attention, rows: LayerRows, settings: LayerSettings, *, norms: int = 2, skip_norm: bool = False
) -> list[Operator]:
    """Operators of an attention block in execution order (norm, qkv, rope, core, projection, residual).

    Saved bytes follow arXiv 2205.05198 section 4.1 where the layer is a GPT layer.
    """
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    heads = attention.heads / rows.tensor
    kv_heads = local_kv_heads(attention, rows)
    q_width = heads * attention.head_dim
    v_dim = attention.value_head_dim or attention.head_dim
    k_width = kv_heads * attention.head_dim
    v_width = kv_heads * v_dim
    out_width = heads * v_dim
    gate_width = out_width if attention.output_gate else out_width * 0.0
    hidden = np.full_like(q_width, float(settings.hidden))
    key_value = k_width + (v_width * 0.0 if attention.shared_kv else v_width)
    if attention.reused_kv:  # keys and values of an earlier layer: nothing to project, nothing more to keep
        key_value = k_width * 0.0
    qkv_width = q_width + key_value + gate_width
    operators: list[Operator] = []
    if not skip_norm:
        kept = trained(settings, "qkv")
        operators.append(
            norm("attention_norm", rows, settings, settings.hidden, keep_input=True, keep_output=kept)
        )  # fmt: skip
    operators.append(enter_tensor_parallel("attention_gather", (BLOCK,), rows, settings, settings.hidden))
    operators.append(
        linear(
            "qkv", (BLOCK, "qkv"), settings, tokens, qkv_width, hidden,
            saved=(
                Saved("query", tokens * q_width * e, ("layer", BLOCK, "qkv")),
                Saved("key_value", tokens * (k_width * 0.0 if attention.reused_kv else k_width + v_width) * e,
                      ("layer", BLOCK, "qkv")),
                Saved("gate", tokens * gate_width * e, ("layer", BLOCK, "qkv")),
            ),
        )
    )  # fmt: skip
    if _targets(settings, "qkv"):
        operators += lora_adapter("qkv", (BLOCK, "qkv"), settings, tokens, qkv_width, hidden)
    if attention.qkv_bias and "bias" not in settings.fused:
        operators.append(_pass("qkv_bias", tokens * qkv_width * e, 2.0, 1.0))
    if attention.qk_norm != "none":
        size = tokens * (q_width + k_width) * e
        operators.append(
            Operator("qk_norm", (BLOCK, "qkv"), Vector(size * 2.0, size * 3.0, 2, 2),
                     saved=(Saved("qk_norm_input", size, ("layer", BLOCK, "qkv", ALTERNATE)),))
        )  # fmt: skip
    if settings.position == "rotary":
        passes = ROPE_PASSES_FUSED if "rope" in settings.fused else ROPE_PASSES_UNFUSED
        rotated = tokens * (q_width + k_width) * e
        rebuilt = ("layer", BLOCK, "qkv", ALTERNATE)
        kept_input = (Saved("rope_input", rotated, rebuilt),) if keeps_rope_input(settings) else ()
        operators.append(_pass("rope", rotated, passes, passes, kept_input))
    operators += _core(attention, rows, settings, heads, kv_heads)
    if attention.output_gate:
        size = tokens * out_width * e
        operators.append(_pass("output_gate", size, 3.0, 5.0, (Saved("gated_context", size, ("layer", BLOCK)),)))
    operators.append(
        linear("attention_projection", (BLOCK, "projection", ALTERNATE), settings, tokens, hidden, out_width,
               saved=(Saved("context", tokens * out_width * e, ("layer", BLOCK)),))
    )  # fmt: skip
    if _targets(settings, "projection"):
        operators += lora_adapter("projection", (BLOCK,), settings, tokens, hidden, out_width)
    operators.append(leave_tensor_parallel("attention_scatter", (BLOCK,), rows, settings, settings.hidden))
    if norms >= 4:
        operators.append(norm("attention_post_norm", rows, settings, settings.hidden, keep_input=False))
    operators.append(residual("attention_residual", (BLOCK,), rows, settings))
    return operators


def keeps_rope_input(settings: LayerSettings) -> bool:
    """Whether the fused rotary kernel saves what it rotates."""
    return settings.retention.rope_input and "rope" in settings.fused


def _targets(settings: LayerSettings, name: str) -> bool:
    return settings.lora_rank > 0 and name in settings.lora_targets


def _pass(name: str, size: Array, forward: float, backward: float, saved: tuple[Saved, ...] = ()) -> Operator:
    launches = max(1, round(forward / 2.5))
    return Operator(
        name, (BLOCK, ALTERNATE), Vector(size * forward, size * backward, launches, launches), saved=saved,
        forward_temporary=size, backward_temporary=size,
    )  # fmt: skip


def _core(
    attention: Attention, rows: LayerRows, settings: LayerSettings, heads: Array, kv_heads: Array
) -> list[Operator]:
    """Core attention with its context-parallel exchange: ring, Ulysses, hybrid or key/value all-gather."""
    e = settings.element_bytes
    v_dim = attention.value_head_dim or attention.head_dim
    length = np.full_like(heads, float(settings.sequence_length))
    document = float(settings.document_length) if settings.document_length else None
    batch = rows.micro_batch
    if document is not None and document < settings.sequence_length:
        batch = batch * (settings.sequence_length / document)
        length = np.full_like(heads, document)
    ulysses = ulysses_degree(rows)
    ring = rows.context / ulysses
    local_heads = heads / ulysses
    local_kv = np.maximum(kv_heads / ulysses, 1.0)
    q_length = length / ring
    core = CoreAttention(
        batch, local_heads, local_kv, q_length, length, attention.head_dim, v_dim,
        settings.causal, effective_window(attention, settings), settings.flash, calls=ring,
    )  # fmt: skip
    scores = batch * local_heads * q_length * length
    modules = (BLOCK, "core_attention")
    saved: tuple[Saved, ...]
    if settings.flash:
        temporary = batch * local_heads * q_length * v_dim * e
        saved = fused_attention_saved(settings, batch * local_heads * q_length, temporary)
        backward_temporary = 3.0 * temporary
    else:
        rebuilt = ("layer", *modules)
        saved = (Saved("softmax", scores * e, rebuilt),)
        if settings.dropout:
            saved += (Saved("attention_mask", scores, rebuilt), Saved("attention_dropout", scores * e, rebuilt))
        temporary = scores * e
        backward_temporary = 2.0 * scores * e
    operators = [
        Operator("core_attention", modules, core, saved=saved, forward_temporary=temporary,
                 backward_temporary=backward_temporary)
    ]  # fmt: skip
    return _exchange(attention, rows, settings, heads, kv_heads) + operators


def fused_attention_saved(settings: LayerSettings, queries: Array, output: Array) -> tuple[Saved, ...]:
    """What a fused kernel keeps besides its inputs: softmax statistics of `queries` x heads and, where the kernel's
    layout is not the layer's, its own copy of the `output` (bytes).
    """
    rebuilt = ("layer", BLOCK, "core_attention")
    saved: tuple[Saved, ...] = (Saved("softmax_statistics", queries * settings.retention.softmax_statistics, rebuilt),)
    if settings.retention.context_copy:
        saved += (Saved("context_copy", output, rebuilt),)
    return saved


def ulysses_degree(rows: LayerRows) -> Array:
    """Head-parallel part of the context-parallel degree, shape (R,)."""
    kind = rows.context_kind
    whole = np.where(kind == CONTEXT_KINDS.index("ulysses"), rows.context, 1.0)
    return np.where(kind == CONTEXT_KINDS.index("hybrid"), rows.ulysses, whole)


def _exchange(
    attention: Attention, rows: LayerRows, settings: LayerSettings, heads: Array, kv_heads: Array
) -> list[Operator]:
    """Messages of context parallelism per layer.

    Ring: each rank passes its keys and values on (ring - 1) times; backward passes them and their gradients.
    Ulysses: all-to-all of q, k, v and of the output, the same in backward. All-gather: keys and values once, their
    gradients reduce-scattered.
    """
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    ulysses = ulysses_degree(rows)
    ring = rows.context / ulysses
    width = attention.head_dim + (attention.value_head_dim or attention.head_dim)
    kv_size = tokens * kv_heads * width * e
    gather = rows.context_kind == CONTEXT_KINDS.index("all_gather")
    ring_size = np.where((ring > 1.0) & ~gather, kv_size, 0.0)
    steps = np.maximum(ring - 1.0, 0.0)
    gathered = np.where(gather & (rows.context > 1.0), kv_size * rows.context, 0.0)
    shuffled = np.where(ulysses > 1.0, tokens * heads * width * e + kv_size, 0.0)
    forward = (
        Message("send", ring_size, steps),
        Message("all_gather", gathered),
        Message("all_to_all", shuffled),
    )
    backward = (
        Message("send", ring_size * 2.0, steps),
        Message("all_gather", gathered),
        Message("reduce_scatter", gathered),
        Message("all_to_all", shuffled),
    )
    # every later ring step rescales and adds its partial output (read two, write one), backward its query gradient
    merged = steps * tokens * heads * (attention.value_head_dim or attention.head_dim) * e
    return [
        Operator("context_exchange", (BLOCK, "core_attention"), Exchange("context", forward, backward),
                 forward_temporary=2.0 * ring_size + gathered, backward_temporary=4.0 * ring_size + gathered),
        Operator("context_merge", (BLOCK, "core_attention"), Vector(merged * 3.0, merged * 3.0, 1, 1)),
    ]  # fmt: skip

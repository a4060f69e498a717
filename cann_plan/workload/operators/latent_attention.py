"""Multi-head latent attention (MLA, arXiv 2405.04434) as an ordered list of operators."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.architecture import LatentAttention
from cann_plan.workload.operators.attention import BLOCK, fused_attention_saved, keeps_rope_input, ulysses_degree
from cann_plan.workload.operators.common import (
    ROPE_PASSES_FUSED,
    ROPE_PASSES_UNFUSED,
    enter_tensor_parallel,
    leave_tensor_parallel,
    linear,
    norm,
    residual,
)
from cann_plan.workload.operators.operator import Array, CoreAttention, Exchange, Message, Operator, Saved, Vector
from cann_plan.workload.operators.rows import CONTEXT_KINDS, LayerRows, LayerSettings


def latent_attention_operators(
    mla: LatentAttention, rows: LayerRows, settings: LayerSettings, *, norms: int = 2, skip_norm: bool = False
) -> list[Operator]:
    """Operators of an MLA block: down projections on every tensor-parallel rank, up projections split by heads."""
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    heads = mla.heads / rows.tensor
    hidden = np.full_like(heads, float(settings.hidden))
    qk_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    q_width = heads * qk_dim
    v_width = heads * mla.v_head_dim
    down_tokens = tokens / rows.sequence_shards
    kv_rank = np.full_like(heads, float(mla.kv_lora_rank))
    kv_down = np.full_like(heads, float(mla.kv_lora_rank + mla.qk_rope_head_dim))
    up = ("layer", BLOCK, "mla_up_proj")
    operators: list[Operator] = []
    if not skip_norm:
        operators.append(norm("attention_norm", rows, settings, settings.hidden, keep_input=True))
    if mla.q_lora_rank:
        q_rank = np.full_like(heads, float(mla.q_lora_rank))
        operators.append(linear("q_down", (BLOCK,), settings, down_tokens, q_rank, hidden))
        operators.append(norm("q_norm", rows, settings, float(mla.q_lora_rank), keep_input=False, module=BLOCK))
        operators.append(enter_tensor_parallel("q_gather", (BLOCK,), rows, settings, float(mla.q_lora_rank)))
        operators.append(
            linear("q_up", (BLOCK, "mla_up_proj"), settings, tokens, q_width, q_rank,
                   saved=(Saved("query", tokens * q_width * e, up),))
        )  # fmt: skip
    else:
        operators.append(enter_tensor_parallel("q_gather", (BLOCK,), rows, settings, settings.hidden))
        operators.append(
            linear("q_proj", (BLOCK,), settings, tokens, q_width, hidden,
                   saved=(Saved("query", tokens * q_width * e, ("layer", BLOCK)),))
        )  # fmt: skip
    operators.append(linear("kv_down", (BLOCK,), settings, down_tokens, kv_down, hidden))
    operators.append(norm("kv_norm", rows, settings, float(mla.kv_lora_rank), keep_input=False, module=BLOCK))
    kv_gather_width = float(mla.kv_lora_rank + mla.qk_rope_head_dim)
    operators.append(enter_tensor_parallel("kv_gather", (BLOCK,), rows, settings, kv_gather_width))
    operators.append(
        linear("kv_up", (BLOCK, "mla_up_proj"), settings, tokens, heads * (mla.qk_nope_head_dim + mla.v_head_dim),
               kv_rank, saved=(Saved("key", tokens * q_width * e, up), Saved("value", tokens * v_width * e, up)))
    )  # fmt: skip
    passes = ROPE_PASSES_FUSED if "rope" in settings.fused else ROPE_PASSES_UNFUSED
    rotated = tokens * (heads + 1.0) * mla.qk_rope_head_dim * e
    assembled = tokens * q_width * 2.0 * e  # queries and keys put together from their two parts
    operators.append(
        Operator("rope", (BLOCK, "mla_up_proj"),
                 Vector(rotated * passes + assembled * 2.0, rotated * passes + assembled * 2.0, 4, 4),
                 saved=(Saved("rope_input", rotated, up),) if keeps_rope_input(settings) else (),
                 forward_temporary=assembled, backward_temporary=assembled)
    )  # fmt: skip
    if mla.index_heads:
        operators += _indexer(mla, rows, settings, tokens)
    operators += _core(mla, rows, settings, heads, qk_dim)
    operators.append(
        linear("attention_projection", (BLOCK, "projection"), settings, tokens, hidden, v_width,
               saved=(Saved("context", tokens * v_width * e, ("layer", BLOCK)),))
    )  # fmt: skip
    operators.append(leave_tensor_parallel("attention_scatter", (BLOCK,), rows, settings, settings.hidden))
    if norms >= 4:
        operators.append(norm("attention_post_norm", rows, settings, settings.hidden, keep_input=False))
    operators.append(residual("attention_residual", (BLOCK,), rows, settings))
    return operators


def _core(mla: LatentAttention, rows: LayerRows, settings: LayerSettings, heads: Array, qk_dim: int) -> list[Operator]:
    e = settings.element_bytes
    length = np.full_like(heads, float(settings.sequence_length))
    batch = rows.micro_batch
    if settings.document_length and settings.document_length < settings.sequence_length:
        batch = batch * (settings.sequence_length / settings.document_length)
        length = np.full_like(heads, float(settings.document_length))
    ulysses = ulysses_degree(rows)
    ring = rows.context / ulysses
    window = mla.index_top_k if mla.index_heads and mla.index_top_k < settings.sequence_length else mla.window
    local_heads = heads / ulysses
    q_length = length / ring
    core = CoreAttention(batch, local_heads, local_heads, q_length, length, qk_dim, mla.v_head_dim,
                         settings.causal, window, settings.flash, calls=ring)  # fmt: skip
    temporary = batch * local_heads * q_length * mla.v_head_dim * e
    saved = fused_attention_saved(settings, batch * local_heads * q_length, temporary)
    if not settings.flash:
        scores = batch * local_heads * q_length * length * e
        saved = (Saved("softmax", scores, ("layer", BLOCK, "core_attention")),)
        temporary = scores
    tokens = settings.tokens(rows)
    width = heads * (qk_dim + mla.v_head_dim)
    kv_size = tokens * width * e
    gather = rows.context_kind == CONTEXT_KINDS.index("all_gather")
    steps = np.maximum(ring - 1.0, 0.0)
    ring_size = np.where((ring > 1.0) & ~gather, kv_size, 0.0)
    gathered = np.where(gather & (rows.context > 1.0), kv_size * rows.context, 0.0)
    shuffled = np.where(ulysses > 1.0, tokens * heads * (2.0 * qk_dim + 2.0 * mla.v_head_dim) * e, 0.0)
    exchange = Exchange(
        "context",
        (Message("send", ring_size, steps), Message("all_gather", gathered), Message("all_to_all", shuffled)),
        (
            Message("send", ring_size * 2.0, steps),
            Message("all_gather", gathered),
            Message("reduce_scatter", gathered),
            Message("all_to_all", shuffled),
        ),
    )
    return [
        Operator("context_exchange", (BLOCK, "core_attention"), exchange, forward_temporary=2.0 * ring_size + gathered,
                 backward_temporary=4.0 * ring_size + gathered),
        Operator("core_attention", (BLOCK, "core_attention"), core, saved=saved, forward_temporary=temporary,
                 backward_temporary=3.0 * temporary),
    ]  # fmt: skip


def _indexer(mla: LatentAttention, rows: LayerRows, settings: LayerSettings, tokens: Array) -> list[Operator]:
    """The lightning indexer of sparse attention: its projections and one scoring product over all earlier tokens."""
    heads = np.full_like(tokens, float(mla.index_heads))
    width = np.full_like(tokens, float(mla.index_heads * mla.index_head_dim))
    hidden = np.full_like(tokens, float(mla.q_lora_rank or settings.hidden))
    length = np.full_like(tokens, float(settings.sequence_length))
    score = CoreAttention(rows.micro_batch, heads, np.ones_like(tokens), length / rows.context, length,
                          mla.index_head_dim, 0, settings.causal, None, True)  # fmt: skip
    return [
        linear("index_query", (BLOCK,), settings, tokens, width, hidden),
        Operator("index_scores", (BLOCK, "core_attention"), score),
    ]

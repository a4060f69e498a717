"""Decoders with mixture-of-experts blocks and ordinary attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cann_plan.importers.hf_config import (
    EXPERTS,
    FFN,
    TOP_K,
    Fields,
    HfConfig,
    decoder,
    every,
    gated,
    shortest,
    windowed,
)
from cann_plan.importers.hf_dense import exaone_period, qwen_window


def moe(c: HfConfig, **fields: Any) -> Fields:
    """Routed experts: number and choices of each token under the usual names, the rest by the family."""
    return {"experts": c.numbers(*EXPERTS), "top_k": c.numbers(*TOP_K)} | fields


def blocks(dense: Sequence[bool]) -> Fields:
    """`feed_forwards` from whether each layer is dense."""
    return {"feed_forwards": shortest(["dense" if layer else "moe" for layer in dense])}


def mixtral(c: HfConfig) -> Fields:
    """Mixtral."""
    width = c.integer(*FFN)
    window = c.optional_integer("sliding_window")
    fields = decoder(c, activation=c.activation(), moe=moe(c, hidden_size=width))
    return fields | ({"window": window} if window else {})


def _qwen_blocks(c: HfConfig) -> Fields:
    """Mixture layers of Qwen: every `decoder_sparse_step`-th, but for those listed as dense."""
    dense = qwen_dense(c)
    return blocks(dense) if any(dense) else {}


def qwen_dense(c: HfConfig) -> list[bool]:
    """Whether each layer of a Qwen mixture model has a dense block."""
    step, only = c.integer("decoder_sparse_step", default=1), set(c.integers("mlp_only_layers") or ())
    return [layer in only or (layer + 1) % max(step, 1) != 0 for layer in range(c.layers)]


def qwen2_moe(c: HfConfig) -> Fields:
    """Qwen 1.5 and 2 MoE: biased q, k, v, a gated shared expert."""
    shared = c.integer("shared_expert_intermediate_size")
    mixture = moe(c, hidden_size=c.integer("moe_intermediate_size"), shared_hidden_size=shared, shared_gate=True)
    return gated(c, qkv_bias=c.flag("qkv_bias", default=True), moe=mixture) | qwen_window(c) | _qwen_blocks(c)


def qwen3_moe(c: HfConfig) -> Fields:
    """Qwen 3 MoE: norms of each query and key head, no shared expert."""
    bias = c.flag("attention_bias")
    mixture = moe(c, hidden_size=c.integer("moe_intermediate_size"))
    fields = gated(c, qk_norm="head", qkv_bias=bias, attention_output_bias=bias, moe=mixture)
    return fields | qwen_window(c) | _qwen_blocks(c)


def leading_dense(c: HfConfig, **fields: Any) -> Fields:
    """Routed and shared experts of the DeepSeek kind, dense blocks in the first layers."""
    return moe(
        c, hidden_size=c.integer("moe_intermediate_size"),
        shared_experts=c.integer("n_shared_experts", "num_shared_experts", default=0),
        leading_dense_layers=c.integer("first_k_dense_replace", default=0), **fields,
    )  # fmt: skip


def deepseek(c: HfConfig) -> Fields:
    """DeepSeekMoE 16B: Llama attention."""
    bias = c.flag("attention_bias")
    mixture = leading_dense(c, layer_frequency=c.integer("moe_layer_freq", default=1))
    return gated(c, qkv_bias=bias, attention_output_bias=bias, moe=mixture)


def glm4_moe(c: HfConfig) -> Fields:
    """GLM 4.5 and 4.6: biased q, k, v, optional norms of each head."""
    return gated(
        c, qkv_bias=c.flag("attention_bias"), qk_norm="head" if c.flag("use_qk_norm") else "none",
        moe=leading_dense(c), mtp_layers=c.integer("num_nextn_predict_layers", default=0),
    )  # fmt: skip


def dots1(c: HfConfig) -> Fields:
    """dots.llm1: norms of each head."""
    bias = c.flag("attention_bias")
    return gated(c, qkv_bias=bias, attention_output_bias=bias, qk_norm="head", moe=leading_dense(c))


def solar_open(c: HfConfig) -> Fields:
    """Solar Open: every layer a mixture."""
    bias = c.flag("attention_bias")
    return decoder(c, activation=c.activation(), qkv_bias=bias, moe=leading_dense(c))


def exaone_moe(c: HfConfig) -> Fields:
    """K-EXAONE: norms of each head, 3 of 4 layers slide."""
    fields = gated(c, qk_norm="head", moe=leading_dense(c))
    types = every(c.layers, exaone_period(c), ordinary="sliding_attention", special="full_attention")
    fields |= windowed(c.names("layer_types") or types, c.optional_integer("sliding_window"))
    sparse = c.names("mlp_layer_types")
    listed = c.integers("is_moe_layer")
    if sparse is not None:
        fields |= blocks([name == "dense" for name in sparse])
    elif listed is not None:
        fields |= blocks([not value for value in listed])
    return fields


def afmoe(c: HfConfig) -> Fields:
    """Arcee Trinity: sandwich norms, gated attention, norms of each head, a learned router correction."""
    types = every(
        c.layers, c.integer("global_attn_every_n_layers", default=4), ordinary="sliding_attention",
        special="full_attention",
    )  # fmt: skip
    mixture = moe(
        c, hidden_size=c.integer("moe_intermediate_size"), shared_experts=c.integer("num_shared_experts"),
        leading_dense_layers=c.integer("num_dense_layers"), router_bias=True,
    )  # fmt: skip
    fields = gated(c, qk_norm="head", block_norms=2, output_gate=True, moe=mixture)
    return fields | windowed(c.names("layer_types") or types, c.optional_integer("sliding_window"))


def hy_v3(c: HfConfig) -> Fields:
    """Hunyuan 3: norms of each head, one dense layer first."""
    bias = c.flag("attention_bias")
    fields = gated(c, qk_norm="head", qkv_bias=bias, attention_output_bias=bias, moe=leading_dense(c))
    if not c.has("first_k_dense_replace"):
        names = c.names("mlp_layer_types")
        fields |= blocks([name == "dense" for name in names] if names else [not layer for layer in range(c.layers)])
    return fields


def mimo_v2_flash(c: HfConfig) -> Fields:
    """MiMo-V2-Flash: narrower values than keys; 5 of 6 layers slide, with sinks and more key/value heads."""
    pattern = c.integers("hybrid_layer_pattern")  # 1: sliding
    types = c.names("layer_types") or (
        ["sliding_attention" if slides else "full_attention" for slides in pattern]
        if pattern is not None
        else ["sliding_attention" if i and (i + 1) % 6 else "full_attention" for i in range(c.layers)]
    )
    kv_heads = c.integer("num_key_value_heads")
    sliding_kv = c.integer("swa_num_key_value_heads", default=2 * kv_heads)
    sparse = c.names("mlp_layer_types")
    if sparse is None and isinstance(c.raw("moe_layer_freq"), list):  # 1: mixture
        sparse = ["sparse" if value else "dense" for value in c.integers("moe_layer_freq") or ()]
    dense = [name == "dense" for name in sparse] if sparse else [layer == 0 for layer in range(c.layers)]
    bias = c.flag("attention_bias")
    fields = gated(
        c, kv_heads=[sliding_kv if name == "sliding_attention" else kv_heads for name in types],
        value_head_dim=c.integer("v_head_dim"), qkv_bias=bias, sinks="sliding", moe=leading_dense(c),
    )  # fmt: skip
    return fields | blocks(dense) | windowed(types, c.optional_integer("sliding_window", "sliding_window_size"))


def phimoe(c: HfConfig) -> Fields:
    """Phi-3.5-MoE: LayerNorm with bias."""
    bias = c.flag("attention_bias")
    window = c.optional_integer("sliding_window")
    fields = decoder(
        c, norm="layernorm", qkv_bias=bias, attention_output_bias=bias, head_bias=c.flag("lm_head_bias"),
        activation=c.activation(), moe=moe(c, hidden_size=c.integer(*FFN)),
    )  # fmt: skip
    return fields | ({"window": window} if window else {})


def olmoe(c: HfConfig) -> Fields:
    """OLMoE, FlexOlmo: norms over all query and key heads."""
    bias = c.flag("attention_bias")
    return decoder(
        c, qkv_bias=bias, attention_output_bias=bias, qk_norm="full", activation=c.activation(),
        moe=moe(c, hidden_size=c.integer(*FFN)),
    )  # fmt: skip


def granitemoe(c: HfConfig) -> Fields:
    """Granite 3 MoE, with a shared expert in the shared variant."""
    bias = c.flag("attention_bias")
    shared = c.integer("shared_intermediate_size", default=0)
    mixture = moe(c, hidden_size=c.integer(*FFN), shared_hidden_size=shared)
    return decoder(c, qkv_bias=bias, attention_output_bias=bias, activation=c.activation(), moe=mixture)


def dbrx(c: HfConfig) -> Fields:
    """DBRX: LayerNorm without bias."""
    attention, ffn = c.section("attn_config"), c.section("ffn_config")
    mixture = {
        "experts": ffn.integer("moe_num_experts", default=4),
        "top_k": ffn.integer("moe_top_k", default=1),
        "hidden_size": ffn.integer("ffn_hidden_size", default=3584),
    }
    kv_heads = attention.integer("kv_n_heads", default=1)
    return decoder(c, norm="layernorm", norm_bias=False, kv_heads=kv_heads, activation="silu", moe=mixture)


def arctic(c: HfConfig) -> Fields:
    """Snowflake Arctic: a dense residual block of the hidden width, with a norm of its own, beside every mixture."""
    if c.integer("moe_layer_frequency", default=2) != 1 or not c.flag("parallel_attn_mlp_res"):
        raise c.unsupported("with layers that are not a mixture beside a dense residual")
    mixture = moe(c, hidden_size=c.integer(*FFN), shared_hidden_size=c.hidden)
    return decoder(c, activation=c.activation(), layer_extra_parameters=c.hidden, moe=mixture)


def grok_1(c: HfConfig) -> Fields:
    """Grok-1: sandwich norms, tied embeddings."""
    width = c.integer(*FFN, default=0) or _grok_width(c.hidden, c.integer("widening_factor", default=8))
    return decoder(
        c, activation="gelu", block_norms=2, tied_embeddings=c.flag("tie_word_embeddings", default=True),
        moe=moe(c, hidden_size=width),
    )  # fmt: skip


def _grok_width(hidden: int, widening: int) -> int:
    """2/3 of `widening` hidden widths rounded up to a multiple of 8 (xai-org/grok-1 model.py)."""
    width = widening * hidden * 2 // 3
    return -(-width // 8) * 8


def ernie4_5_moe(c: HfConfig) -> Fields:
    """ERNIE 4.5 MoE: mixtures in a range of layers, a learned router correction."""
    first, last = c.integer("moe_layer_start_index"), c.integer("moe_layer_end_index")
    interval = c.integer("moe_layer_interval")
    last = c.layers - 1 if last == -1 else last
    dense = [not ((layer + 1) % interval == 0 and first <= layer <= last) for layer in range(c.layers)]
    bias = c.flag("use_bias")
    mixture = moe(
        c, hidden_size=c.integer("moe_intermediate_size"), shared_experts=c.integer("moe_num_shared_experts"),
        router_bias=True,
    )  # fmt: skip
    return gated(c, bias=bias, moe=mixture) | blocks(dense)


def hunyuan_moe(c: HfConfig) -> Fields:
    """Hunyuan A13B: norms of each head, one shared expert; numbers may be lists with one per layer."""
    if c.flag("use_cla"):
        raise c.unsupported("with cross-layer attention")
    bias = c.flag("attention_bias")
    # the published class sizes experts by intermediate_size, whatever moe_intermediate_size says
    mixture = moe(c, hidden_size=c.numbers(*FFN), shared_experts=1)
    return decoder(c, qkv_bias=bias, attention_output_bias=bias, qk_norm="head", activation=c.activation(), moe=mixture)


def llama4(c: HfConfig) -> Fields:
    """Llama 4: chunked attention in 3 of 4 layers, a shared expert, mixtures every `interleave_moe_layer_step`."""
    bias = c.flag("attention_bias")
    step = c.integer("interleave_moe_layer_step", default=1)
    mixture_layers = c.integers("moe_layers")
    chosen = set(range(step - 1, c.layers, max(step, 1)) if mixture_layers is None else mixture_layers)
    width = c.integer(*FFN)
    fields = decoder(
        c, ffn_hidden_size=c.integer("intermediate_size_mlp"), activation=c.activation(), qkv_bias=bias,
        attention_output_bias=bias, qk_norm="unit" if c.flag("use_qk_norm") else "none",
        moe=moe(c, hidden_size=width, shared_experts=1),
    )  # fmt: skip
    fields |= blocks([layer not in chosen for layer in range(c.layers)])
    chunk = c.optional_integer("attention_chunk_size")
    if chunk:
        rotary = c.integers("no_rope_layers") or [int((layer + 1) % 4 != 0) for layer in range(c.layers)]
        types = c.names("layer_types") or ["chunked_attention" if r else "full_attention" for r in rotary]
        mixers = shortest(["chunked" if name == "chunked_attention" else "full" for name in types])
        fields |= {"chunk": chunk, "mixers": mixers}
    return fields


def gpt_oss(c: HfConfig) -> Fields:
    """gpt-oss: attention sinks, biases everywhere, alternating window."""
    bias = c.flag("attention_bias", default=True)
    mixture = moe(c, hidden_size=c.integer(*FFN), router_bias=True, bias=True)
    fields = decoder(c, qkv_bias=bias, attention_output_bias=bias, sinks=True, activation="swiglu_clamped", moe=mixture)
    types = every(c.layers, 2, ordinary="sliding_attention", special="full_attention")
    return fields | windowed(c.names("layer_types") or types, c.optional_integer("sliding_window"))


def minimax_m2(c: HfConfig) -> Fields:
    """MiniMax-M2: norms over all query and key heads."""
    mixture = moe(c, hidden_size=c.integer(*FFN))
    modules = c.integer("num_mtp_modules", default=0) if c.flag("use_mtp") else 0
    return decoder(c, qk_norm="full", activation=c.activation(), moe=mixture, mtp_layers=modules)

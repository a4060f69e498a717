"""Decoders of the GPT kind: LayerNorm, biases, no gate, learned or ALiBi positions, parallel blocks."""

from __future__ import annotations

from cann_plan.importers.hf_config import FFN, VOCABULARY, Fields, HfConfig, decoder


def _gpt(c: HfConfig, **fields: object) -> Fields:
    """LayerNorm, biases, no gate; four hidden widths where the feed-forward width is not stated."""
    base: Fields = {
        "ffn_hidden_size": c.integer(*FFN, default=4 * c.hidden),
        "gated": False,
        "activation": c.activation("gelu"),
        "norm": "layernorm",
        "bias": True,
    }
    return decoder(c, **(base | fields))


def gpt2(c: HfConfig) -> Fields:
    """GPT-2."""
    return _gpt(c, position="learned", position_table=c.integer("n_positions", "max_position_embeddings", "n_ctx"))


def openai_gpt(c: HfConfig) -> Fields:
    """GPT (2018): norms behind the blocks, none at the end."""
    return gpt2(c) | {"final_norm": False, "tied_embeddings": c.flag("tie_word_embeddings", default=True)}


def gpt_bigcode(c: HfConfig) -> Fields:
    """SantaCoder, StarCoder: GPT-2 with one key/value head."""
    return gpt2(c) | {"kv_heads": 1 if c.flag("multi_query", default=True) else c.heads}


def gpt_neo(c: HfConfig) -> Fields:
    """GPT-Neo: unbiased q, k, v; alternating global and local layers."""
    kinds = {"global": "full", "local": "sliding"}
    mixers = [kinds[kind] for kinds_, count in c.raw("attention_types") or () for _ in range(count) for kind in kinds_]
    fields = _gpt(c, position="learned", position_table=c.integer("max_position_embeddings"), qkv_bias=False)
    if len(mixers) != c.layers:
        mixers = [("full", "sliding")[layer % 2] for layer in range(c.layers)]
    if "sliding" in mixers:
        fields |= {"mixers": mixers, "window": c.integer("window_size")}
    return fields


def gpt_neox(c: HfConfig) -> Fields:
    """GPT-NeoX, Pythia: parallel blocks with two norms."""
    bias = c.flag("attention_bias", default=True)
    return _gpt(
        c, parallel_block=c.flag("use_parallel_residual", default=True), qkv_bias=bias, attention_output_bias=bias
    )


def gptj(c: HfConfig) -> Fields:
    """GPT-J, CodeGen: parallel blocks behind one norm, biases in the feed-forward block and the head alone."""
    return _gpt(c, parallel_block=True, shared_norm=True, qkv_bias=False, attention_output_bias=False, head_bias=True)


def phi(c: HfConfig) -> Fields:
    """Phi 1 and 2: parallel blocks behind one norm."""
    return _gpt(
        c, parallel_block=True, shared_norm=True, head_bias=True,
        qk_norm="head" if c.flag("qk_layernorm") else "none", qk_norm_bias=c.flag("qk_layernorm"),
    )  # fmt: skip


def persimmon(c: HfConfig) -> Fields:
    """Persimmon: a biased norm of each query and key head."""
    return _gpt(c, qk_norm="head" if c.flag("qk_layernorm") else "none", qk_norm_bias=c.flag("qk_layernorm"))


def opt(c: HfConfig) -> Fields:
    """OPT: a position table two rows longer than stated; the 350M model projects its embedding and norms behind."""
    affine = c.flag("layer_norm_elementwise_affine", default=True)
    before = c.flag("do_layer_norm_before", default=True) and not c.flag("_remove_final_layer_norm")
    return _gpt(
        c, position="learned", position_table=c.integer("max_position_embeddings") + 2,
        bias=c.flag("enable_bias", default=True), embedding_dim=c.integer("word_embed_proj_dim", default=c.hidden),
        final_norm=before, norm_scale=affine, norm_bias=affine,
    )  # fmt: skip


def xglm(c: HfConfig) -> Fields:
    """XGLM: sinusoidal positions."""
    return _gpt(c, position="sinusoidal")


def biogpt(c: HfConfig) -> Fields:
    """BioGPT: a position table two rows longer than stated."""
    return _gpt(c, position="learned", position_table=c.integer("max_position_embeddings") + 2)


def bloom(c: HfConfig) -> Fields:
    """BLOOM: ALiBi, a norm behind the embedding; `n_embed` is the old name of the hidden size."""
    hidden = c.integer("n_embed", default=0) or c.hidden
    return {
        **_gpt(c, position="alibi", embedding_norm=True),
        "hidden_size": hidden,
        "ffn_hidden_size": 4 * hidden,
    }


def mpt(c: HfConfig) -> Fields:
    """MPT: ALiBi, no biases, LayerNorm without bias; the published class has no position table."""
    attention = c.section("attn_config")
    if attention.raw("attn_type") == "multiquery_attention":
        raise c.unsupported("with multi-query attention")
    width = c.integer("expansion_ratio", default=4) * c.hidden
    return _gpt(c, position="alibi", bias=False, norm_bias=False, ffn_hidden_size=width)


def falcon(c: HfConfig) -> Fields:
    """Falcon: one key/value head (7B) or grouped ones (40B, 180B, 11B), parallel blocks with one or two norms."""
    new = c.flag("new_decoder_architecture")
    parallel = new or c.flag("parallel_attn", default=True)
    if new:
        kv_heads = c.integer("num_kv_heads", default=c.heads)
    else:
        kv_heads = 1 if c.flag("multi_query", default=True) else c.heads
    norms = c.integer("num_ln_in_parallel_attn", default=2 if new else 1)
    return _gpt(
        c, bias=c.flag("bias"), kv_heads=kv_heads, parallel_block=parallel, shared_norm=parallel and norms < 2,
        position="alibi" if c.flag("alibi") else "rotary", activation=c.activation("gelu"),
        vocabulary_size=c.integer(*VOCABULARY),
    )  # fmt: skip

"""Dense decoders of the Llama kind: RMSNorm, rotary positions, gated feed-forward blocks, and their variations."""

from __future__ import annotations

from cann_plan.importers.hf_config import FFN, Fields, HfConfig, decoder, every, gated, windowed


def llama(c: HfConfig) -> Fields:
    """Llama and what uses its class: `attention_bias` biases q, k, v and output, `mlp_bias` the feed-forward."""
    bias = c.flag("attention_bias")
    return gated(c, qkv_bias=bias, attention_output_bias=bias, ffn_bias=c.flag("mlp_bias"))


def mistral(c: HfConfig) -> Fields:
    """Llama with a sliding window in every layer where one is stated."""
    window = c.optional_integer("sliding_window")
    layer_types = c.names("layer_types")
    if layer_types is not None:
        return gated(c) | windowed(layer_types, window)
    return gated(c) | ({"window": window} if window else {})


def qwen_window(c: HfConfig) -> Fields:
    """Sliding window of Qwen 2 and 3: off unless `use_sliding_window`, then from layer `max_window_layers`."""
    window = c.optional_integer("sliding_window") if c.flag("use_sliding_window") else None
    if not window:
        return {}
    start = c.integer("max_window_layers", default=0)
    derived = ["sliding_attention" if layer >= start else "full_attention" for layer in range(c.layers)]
    return windowed(c.names("layer_types") or derived, window)


def qwen(c: HfConfig) -> Fields:
    """Qwen 1: biased q, k, v; the stated intermediate size is that of both up projections together."""
    return gated(c, ffn_hidden_size=c.integer(*FFN) // 2, head_dim=c.integer("kv_channels", default=128), qkv_bias=True)


def qwen2(c: HfConfig) -> Fields:
    """Qwen 2 and 2.5: biased q, k, v."""
    return gated(c, qkv_bias=True) | qwen_window(c)


def qwen3(c: HfConfig) -> Fields:
    """Qwen 3: norms of each query and key head."""
    bias = c.flag("attention_bias")
    return gated(c, qk_norm="head", qkv_bias=bias, attention_output_bias=bias) | qwen_window(c)


def internlm(c: HfConfig) -> Fields:
    """InternLM 1 and 2: one flag biases the attention projections."""
    bias = c.flag("bias", default=c.model_type == "internlm")
    return gated(c, qkv_bias=bias, attention_output_bias=bias)


def internlm3(c: HfConfig) -> Fields:
    """InternLM 3: separate flags for q, k, v and for the rest."""
    bias = c.flag("bias")
    return gated(c, qkv_bias=c.flag("qkv_bias"), attention_output_bias=bias, ffn_bias=bias)


def baichuan(c: HfConfig) -> Fields:
    """Baichuan 1 and 2: the 13B models (hidden size 5120) use ALiBi, the 7B models rotary positions."""
    return gated(c, position="alibi" if c.hidden == 5120 else "rotary")


def phi3(c: HfConfig) -> Fields:
    """Phi-3 and Phi-4."""
    window = c.optional_integer("sliding_window")
    return gated(c) | ({"window": window} if window else {})


def glm(c: HfConfig) -> Fields:
    """GLM-4 9B: biased q, k, v."""
    return gated(c, qkv_bias=c.flag("attention_bias"))


def glm4(c: HfConfig) -> Fields:
    """GLM-4-0414: GLM with sandwich norms."""
    return gated(c, qkv_bias=c.flag("attention_bias"), block_norms=2)


def chatglm(c: HfConfig) -> Fields:
    """ChatGLM 2 and 3, GLM-4 9B under its first name; the first ChatGLM is another model."""
    if c.has("inner_hidden_size") or not c.has("padded_vocab_size"):
        return _first_chatglm(c)
    linear_bias = c.flag("add_bias_linear")
    fields: Fields = {
        "head_dim": c.integer("kv_channels", default=128),
        "activation": "silu",
        "qkv_bias": linear_bias or c.flag("add_qkv_bias"),
        "attention_output_bias": linear_bias,
        "ffn_bias": linear_bias,
        "norm": "rmsnorm" if c.flag("rmsnorm", default=True) else "layernorm",
        "final_norm": c.flag("post_layer_norm", default=True),
        "vocabulary_size": c.integer("padded_vocab_size"),
    }
    if c.flag("multi_query_attention"):
        fields["kv_heads"] = c.integer("multi_query_group_num", default=1)
    return gated(c, **fields)


def _first_chatglm(c: HfConfig) -> Fields:
    """ChatGLM-6B (2023-03): LayerNorm, GELU, biases, two-dimensional rotary positions, tied embeddings."""
    width = c.integer("inner_hidden_size", default=4 * c.hidden)
    return decoder(
        c, ffn_hidden_size=width, gated=False, activation="gelu", norm="layernorm", bias=True, tied_embeddings=True
    )


def granite(c: HfConfig) -> Fields:
    """Granite 3: Llama with multipliers that hold no parameters."""
    return llama(c)


def olmo(c: HfConfig) -> Fields:
    """OLMo 1: LayerNorm without learned values."""
    bias = c.flag("attention_bias")
    return gated(c, norm="layernorm", norm_bias=False, norm_scale=False, qkv_bias=bias, attention_output_bias=bias)


def olmo2(c: HfConfig) -> Fields:
    """OLMo 2 and 3: norms behind the blocks, and over all query and key heads; OLMo 3 slides 3 of 4 layers."""
    bias = c.flag("attention_bias")
    fields = gated(c, qk_norm="full", qkv_bias=bias, attention_output_bias=bias)
    if c.model_type == "olmo3":
        types = c.names("layer_types") or every(c.layers, 4, ordinary="sliding_attention", special="full_attention")
        fields |= windowed(types, c.optional_integer("sliding_window"))
    return fields


def cohere(c: HfConfig) -> Fields:
    """Command R: parallel blocks behind one LayerNorm without bias, tied embeddings; Command R7B slides 3 of 4."""
    bias = c.flag("attention_bias")
    fields = gated(
        c, norm="layernorm", norm_bias=False, parallel_block=True, shared_norm=True, qkv_bias=bias,
        attention_output_bias=bias, qk_norm="full" if c.flag("use_qk_norm") else "none",
    )  # fmt: skip
    if c.model_type == "cohere2":
        period = c.integer("sliding_window_pattern", "_sliding_window_pattern", default=4)
        types = every(c.layers, period, ordinary="sliding_attention", special="full_attention")
        fields |= windowed(c.names("layer_types") or types, c.optional_integer("sliding_window"))
        fields |= {"head_dim": c.hidden // c.heads, "qk_norm": "none"}
    return fields


def stablelm(c: HfConfig) -> Fields:
    """StableLM 2: LayerNorm with bias; optionally parallel blocks and a norm of each head."""
    parallel = c.flag("use_parallel_residual")
    return gated(
        c, norm="layernorm", qkv_bias=c.flag("use_qkv_bias"), parallel_block=parallel, shared_norm=parallel,
        qk_norm="full" if c.flag("qk_layernorm") else "none",
    )  # fmt: skip


def starcoder2(c: HfConfig) -> Fields:
    """StarCoder 2: LayerNorm, biases, no gate."""
    window = c.optional_integer("sliding_window")
    fields = gated(c, norm="layernorm", gated=False, bias=c.flag("use_bias"), activation=c.activation("gelu"))
    return fields | ({"window": window} if window else {})


def exaone4(c: HfConfig) -> Fields:
    """EXAONE 4: norms behind the blocks and of each head; sliding layers in the 32B model."""
    fields = gated(c, qk_norm="head")
    window = c.optional_integer("sliding_window")
    if window:
        types = every(c.layers, exaone_period(c), ordinary="sliding_attention", special="full_attention")
        fields |= windowed(c.names("layer_types") or types, window)
    return fields


def exaone_period(c: HfConfig) -> int:
    """Layers from one full-attention layer to the next: a number, or a text such as LLLG."""
    pattern = c.raw("sliding_window_pattern")
    return len(pattern) if isinstance(pattern, str) else c.integer("sliding_window_pattern", default=4)


def seed_oss(c: HfConfig) -> Fields:
    """Seed-OSS: biased q, k, v."""
    return gated(
        c, qkv_bias=c.flag("attention_bias"), attention_output_bias=c.flag("attention_out_bias"),
        ffn_bias=c.flag("mlp_bias"),
    )  # fmt: skip


def hunyuan(c: HfConfig) -> Fields:
    """Hunyuan dense: norms of each query and key head."""
    bias = c.flag("attention_bias")
    return gated(c, qk_norm="head", qkv_bias=bias, attention_output_bias=bias)


def ernie4_5(c: HfConfig) -> Fields:
    """ERNIE 4.5 dense."""
    return gated(c, bias=c.flag("use_bias"))


def plain(c: HfConfig) -> Fields:
    """Llama without a gate (Arcee, Apertus, Nemotron, Jais 2); the family says which norm."""
    bias = c.flag("attention_bias")
    fields = gated(
        c, gated=False, qkv_bias=bias, attention_output_bias=bias, ffn_bias=c.flag("mlp_bias"),
        activation=c.activation("relu2"),
    )  # fmt: skip
    if c.model_type in ("nemotron", "jais2"):
        fields["norm"] = "layernorm"
    if c.model_type == "apertus":
        # xIELU (arXiv 2411.13010) learns two values per layer; norms of each query and key head
        learned = 2 if fields["activation"] == "xielu" else 0
        fields |= {"qk_norm": "head", "layer_extra_parameters": learned}
    return fields


def bitnet(c: HfConfig) -> Fields:
    """BitNet b1.58: Llama with a norm before the attention output and before the down projection."""
    return gated(c, activation=c.activation("relu2"), layer_extra_parameters=c.hidden + c.integer(*FFN))


def nanochat(c: HfConfig) -> Fields:
    """nanochat: no gate, norms without learned values, of each query and key head too."""
    bias = c.flag("attention_bias")
    return gated(
        c, gated=False, activation=c.activation("relu2"), norm_scale=False, qk_norm="unit", qkv_bias=bias,
        attention_output_bias=bias,
    )  # fmt: skip


def smollm3(c: HfConfig) -> Fields:
    """SmolLM 3: Llama in which some layers have no rotary positions."""
    return llama(c) | qwen_window(c)


def cwm(c: HfConfig) -> Fields:
    """Code World Model: 3 of 4 layers slide."""
    pattern = every(c.layers, 4, ordinary="sliding_attention", special="full_attention")
    derived = ["full_attention" if not i % 4 else "sliding_attention" for i in range(len(pattern))]
    return llama(c) | windowed(c.names("layer_types") or derived, c.optional_integer("sliding_window"))


def telechat(c: HfConfig) -> Fields:
    """TeleChat 1 and 2: biases on the attention output and the feed-forward down projection alone."""
    return gated(c, attention_output_bias=True, layer_extra_parameters=c.hidden)


def nemotron_nas(c: HfConfig) -> Fields:
    """Llama-Nemotron found by architecture search: `block_configs` states each layer, blocks may be left out."""
    blocks = c.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) != c.layers:
        raise c.unsupported("without one block_configs entry per layer")
    mixers, kv_heads, widths = [], [], []
    used = [block["attention"]["n_heads_in_group"] for block in blocks if not block["attention"].get("no_op")]
    ordinary = c.heads // int(used[0]) if used else c.heads  # stands where attention is left out
    for block in blocks:
        attention, ffn = block["attention"], block["ffn"]
        if attention.get("replace_with_linear") or ffn.get("replace_with_linear"):
            raise c.unsupported("with a block replaced by a linear layer")
        skipped = bool(attention.get("no_op"))
        mixers.append("none" if skipped else "full")
        kv_heads.append(ordinary if skipped else c.heads // int(attention["n_heads_in_group"]))
        widths.append(0 if ffn.get("no_op") else nas_width(float(ffn["ffn_mult"]), c.hidden))
    bias = c.flag("attention_bias")
    return decoder(
        c, ffn_hidden_size=widths, kv_heads=kv_heads, mixers=mixers, qkv_bias=bias, attention_output_bias=bias,
        ffn_bias=c.flag("mlp_bias"), activation=c.activation(),
    )  # fmt: skip


def nas_width(multiple: float, hidden: int) -> int:
    """2/3 of `multiple` hidden widths, rounded up to a multiple of 256 (Llama-Nemotron modelling code)."""
    width = int(2 * multiple * hidden / 3)
    return -(-width // 256) * 256

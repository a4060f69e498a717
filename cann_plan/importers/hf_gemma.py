"""The Gemma family: tied embeddings, gated GELU, and from Gemma 2 on sandwich norms and sliding windows."""

from __future__ import annotations

from cann_plan.importers.hf_config import FFN, Fields, HfConfig, every, gated, windowed


def _bias(c: HfConfig) -> Fields:
    bias = c.flag("attention_bias")
    return {"qkv_bias": bias, "attention_output_bias": bias}


def _alternating(c: HfConfig, period: int) -> Fields:
    types = every(c.layers, period, ordinary="sliding_attention", special="full_attention")
    return windowed(c.names("layer_types") or types, c.optional_integer("sliding_window"))


def gemma(c: HfConfig) -> Fields:
    """Gemma 1."""
    return gated(c, activation=c.activation("gelu_pytorch_tanh"), **_bias(c))


def gemma2(c: HfConfig) -> Fields:
    """Gemma 2: sandwich norms (two per block), every other layer slides; VaultGemma keeps one norm per block."""
    norms = 1 if c.model_type == "vaultgemma" else 2
    return gemma(c) | {"block_norms": norms} | _alternating(c, 2)


def gemma3(c: HfConfig) -> Fields:
    """Gemma 3: sandwich norms, norms of each head, 5 of 6 layers slide."""
    period = c.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return gemma(c) | {"block_norms": 2, "qk_norm": "head"} | _alternating(c, period)


def gemma3n(c: HfConfig) -> Fields:
    """Gemma 3n (text): Gemma 3 with alternating updates, learned augmented residuals and per-layer embeddings.

    Those extra parts are counted (`layer_extra_parameters`, `extra_parameters`), not modelled as operators.
    """
    hidden, low_rank = c.hidden, c.integer("laurel_rank")
    streams, per_layer = c.integer("altup_num_inputs"), c.integer("hidden_size_per_layer_input")
    altup = streams * streams * streams + streams * streams + streams * hidden + hidden
    altup += hidden if c.flag("altup_correct_scale", default=True) else 0
    laurel = 2 * low_rank * hidden + hidden
    layer = altup + laurel + 2 * per_layer * hidden + hidden
    widths = c.numbers(*FFN)
    table = c.integer("vocab_size_per_layer_input") * per_layer * c.layers
    outside = table + hidden * per_layer * c.layers + per_layer + 2 * (streams - 1) * hidden * hidden
    fields = gemma3(c) if isinstance(widths, int) else gemma3(_single_width(c, widths[0])) | {"ffn_hidden_size": widths}
    return (
        fields
        | _alternating(c, 5)
        | {
            "layer_extra_parameters": layer,
            "extra_parameters": outside,
            "extra_note": "per-layer embeddings and alternating-update projections, counted but not modelled",
        }
    )


def gemma4(c: HfConfig) -> Fields:
    """Gemma 4 (text): wider heads in full-attention layers, experts beside the dense block, per-layer embeddings.

    The routed experts have three norms of their own, the router a scale per channel and per expert.
    """
    hidden, layers = c.hidden, c.layers
    types = c.names("layer_types") or every(layers, 6, ordinary="sliding_attention", special="full_attention")
    types[-1] = "full_attention"
    full = [name == "full_attention" for name in types]
    heads = c.integer("head_dim"), c.integer("global_head_dim", default=512)
    kv_heads = c.integer("num_key_value_heads")
    one_projection = c.flag("attention_k_eq_v")
    wide_kv = c.integer("num_global_key_value_heads", default=kv_heads) if one_projection else kv_heads
    first_reused = layers - c.integer("num_kv_shared_layers", default=0)
    width = c.integer(*FFN)
    doubled = c.flag("use_double_wide_mlp")
    extra = outside = 0
    per_layer = c.integer("hidden_size_per_layer_input", default=256)
    if per_layer:
        extra = 2 * per_layer * hidden + hidden
        outside = c.integer("vocab_size_per_layer_input") * per_layer * layers
        outside += hidden * per_layer * layers + per_layer
    fields = gemma(c) | {
        "block_norms": 2,
        "qk_norm": "head",
        "head_dim": [heads[wide] for wide in full],
        "kv_heads": [wide_kv if wide else kv_heads for wide in full],
        "shared_kv": [2 if i >= first_reused else int(one_projection and full[i]) for i in range(layers)],
        "ffn_hidden_size": [width * 2 if doubled and i >= first_reused else width for i in range(layers)],
    }
    if c.flag("enable_moe_block"):
        experts = c.integer("num_experts")
        extra += 3 * hidden + hidden + experts
        fields["moe"] = {
            "experts": experts, "top_k": c.integer("top_k_experts"), "hidden_size": c.integer("moe_intermediate_size"),
            "shared_hidden_size": width,
        }  # fmt: skip
    fields |= windowed(types, c.optional_integer("sliding_window")) | {"layer_extra_parameters": extra}
    note = {"extra_parameters": outside, "extra_note": "per-layer embeddings, counted but not modelled"}
    return fields | (note if outside else {})


def _single_width(c: HfConfig, width: int) -> HfConfig:
    return HfConfig({**c.data, FFN[0]: width}, c.defaults, c.model_type)

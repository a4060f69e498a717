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


def _single_width(c: HfConfig, width: int) -> HfConfig:
    return HfConfig({**c.data, FFN[0]: width}, c.defaults, c.model_type)

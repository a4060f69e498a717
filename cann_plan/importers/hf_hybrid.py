"""Hybrids of attention with linear-attention or state-space layers."""

from __future__ import annotations

from collections.abc import Sequence

from cann_plan.importers.hf_config import EXPERTS, FFN, Fields, HfConfig, decoder, every, gated, shortest
from cann_plan.importers.hf_moe import blocks, moe, qwen_dense

PATTERN = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
"""Letters of `hybrid_override_pattern` (Nemotron-H)."""


def _mixers(types: Sequence[str]) -> list[str]:
    names = {
        "full_attention": "full", "attention": "full", "linear_attention": "linear", "mamba": "state_space",
        "hybrid": "full",
    }  # fmt: skip
    return shortest([names[name] for name in types])


def _delta(c: HfConfig) -> Fields:
    """Gated delta net layers, three of four unless listed; attention with an output gate and norms of each head."""
    types = c.names("layer_types") or every(
        c.layers, c.integer("full_attention_interval", default=4), ordinary="linear_attention",
        special="full_attention",
    )  # fmt: skip
    bias = c.flag("attention_bias")
    return {
        "qk_norm": "head",
        "output_gate": True,
        "qkv_bias": bias,
        "attention_output_bias": bias,
        "mixers": _mixers(types),
        "linear_attention": {
            "key_heads": c.integer("linear_num_key_heads"),
            "value_heads": c.integer("linear_num_value_heads"),
            "key_head_dim": c.integer("linear_key_head_dim"),
            "value_head_dim": c.integer("linear_value_head_dim"),
            "conv_kernel": c.integer("linear_conv_kernel_dim"),
        },
        "mtp_layers": c.integer("mtp_num_hidden_layers", default=0),
    }


def qwen3_5(c: HfConfig) -> Fields:
    """Qwen 3.5 dense."""
    return gated(c, **_delta(c))


def qwen3_5_moe(c: HfConfig) -> Fields:
    """Qwen 3-Next and Qwen 3.5 MoE: a gated shared expert."""
    shared = c.integer("shared_expert_intermediate_size")
    mixture = moe(c, hidden_size=c.integer("moe_intermediate_size"), shared_hidden_size=shared, shared_gate=True)
    dense = qwen_dense(c)
    fields = decoder(c, activation=c.activation(), moe=mixture, **_delta(c))
    return fields | ({"ffn_hidden_size": c.integer(*FFN)} | blocks(dense) if any(dense) else {})


def minimax(c: HfConfig) -> Fields:
    """MiniMax-Text-01: lightning attention, with softmax attention in some layers; every layer a mixture."""
    listed = c.integers("attn_type_list")
    types = c.names("layer_types") or (
        ["full_attention" if kind else "linear_attention" for kind in listed]
        if listed is not None
        else ["linear_attention" if layer % 2 else "full_attention" for layer in range(c.layers)]
    )
    if c.integer("shared_intermediate_size", default=0):
        raise c.unsupported("with a shared expert")
    head_dim = c.integer("head_dim", default=c.hidden // c.heads)
    linear = {
        "key_heads": c.heads, "value_heads": c.heads, "key_head_dim": head_dim, "value_head_dim": head_dim,
        "conv_kernel": 0, "style": "lightning",
    }  # fmt: skip
    mixture = moe(c, hidden_size=c.integer(*FFN))
    return decoder(c, activation=c.activation(), mixers=_mixers(types), linear_attention=linear, moe=mixture)


def nemotron_h(c: HfConfig) -> Fields:
    """Nemotron-H and Nemotron 3: each layer is one block, a Mamba-2 mixer, attention, a mixture or a dense block."""
    types = c.names("layers_block_type")
    if types is None:
        pattern = c.raw("hybrid_override_pattern")
        if not isinstance(pattern, str) or set(pattern) - set(PATTERN):
            raise c.unsupported("without a pattern of its layers")
        types = [PATTERN[letter] for letter in pattern]
    mixers = [{"mamba": "state_space", "attention": "full"}.get(name, "none") for name in types]
    names = [{"mlp": "dense", "moe": "moe"}.get(name, "none") for name in types]
    bias = c.flag("attention_bias")
    fields: Fields = {
        "layers": len(types),
        "gated": False,
        "activation": "relu2" if c.raw("mlp_hidden_act") is None else _activation(c),
        "qkv_bias": bias,
        "attention_output_bias": bias,
        "ffn_bias": c.flag("mlp_bias"),
        "mixers": mixers,
        "feed_forwards": names,
        "mtp_layers": c.integer("num_nextn_predict_layers", default=0),
        "state_space": {
            "heads": c.integer("mamba_num_heads"),
            "head_dim": c.integer("mamba_head_dim"),
            "state_size": c.integer("ssm_state_size"),
            "groups": c.integer("n_groups", "mamba_n_groups"),
            "conv_kernel": c.integer("conv_kernel", "mamba_d_conv"),
            "conv_bias": c.flag("use_conv_bias", "mamba_conv_bias", default=True),
            "bias": c.flag("use_bias"),
        },
    }
    if "dense" in names:
        fields["ffn_hidden_size"] = c.integer(*FFN)
    if "moe" in names:
        fields["moe"] = moe(
            c, hidden_size=c.integer("moe_intermediate_size"), bias=c.flag("mlp_bias"),
            shared_hidden_size=c.integer("moe_shared_expert_intermediate_size", default=0),
            latent_size=c.integer("moe_latent_size", default=0),
        )  # fmt: skip
    base = HfConfig({**c.data, "num_hidden_layers": len(types)}, c.defaults, c.model_type)
    return decoder(base, **fields)


def _activation(c: HfConfig) -> str:
    return HfConfig({"hidden_act": c.raw("mlp_hidden_act")}, {}, c.model_type).activation()


def jamba(c: HfConfig) -> Fields:
    """Jamba: Mamba-1 mixers with attention every `attn_layer_period`, mixtures every `expert_layer_period`."""
    period, offset = c.integer("attn_layer_period"), c.integer("attn_layer_offset")
    inner = c.integer("mamba_expand") * c.hidden
    rank = c.raw("mamba_dt_rank")
    rank = -(-c.hidden // 16) if rank in (None, "auto") else c.integer("mamba_dt_rank")
    every_moe, moe_offset = c.integer("expert_layer_period"), c.integer("expert_layer_offset")
    mixture = c.integer(*EXPERTS) > 1
    dense = [not mixture or layer % every_moe != moe_offset for layer in range(c.layers)]
    fields = gated(
        c, mixers=_mixers(["attention" if layer % period == offset else "mamba" for layer in range(c.layers)]),
        state_space={
            "heads": 1, "head_dim": inner, "state_size": c.integer("mamba_d_state"), "dt_rank": rank,
            "conv_kernel": c.integer("mamba_d_conv"), "conv_bias": c.flag("mamba_conv_bias", default=True),
            "bias": c.flag("mamba_proj_bias"), "inner_norms": True,
        },
    )  # fmt: skip
    if mixture:
        fields |= {"moe": moe(c, hidden_size=c.integer(*FFN))} | blocks(dense)
    return fields


def _mamba2(c: HfConfig) -> Fields:
    heads = c.integer("mamba_n_heads")
    inner = c.integer("mamba_expand", default=2) * c.hidden
    head_dim = c.raw("mamba_d_head")
    return {
        "heads": heads,
        "head_dim": inner // heads if head_dim in (None, "auto") else c.integer("mamba_d_head"),
        "state_size": c.integer("mamba_d_state"),
        "groups": c.integer("mamba_n_groups"),
        "conv_kernel": c.integer("mamba_d_conv"),
        "conv_bias": c.flag("mamba_conv_bias", default=True),
        "bias": c.flag("mamba_proj_bias"),
    }


def bamba(c: HfConfig) -> Fields:
    """Bamba: Mamba-2 mixers, attention in the layers listed."""
    chosen = set(c.integers("attn_layer_indices") or ())
    types = ["attention" if layer in chosen else "mamba" for layer in range(c.layers)]
    bias = c.flag("attention_bias")
    return gated(
        c, mixers=_mixers(types), state_space=_mamba2(c), qkv_bias=bias, attention_output_bias=bias,
        ffn_bias=c.flag("mlp_bias"),
    )  # fmt: skip


def granitemoehybrid(c: HfConfig) -> Fields:
    """Granite 4: Mamba-2 and attention layers; a shared block in every layer, and experts beside it or none."""
    types = c.names("layer_types", "layers_block_type") or ["mamba"] * c.layers
    bias = c.flag("attention_bias")
    shared = c.integer("shared_intermediate_size")
    fields = decoder(
        c, mixers=_mixers(types), qkv_bias=bias, attention_output_bias=bias, activation=c.activation(),
        position="rotary" if c.raw("position_embedding_type") == "rope" else "none",
    )  # fmt: skip
    if "mamba" in types:
        fields["state_space"] = _mamba2(c)
    if c.integer(*EXPERTS):
        return fields | {"moe": moe(c, hidden_size=c.integer(*FFN), shared_hidden_size=shared)}
    return fields | {"ffn_hidden_size": shared}


def mamba(c: HfConfig) -> Fields:
    """Mamba 1 and Falcon-Mamba: mixers alone."""
    inner = c.optional_integer("intermediate_size") if c.has("intermediate_size") else None
    inner = inner or c.integer("expand") * c.hidden
    rank = c.raw("time_step_rank")
    state = {
        "heads": 1, "head_dim": inner, "state_size": c.integer("state_size"), "conv_kernel": c.integer("conv_kernel"),
        "conv_bias": c.flag("use_conv_bias", default=True), "bias": c.flag("use_bias"),
        "dt_rank": -(-c.hidden // 16) if rank in (None, "auto") else c.integer("time_step_rank"),
    }  # fmt: skip
    return _pure(c, state)


def mamba2(c: HfConfig) -> Fields:
    """Mamba 2: mixers alone."""
    state = {
        "heads": c.integer("num_heads"), "head_dim": c.integer("head_dim"), "state_size": c.integer("state_size"),
        "groups": c.integer("n_groups"), "conv_kernel": c.integer("conv_kernel"),
        "conv_bias": c.flag("use_conv_bias", default=True), "bias": c.flag("use_bias"),
    }  # fmt: skip
    return _pure(c, state)


def _pure(c: HfConfig, state: Fields) -> Fields:
    return {
        "layers": c.layers, "hidden_size": c.hidden, "heads": 1, "vocabulary_size": c.integer("vocab_size"),
        "tied_embeddings": c.tied, "mixers": ["state_space"], "feed_forwards": ["none"], "state_space": state,
        "position": "none",
    }  # fmt: skip

"""Decoders with multi-head latent attention (the DeepSeek-V2 and V3 families)."""

from __future__ import annotations

from cann_plan.importers.hf_config import Fields, HfConfig, gated, shortest
from cann_plan.importers.hf_moe import blocks, leading_dense


def _mla(c: HfConfig) -> Fields:
    return {
        "q_lora_rank": c.optional_integer("q_lora_rank"),
        "kv_lora_rank": c.integer("kv_lora_rank"),
        "qk_nope_head_dim": c.integer("qk_nope_head_dim"),
        "qk_rope_head_dim": c.integer("qk_rope_head_dim"),
        "v_head_dim": c.integer("v_head_dim"),
    }


def dense(c: HfConfig) -> Fields:
    """Latent attention with dense blocks (Youtu-LLM)."""
    fields = gated(c, mla=_mla(c), qkv_bias=c.flag("attention_bias"), attention_output_bias=c.flag("attention_bias"))
    fields.pop("head_dim", None)
    fields.pop("kv_heads", None)
    return fields


def minicpm3(c: HfConfig) -> Fields:
    """MiniCPM 3: latent attention with dense blocks, tied embeddings."""
    fields = dense(HfConfig({"v_head_dim": c.hidden // c.heads, **c.data}, c.defaults, c.model_type))
    return fields | {"tied_embeddings": c.flag("tie_word_embeddings", default=True)}


def kimi_linear(c: HfConfig) -> Fields:
    """Kimi Linear: Kimi delta attention with latent attention in between, mixtures behind the first dense layers."""
    section = c.section("linear_attn_config")
    full, linear = section.integers("full_attn_layers"), section.integers("kda_layers")
    if full is not None and linear is not None:
        listed_full = set(full)  # counted from one
        mixers = ["full" if layer + 1 in listed_full else "linear" for layer in range(c.layers)]
    else:
        types = c.names("layer_types")
        if types is None:
            raise c.unsupported("without the list of its full-attention layers")
        mixers = ["full" if name == "full_attention" else "linear" for name in types]
    head_dim, heads = section.integer("head_dim", default=128), section.integer("num_heads", default=32)
    mixture = leading_dense(c) | {"shared_experts": c.integer("num_shared_experts", "n_shared_experts", default=1)}
    return dense(c) | listed(c) | {
        "mixers": shortest(mixers),
        "linear_attention": {
            "key_heads": heads, "value_heads": heads, "key_head_dim": head_dim, "value_head_dim": head_dim,
            "conv_kernel": section.integer("short_conv_kernel_size", default=4), "style": "kimi_delta",
        },
        "moe": mixture,
    }  # fmt: skip


def deepseek(c: HfConfig) -> Fields:
    """DeepSeek-V2, V2-Lite, V3, R1, Kimi K2, GLM-4.7-Flash."""
    frequency = c.integer("moe_layer_freq", default=1)
    return dense(c) | {
        "moe": leading_dense(c, layer_frequency=frequency),
        "mtp_layers": c.integer("num_nextn_predict_layers", default=0),
    }


PANGU_KEYS = {
    "q_lora_rank": "attention_q_lora_dim", "kv_lora_rank": "attention_kv_lora_dim",
    "qk_nope_head_dim": "attention_qk_dim", "qk_rope_head_dim": "attention_qk_rope_dim",
    "v_head_dim": "attention_v_dim", "n_routed_experts": "num_routed_experts",
    "n_shared_experts": "num_shared_experts", "first_k_dense_replace": "num_dense_layers",
    "num_nextn_predict_layers": "num_mtp_layers",
}  # fmt: skip
"""DeepSeek's names and those openPangu-Ultra-MoE gives the same things."""


def pangu_ultra_moe(c: HfConfig) -> Fields:
    """openPangu-Ultra-MoE: DeepSeek-V3's layers under other names, with sandwich norms."""
    renamed = {theirs: c.data[ours] for theirs, ours in PANGU_KEYS.items() if ours in c.data}
    norms = 2 if c.flag("sandwich_norm", default=True) else 1
    return deepseek(HfConfig({**c.data, **renamed}, c.defaults, c.model_type)) | {"block_norms": norms}


def sparse(c: HfConfig) -> Fields:
    """DeepSeek-V3.2 and GLM-5: latent attention that an indexer makes sparse."""
    fields = deepseek(c)
    fields["mla"] |= {
        "index_heads": c.integer("index_n_heads"),
        "index_head_dim": c.integer("index_head_dim"),
        "index_top_k": c.integer("index_topk"),
    }
    return fields | listed(c)


def lite(c: HfConfig) -> Fields:
    """GLM-4.7-Flash: DeepSeek-V3's layers, one dense layer first."""
    return deepseek(c) | listed(c)


def listed(c: HfConfig) -> Fields:
    """`feed_forwards` where the file names the block of each layer, else the family's first dense layers."""
    names = c.names("mlp_layer_types")
    if names is not None:
        return blocks([name == "dense" for name in names])
    leading = {"glm_moe_dsa": 3, "glm4_moe_lite": 1}.get(c.model_type)
    if leading is None or c.has("first_k_dense_replace"):
        return {}
    return blocks([layer < leading for layer in range(c.layers)])

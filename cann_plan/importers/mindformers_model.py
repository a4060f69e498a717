"""`model.model_config` and `moe_config` of MindFormers to a model description."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.mindformers_settings import Settings

# What the class of a configuration says and its keys do not. Sources: mindformers/models/*/*_config.py.
_LAYER_NORM: Final = {"norm": "layernorm", "gated": False, "activation": "gelu", "bias": True}
FAMILIES: Final[dict[str, dict[str, Any]]] = {
    "llamaconfig": {}, "internlmconfig": {"qkv_bias": True, "attention_output_bias": True}, "internlm2config": {},
    "baichuanconfig": {}, "baichuan2config": {}, "mixtralconfig": {}, "mistralconfig": {}, "yiconfig": {},
    "qwenconfig": {"qkv_bias": True}, "qwen2config": {"qkv_bias": True}, "deepseekconfig": {}, "deepseekv2config": {},
    "deepseekv3config": {}, "telechatconfig": {}, "cogvlm2llmconfig": {}, "teleformersconfig": {},
    "chatglm2config": {"qkv_bias": True}, "glmconfig": {}, "qwen3config": {"qk_norm": "head"},
    "gpt2config": {**_LAYER_NORM, "position": "learned", "tied_embeddings": True},
    "bloomconfig": {**_LAYER_NORM, "position": "alibi", "tied_embeddings": True, "embedding_norm": True},
    "panguconfig": {**_LAYER_NORM, "position": "learned", "tied_embeddings": True},
    "pangualphaconfig": {**_LAYER_NORM, "position": "learned", "tied_embeddings": True},
}  # fmt: skip


def ffn_width(hidden: int, multiple: int, multiplier: float | None) -> int:
    """MindFormers' feed-forward width where none is stated: 4 x hidden, scaled, two thirds of it, rounded up.

    Source: mindformers LlamaFeedForward (r1.3.0).
    """
    width = 4 * hidden
    if multiplier is not None:
        width = int((multiplier + 0.01) * width)
    width = int(2 * width / 3)
    return -(-width // multiple) * multiple


def model_section(config: Settings, moe: Settings, name: str | None, notes: Notes) -> dict[str, Any] | None:
    """The description; None where sizes are missing."""
    layers = config.whole("num_layers", "num_hidden_layers", "n_layer")
    hidden = config.whole("hidden_size", "n_embed")
    heads = config.whole("num_heads", "num_attention_heads", "n_head")
    words = config.whole("vocab_size", "padded_vocab_size")
    missing = [key for key, value in (("num_layers", layers), ("hidden_size", hidden), ("num_heads", heads),
                                      ("vocab_size", words)) if value is None]  # fmt: skip
    if layers is None or hidden is None or heads is None or words is None:
        notes.refuse(f"model.model_config: sizes are missing: {', '.join(missing)}")
        return None
    kind = config.text("type")
    family = FAMILIES.get(kind)
    if family is None:
        family = notes.assume("model", "LLaMA-like", f"configuration class {kind or 'not stated'} is not known here")
        family = {}
    spec: dict[str, Any] = {"name": name or "imported", "layers": layers, "hidden_size": hidden, "heads": heads,
                            "vocabulary_size": words, **family}  # fmt: skip
    if spec.get("position") == "learned":
        spec["position_table"] = config.whole("max_position_embeddings", "seq_length") or 2048
    groups = config.whole("n_kv_heads", "num_key_value_heads", "multi_query_group_num")
    if groups is not None and groups != heads:
        spec["kv_heads"] = groups
    width = config.whole("head_dim", "kv_channels")
    if width is not None and width * heads != hidden:
        spec["head_dim"] = width
    if config.flag("qkv_has_bias") or config.flag("add_qkv_bias"):
        spec["qkv_bias"] = True
    if config.flag("tie_word_embeddings"):
        spec["tied_embeddings"] = True
    if kind.startswith("baichuan") and hidden == 5120:
        spec["position"] = "alibi"  # arXiv 2309.10305: the 13B models
    _feed_forward(config, spec, notes)
    _latent(config, spec)
    _experts(moe, spec, notes)
    depth = config.whole("mtp_depth", "num_nextn_predict_layers", minimum=0)
    if depth:
        spec["mtp_layers"] = depth
    return spec


def _feed_forward(config: Settings, spec: dict[str, Any], notes: Notes) -> None:
    width = config.whole("intermediate_size", "ffn_hidden_size")
    multiple = config.whole("multiple_of") or 256
    multiplier = config.number("ffn_dim_multiplier")
    ratio = config.whole("expand_ratio")
    if width is None and spec.get("gated") is False:
        width = (ratio or 4) * int(spec["hidden_size"])
    elif width is None:
        width = ffn_width(int(spec["hidden_size"]), multiple, multiplier)
        notes.assume("model.ffn_hidden_size", width, "MindFormers rule from hidden_size, multiple_of, multiplier")
    spec["ffn_hidden_size"] = width


def _latent(config: Settings, spec: dict[str, Any]) -> None:
    rank = config.whole("kv_lora_rank")
    if rank is None:
        return
    spec["mla"] = {
        "kv_lora_rank": rank,
        "qk_nope_head_dim": config.whole("qk_nope_head_dim") or 128,
        "qk_rope_head_dim": config.whole("qk_rope_head_dim") or 64,
        "v_head_dim": config.whole("v_head_dim") or 128,
    }
    query = config.whole("q_lora_rank")
    if query is not None:
        spec["mla"]["q_lora_rank"] = query
    spec.pop("kv_heads", None)
    spec.pop("head_dim", None)


def _experts(moe: Settings, spec: dict[str, Any], notes: Notes) -> None:
    count = moe.whole("expert_num", "num_experts") or 1
    chosen = moe.whole("num_experts_chosen", "num_experts_per_tok")
    width = moe.whole("moe_intermediate_size")
    shared = moe.whole("shared_expert_num", minimum=0)
    dense = moe.whole("first_k_dense_replace", minimum=0)
    if count == 1:
        return
    section: dict[str, Any] = {
        "experts": count,
        "top_k": chosen or notes.assume("model.moe.top_k", 1, "MindFormers default of num_experts_chosen"),
        "hidden_size": width or spec["ffn_hidden_size"],
    }
    if shared:
        section["shared_experts"] = shared
    if dense:
        section["leading_dense_layers"] = dense
    if moe.flag("balance_via_topk_bias"):
        section["router_bias"] = True
    spec["moe"] = section

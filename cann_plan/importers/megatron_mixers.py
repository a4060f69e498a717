"""Latent, linear and state-space mixers of Megatron-LM and MindSpeed launch arguments."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments

# Defaults of Megatron-LM's argument parser.
KV_LORA_RANK: Final = 32
QK_HEAD_DIM: Final = 128
QK_POSITION_DIM: Final = 64
VALUE_HEAD_DIM: Final = 128
MAMBA_STATE: Final = 128
MAMBA_HEAD_DIM: Final = 64
MAMBA_GROUPS: Final = 8
MAMBA_EXPAND: Final = 2
FULL_ATTENTION_INTERVAL: Final = 4
"""Every n-th layer of Qwen3-Next has full attention (its config.json: full_attention_interval)."""

_LETTERS: Final = {
    "M": ("state_space", "none"), "*": ("full", "none"), "-": ("none", "dense"), "E": ("none", "moe"),
    "G": ("linear", "none"),
}  # fmt: skip


def latent_attention(arguments: Arguments, spec: dict[str, Any]) -> None:
    """Add `mla` where --multi-latent-attention is given."""
    if not arguments.has("multi-latent-attention"):
        return
    indexer: dict[str, int | None] = {}
    if arguments.has("enable-dsa-indexer") or arguments.text("experimental-attention-variant") == "dsa":
        indexer = {
            "index_heads": arguments.whole("index-n-heads", "dsa-indexer-n-heads") or 64,  # DeepSeek-V3.2 config.json
            "index_head_dim": arguments.whole("index-head-dim", "dsa-indexer-head-dim") or 128,
            "index_top_k": arguments.whole("index-topk", "dsa-indexer-topk") or 2048,
        }
    spec["mla"] = {
        key: value for key, value in {
            "q_lora_rank": arguments.whole("q-lora-rank"),
            "kv_lora_rank": arguments.whole("kv-lora-rank") or KV_LORA_RANK,
            "qk_nope_head_dim": arguments.whole("qk-head-dim") or QK_HEAD_DIM,
            "qk_rope_head_dim": arguments.whole("qk-pos-emb-head-dim") or QK_POSITION_DIM,
            "v_head_dim": arguments.whole("v-head-dim") or VALUE_HEAD_DIM,
            **indexer,
        }.items() if value is not None
    }  # fmt: skip
    spec.pop("kv_heads", None)
    spec.pop("head_dim", None)


def linear_attention(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    """Gated delta rule of Qwen3-Next with full attention in between."""
    heads = arguments.whole("linear-num-value-heads")
    if heads is None:
        return
    spec["linear_attention"] = {
        "key_heads": arguments.whole("linear-num-key-heads") or heads,
        "value_heads": heads,
        "key_head_dim": arguments.whole("linear-key-head-dim") or 128,
        "value_head_dim": arguments.whole("linear-value-head-dim") or 128,
        "conv_kernel": arguments.whole("linear-conv-kernel-dim", "mamba-d-conv", minimum=0) or 4,
    }
    interval = arguments.whole("full-attention-interval", "linear-attention-freq")
    if interval is None:
        source = "full_attention_interval of Qwen3-Next's config.json"
        interval = notes.assume("model.mixers", FULL_ATTENTION_INTERVAL, source)
    pattern = ["linear"] * (interval - 1) + ["full"]
    spec["mixers"] = [pattern[index % interval] for index in range(spec["layers"])]
    if "qwen3_next" in (arguments.text("spec") or "") or arguments.has("attention-output-gate"):
        spec["output_gate"] = True


def _state_space(arguments: Arguments, hidden: int) -> dict[str, Any]:
    head_dim = arguments.whole("mamba-head-dim", "mamba-headdim") or MAMBA_HEAD_DIM
    expand = arguments.whole("mamba-expand") or MAMBA_EXPAND
    return {
        "heads": arguments.whole("mamba-num-heads") or expand * hidden // head_dim,
        "head_dim": head_dim,
        "state_size": arguments.whole("mamba-state-dim", "mamba-d-state") or MAMBA_STATE,
        "groups": arguments.whole("mamba-num-groups", "mamba-ngroups") or MAMBA_GROUPS,
        "conv_kernel": arguments.whole("mamba-d-conv") or 4,
    }


def state_space_stack(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    """A stack of Mamba layers alone (MindSpeed's pretrain_mamba), or one whose shares of other layers are ratios."""
    ratios = [arguments.number(name) or 0.0 for name in ("hybrid-attention-ratio", "hybrid-mlp-ratio")]
    named = any(name.startswith("mamba-") and name != "mamba-chunk-size" for name in arguments.data)
    if "linear_attention" in spec or (not named and not arguments.has("is-hybrid-model")):
        return
    if any(ratios):
        notes.refuse("--hybrid-attention-ratio and --hybrid-mlp-ratio: state the layers as --hybrid-layer-pattern")
        return
    spec["state_space"] = _state_space(arguments, spec["hidden_size"])
    spec["mixers"], spec["feed_forwards"] = ["state_space"], ["none"]
    spec.pop("ffn_hidden_size", None)


def hybrid(arguments: Arguments, spec: dict[str, Any], pattern: str, notes: Notes) -> None:
    """One letter per layer: M state space, * attention, - dense, E experts, G gated delta; | parts pipeline stages."""
    main, _, prediction = pattern.partition("/")
    letters = [sign for sign in main if sign not in "| "]
    unknown = sorted(set(letters) - set(_LETTERS))
    if unknown:
        notes.refuse(f"--hybrid-layer-pattern has letters nobody here knows: {' '.join(unknown)}")
        return
    spec["mixers"] = [_LETTERS[sign][0] for sign in letters]
    spec["feed_forwards"] = [_LETTERS[sign][1] for sign in letters]
    if "M" in letters:
        spec["state_space"] = _state_space(arguments, spec["hidden_size"])
    if prediction:
        notes.unmodelled("hybrid-layer-pattern", f"/{prediction}", "pattern of the multi-token-prediction modules")


def hybrid_split(pattern: str) -> list[int] | None:
    """Layers per pipeline part of a pattern with `|`, None for one without."""
    parts = [part.replace(" ", "") for part in pattern.partition("/")[0].split("|")]
    return [len(part) for part in parts] if len(parts) > 1 else None

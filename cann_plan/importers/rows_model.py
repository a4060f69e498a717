"""The `model:` section of a measured run to a model description."""

from __future__ import annotations

import re
from typing import Any, Final

from cann_plan.importers.rows import Fields, Remark, RowSkippedError
from cann_plan.spec import presets

IRRELEVANT: Final = {"params": "a published parameter count; counts follow from the sizes"}

# Facts of model families that rows do not state. `words` are looked for in the model's name and the row's id; the
# first family found applies. Sources: the families' papers and published configurations.
FAMILIES: Final[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = (
    (("nemotron-3",), {"norm": "rmsnorm", "activation": "relu2", "position": "none", "bias": False}),
    (("nemotron",), {"norm": "layernorm", "activation": "relu2", "position": "rotary", "bias": False}),  # 2402.16819
    (("bloom", "bigscience", "bs-gpt"), {"norm": "layernorm", "activation": "gelu_tanh", "position": "alibi",
                                         "bias": True, "embedding_norm": True}),  # arXiv 2211.05100
    (("mpt",), {"norm": "layernorm", "norm_bias": False, "activation": "gelu", "position": "learned", "bias": False}),
    (("opt-",), {"norm": "layernorm", "activation": "relu", "position": "learned", "bias": True}),
    (("neox",), {"norm": "layernorm", "activation": "gelu", "position": "rotary", "bias": True,
                 "parallel_block": True}),  # arXiv 2204.06745
    (("palm",), {"norm": "layernorm", "norm_bias": False, "position": "rotary", "parallel_block": True}),
    (("gemma2", "gemma-2"), {"norm": "rmsnorm", "activation": "gelu_tanh", "position": "rotary", "bias": False,
                             "gated": True, "block_norms": 2}),  # arXiv 2408.00118
    (("gemma",), {"norm": "rmsnorm", "activation": "gelu_tanh", "position": "rotary", "bias": False,
                  "gated": True}),  # arXiv 2403.08295: GeGLU
    (("baichuan-13b", "baichuan2-13b"), {"position": "alibi"}),  # arXiv 2309.10305
    (("glm130b",), {"norm": "layernorm", "activation": "gelu", "position": "rotary", "bias": True}),  # 2210.02414
)  # fmt: skip
NOT_GATED: Final = {"norm": "layernorm", "activation": "gelu", "position": "learned", "bias": True}

# Vocabularies of published configurations, for rows that leave them out.
VOCABULARIES: Final[tuple[tuple[str, int, str], ...]] = (
    ("mixtral", 32000, "mistralai/Mixtral-8x22B-v0.1 config.json"),
    ("nemotron-3", 131072, "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B config.json"),
    ("neox", 50432, "EleutherAI/gpt-neox-20b config.json"),
    ("kimi-k2", 163840, "moonshotai/Kimi-K2 config.json"),
    ("glm130b", 150528, "GLM-130B, arXiv 2210.02414"),
    ("gpt", 51200, "GPT-2 vocabulary padded for tensor parallelism, Megatron-LM"),
)
_PATTERN = re.compile(r"pattern ([ME*-]+)")
_STATE_SPACE = re.compile(r"heads (\d+), head_dim (\d+), state (\d+), groups (\d+)")


def model_section(model: Fields, row_id: str) -> tuple[dict[str, Any], int, list[Remark]]:
    """(description, sequence length, remarks).

    Raises:
        RowSkippedError: sizes that no rule can supply are missing.
    """
    remarks: list[Remark] = []
    name = model.text("name")
    preset = presets.find("models", name) if name and model.whole("layers") is None else None
    if preset is not None:
        return _named(preset), _sequence(model), [Remark("model", preset.name, "sizes not stated: preset of that name")]
    words = f"{name or ''} {row_id}".lower()
    spec: dict[str, Any] = {"name": name or row_id}
    for key, target in (("layers", "layers"), ("hidden", "hidden_size"), ("heads", "heads")):
        value = model.whole(key)
        if value is None:
            raise RowSkippedError(f"model.{key} is not stated")
        spec[target] = value
    sequence = _sequence(model)
    spec["vocabulary_size"] = _vocabulary(model, name, words, remarks)
    for key, target in (("kv_heads", "kv_heads"), ("head_dim", "head_dim"), ("ffn_hidden", "ffn_hidden_size")):
        value = model.whole(key)
        if value is not None:
            spec[target] = value
    gated = model.flag("gated_mlp")
    if gated is None:
        gated = not any(word in words for word in ("gpt", "bloom", "mpt", "opt-"))
        remarks.append(Remark("model.gated", gated, "usual feed-forward block of the family"))
    spec["gated"] = gated
    if "ffn_hidden_size" not in spec and model.whole("moe_ffn_hidden") is None:
        spec["ffn_hidden_size"] = 4 * spec["hidden_size"]
        remarks.append(Remark("model.ffn_hidden_size", spec["ffn_hidden_size"], "4 x hidden size (Megatron default)"))
    tied = model.flag("tied_embeddings")
    if tied is None:
        tied = not gated
        remarks.append(Remark("model.tied_embeddings", tied, "GPT-2 ties them, LLaMA does not"))
    spec["tied_embeddings"] = tied
    _family(spec, words, gated, sequence, model.text("attention_note") or "", remarks)
    attention = (model.text("attention") or "").lower()
    _experts(spec, model, remarks)
    _attention(spec, model, attention, words, remarks)
    if "sandwich" in (model.text("note") or ""):
        spec["block_norms"] = 2
    return spec, sequence, remarks


def _sequence(model: Fields) -> int:
    sequence = model.whole("seq_len")
    if sequence is None:
        raise RowSkippedError("model.seq_len is not stated")
    return sequence


def _named(preset: presets.Preset) -> dict[str, Any]:
    """A model that is only named: the preset, with the keys that tell its kind."""
    plain = preset.node().plain()
    kept = ("layers", "moe", "mla", "state_space")
    return {"extends": preset.name} | {key: plain[key] for key in kept if plain.get(key) is not None}


def _vocabulary(model: Fields, name: str | None, words: str, remarks: list[Remark]) -> int:
    stated = model.whole("vocab")
    if stated is not None:
        return stated
    preset = presets.find("models", name) if name else None
    if preset is not None:
        value = int(preset.node().plain()["vocabulary_size"])
        remarks.append(Remark("model.vocabulary_size", value, f"preset {preset.name}"))
        return value
    for word, value, source in VOCABULARIES:
        if word in words:
            remarks.append(Remark("model.vocabulary_size", value, source))
            return value
    raise RowSkippedError("model.vocab is not stated")


def _family(spec: dict[str, Any], words: str, gated: bool, sequence: int, note: str, remarks: list[Remark]) -> None:
    """Norms, positions, activation and biases, which rows never state."""
    facts: dict[str, Any] = {} if gated else dict(NOT_GATED)
    found = next(((names, own) for names, own in FAMILIES if any(word in words for word in names)), None)
    source = "LLaMA-like" if gated else "GPT-like: LayerNorm, GELU, biases"
    if found is not None:
        facts |= found[1]
        source = f"{found[0][0]} family"
    if "ALiBi" in note and "final model" not in note:
        facts["position"] = "alibi"
    if "parallel block" in note:
        facts["parallel_block"] = True
    if facts.get("position") == "learned":
        facts["position_table"] = sequence
    spec |= facts
    shown = {key: facts[key] for key in ("norm", "activation", "position") if key in facts}
    if shown:
        remarks.append(Remark("model", shown, f"{source}; the row does not state them"))


def _experts(spec: dict[str, Any], model: Fields, remarks: list[Remark]) -> None:
    experts, top_k = model.whole("experts"), model.whole("top_k")
    width = model.whole("moe_ffn_hidden")
    shared = model.whole("shared_experts", 0)
    shared_width = model.whole("shared_expert_ffn_hidden")
    dense = model.whole("dense_layers", -1)
    if not experts:
        return
    if top_k is None:
        raise RowSkippedError("model.top_k is not stated")
    moe: dict[str, Any] = {
        "experts": experts,
        "top_k": top_k,
        "hidden_size": width or spec["ffn_hidden_size"],
        "leading_dense_layers": max(dense or 0, 0),
    }
    if width is None:
        remarks.append(Remark("model.moe.hidden_size", spec["ffn_hidden_size"], "as ffn_hidden: not stated"))
    if shared:
        moe["shared_experts"] = shared
    if shared_width:
        moe["shared_hidden_size"] = shared_width
    spec["moe"] = moe


def _attention(spec: dict[str, Any], model: Fields, kind: str, words: str, remarks: list[Remark]) -> None:
    note = model.text("attention_note") or ""
    window = model.whole("sliding_window")
    ranks = {key: model.whole(key) for key in
             ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}  # fmt: skip
    if kind == "hybrid-mamba":
        _hybrid(spec, note)
    elif kind == "mla" or ranks["kv_lora_rank"]:
        if ranks["kv_lora_rank"] is None:
            raise RowSkippedError("ranks of the latent attention are not stated")
        spec["mla"] = {key: value for key, value in ranks.items() if value is not None}
        spec.pop("head_dim", None)
        spec.pop("kv_heads", None)
    elif kind == "mha":
        spec.setdefault("kv_heads", spec["heads"])
    if window is not None:
        spec["window"] = window
    elif "alternate sliding window" in note and "gpt-oss" in words:
        spec |= {"window": 128, "mixers": ["sliding", "full"], "sinks": True}
        remarks.append(Remark("model.window", 128, "openai/gpt-oss-120b config.json"))


def _hybrid(spec: dict[str, Any], note: str) -> None:
    """Layers of one letter each: M state space, E experts, * attention, - dense feed-forward."""
    pattern, state = _PATTERN.search(note), _STATE_SPACE.search(note)
    if pattern is None or state is None or len(pattern[1]) != spec["layers"]:
        raise RowSkippedError("the pattern of hybrid layers is not stated")
    heads, head_dim, size, groups = (int(value) for value in state.groups())
    letters = pattern[1]
    spec["mixers"] = [{"M": "state_space", "*": "full"}.get(letter, "none") for letter in letters]
    spec["feed_forwards"] = [{"E": "moe", "-": "dense"}.get(letter, "none") for letter in letters]
    spec["state_space"] = {"heads": heads, "head_dim": head_dim, "state_size": size, "groups": groups}
    spec["norm"] = "rmsnorm"

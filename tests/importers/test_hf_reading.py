"""How a config.json is found, read and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.importers.hf import HfConfigError, UnsupportedModelError, import_hf, is_hf_config
from cann_plan.spec.model import ModelSpec

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000,
}  # fmt: skip


def test_directory_file_and_mapping_give_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    from_folder, from_file = import_hf(folder), import_hf(folder / "config.json")
    assert from_folder == from_file
    assert from_folder.name == "my-model"
    assert from_folder.model_copy(update={"name": "llama"}) == import_hf(LLAMA)


def test_language_model_of_a_multimodal_configuration_is_taken() -> None:
    wrapped = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"model_type": "clip"}}
    assert import_hf(wrapped) == import_hf(LLAMA)


def test_outer_tied_flag_holds_where_the_inner_one_is_absent() -> None:
    assert import_hf({"text_config": LLAMA, "tie_word_embeddings": True}).tied_embeddings
    inner = {**LLAMA, "tie_word_embeddings": False}
    assert not import_hf({"text_config": inner, "tie_word_embeddings": True}).tied_embeddings


def test_absent_keys_take_the_defaults_of_the_class() -> None:
    spec = import_hf({"model_type": "gemma2"})
    assert (spec.layers, spec.hidden_size, spec.head_dim, spec.window) == (26, 2304, 256, 4096)
    assert spec.tied_embeddings


def test_null_key_is_derived_not_defaulted() -> None:
    # mistral's class has eight key/value heads by default; null means as many as query heads
    config = {**LLAMA, "model_type": "mistral"}
    assert import_hf(config).kv_heads == 8
    assert import_hf({**config, "num_key_value_heads": None}).kv_heads is None


def test_model_type_may_be_found_from_the_architecture() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    assert import_hf({**config, "architectures": ["LlamaForCausalLM"]}) == import_hf(LLAMA)


@pytest.mark.parametrize("model_type", ["deepseek_v4", "t5", "whisper", "no_such_model"])
def test_unknown_architecture_is_named(model_type: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"unsupported: model_type {model_type}"):
        import_hf({**LLAMA, "model_type": model_type})


def test_unknown_variant_of_a_known_family_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="cross-layer attention"):
        import_hf({"model_type": "hunyuan_v1_moe", "use_cla": True})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_attention_heads": 31}, "divisible"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"hidden_act": "tanh"}, "tanh"),
        ({"num_key_value_heads": 64}, "key/value heads"),
    ],
)
def test_bad_value_is_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HfConfigError, match=message):
        import_hf({**LLAMA, **change})


def test_file_that_is_not_json_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(HfConfigError, match="not JSON"):
        import_hf(path)


def test_document_kinds_are_told_apart() -> None:
    assert is_hf_config(LLAMA)
    assert is_hf_config({"text_config": LLAMA})
    assert not is_hf_config({"layers": 32, "hidden_size": 4096})
    assert not is_hf_config(["llama"])


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), st.text(max_size=5),
    st.lists(st.integers(0, 9), max_size=3), st.just({}),
)  # fmt: skip
KEYS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "vocab_size", "layer_types", "sliding_window", "num_experts", "num_experts_per_tok", "first_k_dense_replace",
    "mlp_only_layers", "decoder_sparse_step", "tie_word_embeddings", "hybrid_override_pattern", "attn_config",
    "moe_layers", "no_rope_layers", "attention_types", "block_configs", "architectures", "text_config",
)  # fmt: skip
TYPES = ("llama", "qwen3_moe", "gemma3", "llama4", "deepseek_v3", "nemotron_h", "gpt_neo", "jamba", "bert", "dbrx",
         "nemotron-nas", "mimo_v2_flash", "kimi_linear", "gemma4", "exaone4")  # fmt: skip


@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_configuration_gives_a_model_or_an_import_error(model_type: str, config: dict[str, Any]) -> None:
    try:
        spec = import_hf({**config, "model_type": model_type})
    except HfConfigError:
        return
    assert isinstance(spec, ModelSpec)

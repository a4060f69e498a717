"""Imported configurations have exactly the parameters of the published classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cann_plan.importers.hf import hf_fields, import_hf, supported_model_types
from cann_plan.spec.model import ModelSpec
from cann_plan.workload.build import build_architecture
from cann_plan.workload.parameters import ParameterCounts, parameter_counts

DATA = Path(__file__).parent.parent / "data"
PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "hf_configs.yaml").read_text(encoding="utf-8"))
SMALL: list[dict[str, Any]] = yaml.safe_load((DATA / "hf_small_configs.yaml").read_text(encoding="utf-8"))

BLOOM = {"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "num_attention_heads": 112, "vocab_size": 250880}
"""Dimensions and the exact count of the next test: model card of bigscience/bloom."""


def counts(config: dict[str, Any]) -> ParameterCounts:
    return parameter_counts(build_architecture(import_hf(config)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_model_has_its_exact_total_and_active_parameters(name: str) -> None:
    row = PUBLISHED[name]
    result = counts(row["config"])
    assert result.total == row["total"]
    assert result.active == row.get("active", row["total"])


@pytest.mark.parametrize("row", SMALL, ids=[row["config"]["model_type"] for row in SMALL])
def test_every_model_type_counts_as_its_class_does(row: dict[str, Any]) -> None:
    assert counts(row["config"]).total == row["total"]


def test_small_configurations_cover_most_supported_types() -> None:
    # the rest have no class in the public release: baichuan, chatglm, internlm, qwen 1, telechat, arctic, grok-1
    covered = {row["config"]["model_type"] for row in SMALL}
    assert covered <= set(supported_model_types())
    assert len(covered) > 0.6 * len(supported_model_types())


def test_bloom_has_the_count_of_its_model_card() -> None:
    assert counts(BLOOM).total == 176_247_271_424


def test_chatglm_generations_differ() -> None:
    # closed forms: the first is a tied 12 h^2 + 13 h decoder, the second has two key/value groups and biases on q, k, v
    h, layers = 4096, 28
    first = {"model_type": "chatglm", "hidden_size": h, "inner_hidden_size": 4 * h, "num_layers": layers,
             "num_attention_heads": 32, "vocab_size": 130528}  # fmt: skip
    assert counts(first).total == layers * (12 * h * h + 13 * h) + 130528 * h + 2 * h
    second = {"model_type": "chatglm", "hidden_size": h, "ffn_hidden_size": 13696, "num_layers": layers,
              "num_attention_heads": 32, "padded_vocab_size": 65024, "kv_channels": 128, "add_qkv_bias": True,
              "multi_query_attention": True, "multi_query_group_num": 2, "add_bias_linear": False}  # fmt: skip
    layer = h * (h + 512) + h + 512 + h * h + 3 * h * 13696 + 2 * h
    assert counts(second).total == layers * layer + 2 * 65024 * h + h


def test_search_found_model_skips_blocks() -> None:
    attention = {"n_heads_in_group": 8, "no_op": False}
    skipped = {"n_heads_in_group": None, "no_op": True}
    blocks = [
        {"attention": attention, "ffn": {"ffn_mult": 5.25, "no_op": False}},
        {"attention": skipped, "ffn": {"ffn_mult": 1.3125, "no_op": False}},
        {"attention": attention, "ffn": {"ffn_mult": None, "no_op": True}},
    ]
    h = 8192
    config = {"model_type": "nemotron-nas", "hidden_size": h, "num_attention_heads": 64, "num_hidden_layers": 3,
              "vocab_size": 1000, "tie_word_embeddings": False, "block_configs": blocks}  # fmt: skip
    attention_weights = 2 * h * h + 2 * h * 1024 + h  # eight key/value heads of 128, and the norm
    wide, narrow = 3 * h * 28672 + h, 3 * h * 7168 + h  # 2/3 of 5.25 h; of 1.3125 h
    assert counts(config).total == 2 * attention_weights + wide + narrow + 2 * 1000 * h + h


def test_imported_fields_round_trip_through_the_description() -> None:
    fields = hf_fields(PUBLISHED["deepseek-r1"]["config"])
    spec = ModelSpec(**fields)
    again = ModelSpec(**json.loads(spec.model_dump_json(exclude_defaults=True)))
    assert build_architecture(again) == build_architecture(spec)


def test_multi_token_prediction_is_read_but_not_counted() -> None:
    result = counts(PUBLISHED["deepseek-r1"]["config"])
    # 14B in the model card of DeepSeek-V3 includes a second copy of embedding and head, 1.85B
    assert result.mtp == pytest.approx(14e9 - 1.85e9, rel=0.05)
    assert result.total == PUBLISHED["deepseek-r1"]["total"]

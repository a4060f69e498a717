"""Every shipped model says where its figures come from, and counts what was published about it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cann_plan.spec.model import ModelSpec
from cann_plan.spec.presets import root
from cann_plan.workload.build import build_architecture
from cann_plan.workload.parameters import parameter_counts

DOCUMENTS: dict[str, dict[str, Any]] = {
    file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
    for file in root().joinpath("models").iterdir()
    if file.name.endswith(".yaml")
}
MODELS = {
    name: ModelSpec(**document)
    for name, document in DOCUMENTS.items()
    if document.get("kind", "transformer") == "transformer"
}
NAMES = sorted(MODELS)

RELIED_ON = (
    "gpt3-175b", "megatron-1t", "turing-530b", "llama-2-7b", "llama-2-70b", "llama-3-8b", "llama-3-70b",
    "llama-3.1-405b", "qwen3-235b-a22b", "mixtral-8x7b", "deepseek-v3", "pangu-ultra-135b", "source-130b", "bert-large",
)  # fmt: skip

TOTAL_TOLERANCE = 0.045
"""Papers round: 7B for 6.9B, 15B for 15.6B (Nemotron-4), 1.7B for 1.65B."""

ACTIVE_TOLERANCE = 0.04
"""As above, once the tables a paper leaves out are allowed for."""


def test_names_others_rely_on_exist() -> None:
    assert set(RELIED_ON) <= set(MODELS)
    assert len(MODELS) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_name_and_source_are_stated(name: str) -> None:
    spec = MODELS[name]
    assert spec.name == name
    assert spec.source
    assert set(spec.assumptions) <= set(DOCUMENTS[name])


@pytest.mark.parametrize("name", [name for name in NAMES if MODELS[name].published is not None])
def test_counts_what_was_published(name: str) -> None:
    spec = MODELS[name]
    published = spec.published
    assert published is not None
    counts = parameter_counts(build_architecture(spec))
    if published.total is not None:
        exact = published.total % 1_000_000 != 0 and "rows of the table" not in published.source
        assert counts.total == pytest.approx(published.total, rel=0.0 if exact else TOTAL_TOLERANCE)
    if published.active is not None:
        low, high = counts.active - counts.embedding - counts.head, counts.active  # papers leave out tables or not
        assert low * (1 - ACTIVE_TOLERANCE) <= published.active <= high * (1 + ACTIVE_TOLERANCE)


def test_case_study_model_lists_what_nobody_states() -> None:
    spec = MODELS["source-130b"]
    assert {"layers", "hidden_size", "heads", "ffn_hidden_size", "vocabulary_size"} <= set(spec.assumptions)
    assert build_architecture(spec).kinds == build_architecture(MODELS["glm-130b"]).kinds

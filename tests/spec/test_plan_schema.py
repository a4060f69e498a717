"""The JSON Schema of the plan accepts what the loader accepts and refuses unknown keys and values."""

import jsonschema
import pytest

from cann_plan.spec import presets
from cann_plan.spec.document import parse_text
from cann_plan.spec.node import Source
from cann_plan.spec.resolve import load_plan
from cann_plan.spec.schema import DOCUMENTS, document_schema, plan_schema

VALID = [
    "model: llama-2-7b\n",
    "model: ./config.json\ncluster: {extends: atlas-900-a2, nodes: 4}\nparallel: auto\n",
    "model: {extends: llama-2-7b, layers: 2}\ncluster: {extends: atlas-900-a2, device: ascend-910b3, pue: 1.2}\n",
    "model: llama-2-7b\nparallel: {recompute: full, layer_split: [16, 16], overlap: true, zero_stage: 1}\n",
    "model: llama-2-7b\nparallel: {recompute: [mlp], layer_split: even, pipeline: 2}\n",
    "model: llama-2-7b\nsearch: {tensor: [1, 2], pipeline: {max: 4}, recompute: none}\n",
    "model: llama-2-7b\nrun: {checkpoint: auto, warmup_s: 5 min}\nsoftware: mindspeed\nmemory: {pool_gib: 58 GiB}\n",
    "model: llama-2-7b\ntraining: {tokens: 80e9, optimizer: adamw, sequence_length: 4096}\nlimits:\n",
]
INVALID = [
    "- model\n",
    "model: llama-2-7b\nparallel: {tensr: 8}\n",
    "model: llama-2-7b\ntraining: {precision: bf17}\n",
    "model: llama-2-7b\nparallel: [8]\n",
    "model: llama-2-7b\nparallel: {sequence_parallel: yes}\n",
    "model: llama-2-7b\nlimits: {memory_fraction: 1.5}\n",
    "model: 3\n",
]
VALIDATOR = jsonschema.Draft202012Validator(plan_schema())


@pytest.mark.parametrize("kind", sorted(DOCUMENTS))
def test_schemas_are_schemas(kind: str) -> None:
    schema = document_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"cann-plan/{kind}/1"


@pytest.mark.parametrize("text", VALID)
def test_what_loads_is_valid(text: str) -> None:
    node = parse_text(text, Source("plan.yaml"))
    assert list(VALIDATOR.iter_errors(node.plain())) == []
    if "config.json" not in text:
        assert load_plan(node, unsupported=()).model.layers >= 1


@pytest.mark.parametrize("text", INVALID)
def test_what_is_refused_is_invalid(text: str) -> None:
    assert list(VALIDATOR.iter_errors(parse_text(text, Source("plan.yaml")).plain()))


@pytest.mark.parametrize("kind", ["model", "cluster", "server", "device"])
def test_presets_follow_their_schema(kind: str) -> None:
    validator = jsonschema.Draft202012Validator(document_schema(kind))
    for preset in presets.all_presets([f"{kind}s"]):
        assert [f"{preset.name}: {error.message}" for error in validator.iter_errors(preset.node().plain())] == []

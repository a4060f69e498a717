"""A plan written for another tool and read back is the same plan, as far as the other tool can say it."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from cann_plan.exporters.launch_arguments import ExportError, Flavour
from cann_plan.exporters.megatron import export_launch
from cann_plan.exporters.mindformers import export_mindformers
from cann_plan.importers.imported import Imported
from cann_plan.importers.megatron import import_megatron
from cann_plan.importers.mindformers import import_mindformers
from cann_plan.planner.resolved import resolved_plan
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.resolve import load_plan

DENSE = {"layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 8, "ffn_hidden_size": 14336,
         "vocabulary_size": 128256}  # fmt: skip
MOE = {**DENSE, "moe": {"experts": 64, "top_k": 6, "hidden_size": 1408, "shared_experts": 2,
                        "leading_dense_layers": 1}}  # fmt: skip
LATENT = {"layers": 16, "hidden_size": 2048, "heads": 16, "vocabulary_size": 102400, "ffn_hidden_size": 10944,
          "mla": {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}}  # fmt: skip
GPT = {"layers": 24, "hidden_size": 2048, "heads": 16, "ffn_hidden_size": 8192, "vocabulary_size": 50257,
       "gated": False, "activation": "gelu", "norm": "layernorm", "bias": True, "position": "learned",
       "position_table": 2048, "tied_embeddings": True}  # fmt: skip
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tensor and pipeline": (DENSE, {"tensor": 8, "pipeline": 4, "micro_batch_size": 2, "zero_stage": 1}),
    "interleaved": (DENSE, {"tensor": 2, "pipeline": 4, "virtual_pipeline": 4, "zero_stage": 0}),
    "context": (DENSE, {"tensor": 2, "context": 4, "context_kind": "ulysses"}),
    "hybrid context": (DENSE, {"tensor": 2, "context": 4, "context_kind": "hybrid", "ulysses_degree": 2}),
    "uneven stages": (DENSE, {"pipeline": 4, "layer_split": [7, 9, 9, 7]}),
    "full recompute": (DENSE, {"tensor": 4, "recompute": "full"}),
    "some layers": (DENSE, {"pipeline": 2, "recompute": {"policy": "full", "method": "block", "layers": 5}}),
    "experts": (MOE, {"tensor": 2, "expert": 8, "expert_tensor": 1, "overlap": {"expert": True}}),
    "latent attention": (LATENT, {"tensor": 2, "pipeline": 2}),
    "GPT": (GPT, {"tensor": 4, "pipeline": 2, "overlap": {"grad_reduce": True, "param_gather": True}}),
}
COMPARED = ("tensor", "pipeline", "data", "context", "context_kind", "ulysses_degree", "expert", "expert_tensor",
            "virtual_pipeline", "micro_batch_size", "sequence_parallel", "zero_stage", "layer_split")  # fmt: skip
DEFAULTS = {"context": 1, "expert": 1, "virtual_pipeline": 1, "ulysses_degree": 1}
SHAPE = ("layers", "hidden_size", "vocabulary_size", "heads", "kv_heads", "head_dim", "ffn_hidden_size", "gated",
         "norm", "bias", "position", "tied_embeddings", "moe", "mla")  # fmt: skip


@cache
def resolved(name: str) -> tuple[PlanSpec, Cluster]:
    model, parallel = LAYOUTS[name]
    return resolved_plan(
        load_plan({
            "model": model, "cluster": {"extends": "atlas-900-a2", "nodes": 8}, "parallel": parallel,
            "training": {"steps": 10, "sequence_length": 4096, "global_batch_size": 256},
            "software": {"stack": "mindspeed-mcore", "moe": {"dispatcher": "alltoall"}},
        })
    )  # fmt: skip


def assert_same(spec: PlanSpec, cluster: Cluster, imported: Imported) -> None:
    assert not imported.refused
    again = load_plan({**imported.plan, "cluster": {"extends": "atlas-900-a2", "devices": cluster.devices}})
    for key in COMPARED:
        ours, theirs = getattr(spec.parallel, key), getattr(again.spec.parallel, key)
        if key == "context_kind" and (spec.parallel.context or 1) == 1:
            continue
        if key == "expert_tensor" and (spec.parallel.expert or 1) == 1:
            continue
        if key == "sequence_parallel" and (spec.parallel.tensor or 1) == 1:
            continue
        assert (theirs if theirs is not None else DEFAULTS.get(key)) == (
            ours if ours is not None else DEFAULTS.get(key)
        ), key
    for key in ("sequence_length", "global_batch_size", "precision"):
        assert getattr(again.spec.training, key) == getattr(spec.training, key)
    assert spec.model is not None
    for key in SHAPE:
        assert getattr(again.model, key) == getattr(spec.model, key), key


@pytest.mark.parametrize("flavour", ["megatron", "mindspeed"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_launch_scripts(name: str, flavour: Flavour) -> None:
    spec, cluster = resolved(name)
    exported = export_launch(spec, cluster, flavour)
    assert exported.warnings == ()
    imported = import_megatron(exported.text)
    assert imported.plan["cluster"]["devices"] == cluster.devices
    assert [item.argument for item in imported.unknown if "nobody here" in item.why] == []
    assert_same(spec, cluster, imported)
    stated = spec.parallel.recompute
    again = imported.plan["parallel"]["recompute"]
    assert again["policy"] == (stated.policy or "none")
    assert stated.layers is None or again["layers"] == stated.layers


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name not in ("GPT", "context", "hybrid context")])
def test_mindformers(name: str) -> None:
    spec, cluster = resolved(name)
    if spec.parallel.expert_tensor == 1 and (spec.parallel.tensor or 1) > 1:
        spec = spec.model_copy(update={"parallel": spec.parallel.model_copy(update={"expert_tensor": None})})
    imported = import_mindformers(yaml.safe_load(export_mindformers(spec, cluster).text))
    zero = imported.plan["parallel"]["zero_stage"]
    assert zero == (spec.parallel.zero_stage or 0)
    assert_same(spec, cluster, imported)


def test_what_a_tool_cannot_say_is_said() -> None:
    spec, cluster = resolved("uneven stages")
    lists = spec.parallel.model_copy(
        update={"recompute": spec.parallel.recompute.model_copy(update={"policy": "full", "per_stage": (3, 2, 1, 0)})}
    )
    exported = export_launch(spec.model_copy(update={"parallel": lists}), cluster, "megatron")
    assert any("by stage" in text for text in exported.warnings)
    assert "# not expressed: recomputation by stage" in exported.text
    with pytest.raises(ExportError):
        export_mindformers(resolved("GPT")[0], cluster)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_is_one_a_shell_accepts_whatever_the_names() -> None:
    spec, cluster = resolved("experts")
    named = spec.model_copy(update={"name": "x\n$(touch PWNED)`id`'\""})
    text = export_launch(named, cluster, "mindspeed").text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert [line for line in text.splitlines() if "PWNED" in line and not line.startswith("#")] == []

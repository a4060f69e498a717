"""Where a plan's values come from: presets, paths, `extends`, command-line overrides, and the places they keep."""

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cann_plan.spec import presets
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import DEFAULT_CLUSTER, LoadedPlan, load_plan

PLAN = """\
model: llama-2-70b
cluster: {extends: atlas-900-a2, nodes: 32}
training: {tokens: 80e9, sequence_length: 4096, global_batch_size: 1024}
parallel: {tensor: 8, pipeline: 4, recompute: full}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def problems(*args: Any, **options: Any) -> list[tuple[str | None, int | None, int | None, str | None, str]]:
    with pytest.raises(SpecError) as caught:
        load_plan(*args, **options)
    return [(p.file, p.line, p.column, p.path, p.message) for p in caught.value.problems]


def test_names_stand_for_presets(folder: Path) -> None:
    write(folder, plan=PLAN)
    plan = load_plan("plan.yaml")
    assert (plan.model.layers, plan.model.hidden_size) == (80, 8192)
    assert plan.hardware.devices == 256
    assert plan.hardware.device.name.startswith("ascend-910b")
    assert not plan.is_model_only
    assert not plan.cluster_assumed


@pytest.mark.parametrize("text", ["model: llama-2-7b\n", "llama-2-7b\n", "{extends: llama-2-7b, layers: 32}\n"])
def test_a_file_with_only_a_model_is_a_plan(folder: Path, text: str) -> None:
    write(folder, only=text)
    plan = load_plan("only.yaml")
    assert plan.is_model_only
    assert plan.cluster_assumed
    assert plan.model.layers == 32
    assert plan.cluster.name == DEFAULT_CLUSTER
    assert plan.spec.parallel.auto
    assert plan.spec.training.tokens is None


def test_a_model_preset_is_a_plan() -> None:
    assert load_plan("llama-2-7b").is_model_only


def test_a_cluster_option_is_not_an_assumption() -> None:
    plan = load_plan("llama-2-7b", cluster="dgx-h100", devices=64)
    assert not plan.cluster_assumed
    assert (plan.cluster.name, plan.hardware.nodes, plan.hardware.devices) == ("dgx-h100", 8, 64)


def test_standard_input_is_a_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PLAN.encode())))
    assert load_plan("-").hardware.devices == 256
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"model: 3\n")))
    assert problems("-")[0][:4] == ("<stdin>", 1, 8, "model")


def test_a_json_file_is_a_plan(folder: Path) -> None:
    (folder / "plan.json").write_text(json.dumps({"model": "llama-2-7b", "parallel": {"tensr": 8}}, indent=1))
    assert problems("plan.json")[0][:4] == ("plan.json", 4, 3, "parallel.tensr")


def test_a_mapping_is_a_plan() -> None:
    plan = load_plan({"model": "llama-2-7b", "parallel": {"tensor": 2}})
    assert plan.spec.parallel.tensor == 2


def test_paths_are_relative_to_the_file_that_names_them(folder: Path) -> None:
    (folder / "models").mkdir()
    (folder / "plans").mkdir()
    write(folder / "models", base="extends: llama-2-7b\nlayers: 16\n", small="extends: base.yaml\nhidden_size: 2048\n")
    write(folder / "plans", plan="model: ../models/small.yaml\n")
    plan = load_plan("plans/plan.yaml")
    assert (plan.model.layers, plan.model.hidden_size, plan.model.vocabulary_size) == (16, 2048, 32000)
    assert str(plan.where("model.layers")) == "models/base.yaml:2:9".replace("models", "plans/../models")
    assert str(plan.where("model.vocabulary_size")).startswith("presets/models/llama-2-7b.yaml:")


def test_problems_stay_in_the_file_they_come_from(folder: Path) -> None:
    write(folder, base="training:\n  tokens: 1e9\n  precision: bf17\n", plan="extends: base.yaml\nmodel: llama-2-7b\n")
    assert [p[:4] for p in problems("plan.yaml")] == [("base.yaml", 3, 14, "training.precision")]


def test_extended_plans_merge_mappings_and_replace_lists(folder: Path) -> None:
    write(
        folder,
        base=PLAN + "software: {fused: [rmsnorm, swiglu], loss: {chunk: 1024}}\nmemory: caching\n",
        plan="extends: base.yaml\ncluster: {nodes: 64}\nparallel: {recompute: {layers: 2, method: block}}\n"
        "software: {fused: [rope]}\nmemory: {pool_gib: 58}\n",
    )
    spec = load_plan("plan.yaml").spec
    assert (spec.parallel.tensor, spec.parallel.pipeline) == (8, 4)
    assert (spec.parallel.recompute.policy, spec.parallel.recompute.layers) == ("full", 2)  # the shorthand is kept
    assert (spec.software.fused, spec.software.loss.chunk) == (("rope",), 1024)
    assert (spec.memory.pool, spec.memory.pool_gib) == ("caching", 58)


@pytest.mark.parametrize("name", ["samples", "steps"])
def test_another_length_of_the_run_replaces_the_inherited_one(folder: Path, name: str) -> None:
    write(folder, base=PLAN, plan=f"extends: base.yaml\ntraining: {{{name}: 100}}\n")
    training = load_plan("plan.yaml").spec.training
    assert getattr(training, name) == 100
    assert training.tokens is None


def test_devices_replace_inherited_nodes_and_back(folder: Path) -> None:
    write(folder, base=PLAN, plan="extends: base.yaml\ncluster: {devices: 64}\n")
    assert load_plan("plan.yaml").hardware.nodes == 8
    assert load_plan("plan.yaml", overrides=["cluster.nodes=4"]).hardware.devices == 32
    assert load_plan("base.yaml", devices=16).hardware.nodes == 2


def test_a_new_figure_does_not_keep_the_old_source(folder: Path) -> None:
    write(folder, plan="model: llama-2-7b\ncluster: {extends: atlas-900-a2, pue: {value: 1.1}}\n")
    pue = load_plan("plan.yaml").cluster.pue
    assert (pue.value, pue.source) == (1.1, None)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_circles_of_extends_are_found(folder: Path, length: int) -> None:
    for i in range(length):
        write(folder, **{f"p{i}": f"extends: p{(i + 1) % length}.yaml\nmodel: llama-2-7b\n"})
    (found,) = problems("p0.yaml")
    assert found[3] == "extends"
    assert found[4].startswith("extends goes in a circle: ")


def test_circles_of_models_and_long_chains_are_found(folder: Path) -> None:
    write(folder, a="extends: b.yaml\nlayers: 2\n", b="extends: a.yaml\n", plan="model: a.yaml\n")
    assert "circle" in problems("plan.yaml")[0][4]
    for i in range(40):
        write(folder, **{f"m{i}": f"extends: m{i + 1}.yaml\n"})
    write(folder, m40="extends: llama-2-7b\n", plan="model: m0.yaml\n")
    assert "extends goes through" in problems("plan.yaml")[0][4]


def test_a_name_without_slash_or_suffix_is_never_a_file(folder: Path) -> None:
    (folder / "llama-2-7c").write_text("layers: 2\n")
    write(folder, plan="model: llama-2-7c\n")
    assert "no model preset 'llama-2-7c'" in problems("plan.yaml")[0][4]


def test_overrides_win_and_are_located_as_themselves(folder: Path) -> None:
    write(folder, plan=PLAN)
    plan = load_plan(
        "plan.yaml",
        overrides=["training.tokens=2T", "parallel.recompute.layers=3", "model.layers=40", "parallel.pipeline="],
    )
    assert plan.spec.training.tokens == 2 * 10**12
    assert (plan.spec.parallel.recompute.policy, plan.spec.parallel.recompute.layers) == ("full", 3)
    assert (plan.model.layers, plan.model.hidden_size) == (40, 8192)
    assert plan.spec.parallel.pipeline is None
    assert str(plan.where("training.tokens")) == "--set training.tokens=2T"
    found = problems("plan.yaml", overrides=["training.tokens=1:30", "paralel.tensor=8"])
    assert found[0][:4] == ("--set training.tokens=1:30", None, None, "training.tokens")
    assert found[1][3] == "paralel"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("training.tokens", "has no value"),
        ("=3", "is not a path"),
        ("a..b=3", "is not a path"),
        ("a[x]=3", "is not a path"),
        ("parallel=[1", "not valid YAML"),
        ("training.tokens.x=3", "not a mapping"),
        ("parallel.layer_split[0]=3", "has no entry 0"),
        ("training.tokens=!!python/name:os.system x", "is not supported"),
    ],
)
def test_overrides_that_make_no_sense(folder: Path, text: str, words: str) -> None:
    write(folder, plan=PLAN)
    found = problems("plan.yaml", overrides=[text])
    assert words in found[0][4]
    assert found[0][0] == f"--set {text}"


def test_override_of_one_entry_of_a_list(folder: Path) -> None:
    write(folder, plan="model: llama-2-7b\nparallel: {pipeline: 2, layer_split: {layers: [16, 16]}}\n")
    plan = load_plan("plan.yaml", overrides=["parallel.layer_split.layers[1]=15"])
    assert plan.spec.parallel.layer_split.layers == (16, 15)


def test_override_after_loading_equals_override_while_loading(folder: Path) -> None:
    write(folder, plan=PLAN)
    base = load_plan("plan.yaml")
    changes: dict[str, Any] = {"parallel.tensor": 4, "cluster": "dgx-h100", "cluster.nodes": 16, "model": "gpt3-175b"}
    texts = [f"{path}={value}" for path, value in changes.items()]
    assert base.override(changes).spec == load_plan("plan.yaml", overrides=texts).spec
    assert base.spec == load_plan("plan.yaml").spec


def test_planner_problems_point_into_the_file(folder: Path) -> None:
    write(folder, plan=PLAN)
    plan = load_plan("plan.yaml")
    problem = plan.problem("parallel.tensor", "does not divide 64 heads", "1, 2, 4", "8")
    assert str(problem).startswith("plan.yaml:4:20: parallel.tensor: does not divide 64 heads; allowed: 1, 2, 4;")
    assert plan.problem("parallel.context", "is needed").line == 4  # the section it would stand in
    with pytest.raises(SpecError, match=r"plan\.yaml:3:43: training\.sequence_length: too long"):
        plan.fail("training.sequence_length", "too long")


def test_counts_that_do_not_fit_the_servers_are_located(folder: Path) -> None:
    write(folder, plan="model: llama-2-7b\ncluster:\n  extends: atlas-900-a2\n  devices: 63\n")
    (found,) = problems("plan.yaml")
    assert found[:4] == ("plan.yaml", 4, 12, "cluster.devices")


def test_stated_and_unstated_values(folder: Path) -> None:
    write(folder, plan=PLAN + "memory: {pool: null}\n")
    plan = load_plan("plan.yaml")
    assert plan.states("training.tokens")
    assert plan.states("cluster.scale_out[0].bandwidth")  # by its preset
    assert not plan.states("training.precision")
    assert not plan.states("memory.pool")
    assert plan.spec.parallel.stated == {"tensor", "pipeline", "recompute"}


@pytest.mark.parametrize("name", presets.names("models"))
def test_every_model_preset_loads(name: str) -> None:
    assert load_plan(name).model.layers >= 1


@pytest.mark.parametrize("name", presets.names("clusters"))
def test_every_cluster_preset_loads(name: str) -> None:
    assert load_plan({"model": "llama-2-7b", "cluster": name}).hardware.devices >= 1


@pytest.mark.parametrize("name", presets.names("plans"))
def test_every_plan_preset_loads(name: str) -> None:
    assert isinstance(load_plan(name), LoadedPlan)


def test_foreign_models_go_through_a_reader(folder: Path) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64}

    def reader(document: dict[str, Any], file: str) -> Mapping[str, Any] | None:
        if "num_hidden_layers" not in document:
            error = ValueError("num_hidden_layers: missing")
            error.path = "hidden_size"  # type: ignore[attr-defined]
            raise error
        return {"extends": "llama-2-7b", "layers": document["num_hidden_layers"], "name": Path(file).stem}

    (folder / "config.json").write_text(json.dumps(config))
    write(folder, plan="model: ./config.json\n", inherit="model: {extends: config.json, hidden_size: 128}\n")
    for source in ("config.json", "plan.yaml", "inherit.yaml"):
        plan = load_plan(source, model_readers=[lambda d, f: None, reader])
        assert (plan.model.layers, plan.model.name, plan.is_model_only) == (2, "config", True)
    assert "not supported" in problems("config.json")[0][4]
    (folder / "config.json").write_text('{"model_type": "llama",\n "hidden_size": 64}')
    (found,) = problems("config.json", model_readers=[reader])
    assert found[:3] == ("config.json", 2, 17)


def test_a_directory_with_a_config_is_a_model(folder: Path) -> None:
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "config.json").write_text('{"model_type": "x"}')
    write(folder, plan="model: ./checkpoint\n")
    plan = load_plan("plan.yaml", model_readers=[lambda d, f: {"extends": "llama-2-7b", "name": Path(f).parent.name}])
    assert plan.model.name == "checkpoint"

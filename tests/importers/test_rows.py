"""Measured rows become the plans their sources describe, and whatever had to be assumed is said."""

from pathlib import Path
from typing import Any

import pytest

from cann_plan.importers.rows import RowSkippedError, read_rows, rows_from
from cann_plan.importers.rows_plan import ImportedRow, import_row, memory_kind
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

ROWS = {row.id: row for row in read_rows(Path(__file__).parents[1] / "data" / "measured_rows.yaml")}


def imported(name: str, **changes: Any) -> ImportedRow:
    """A row of the data file with keys of its `parallel` section replaced (None removes)."""
    data = dict(ROWS[name].data)
    parallel = {**data["parallel"], **changes}
    data["parallel"] = {key: value for key, value in parallel.items() if value is not None}
    return import_row(rows_from([data])[0])


def assumed(row: ImportedRow) -> dict[str, Any]:
    return {remark.path: remark.value for remark in row.remarks}


def test_every_row_but_the_one_without_a_time_is_a_valid_plan() -> None:
    for name in ROWS:
        if name != "flops-only":
            load_plan(imported(name).plan)


def test_full_recompute_without_sequence_parallelism() -> None:
    plan = imported("megatron-22b-full").plan
    assert plan["parallel"] == {
        "tensor": 8, "pipeline": 1, "context": 1, "data": 1, "micro_batch_size": 4, "zero_stage": 0,
        "sequence_parallel": False, "recompute": {"policy": "full"},
    }  # fmt: skip
    assert plan["software"] == {"stack": "megatron", "attention": "unfused"}
    assert plan["training"]["precision"] == "fp16"
    assert plan["cluster"]["devices"] == 8


def test_gpt_rows_get_layer_norm_gelu_and_a_position_table() -> None:
    row = imported("megatron-22b-full")
    model = row.plan["model"]
    assert (model["norm"], model["activation"], model["position"], model["bias"]) == (
        "layernorm", "gelu", "learned", True,
    )  # fmt: skip
    assert model["position_table"] == 2048
    assert model["dropout"] is True
    assert "model" in assumed(row)


def test_interleaving_and_selective_recompute() -> None:
    parallel = imported("megatron-175b-interleaved").plan["parallel"]
    assert parallel["virtual_pipeline"] == 3
    assert parallel["recompute"] == {"policy": "selective", "modules": ["core_attention"]}
    assert parallel["sequence_parallel"] is True


def test_layer_list_overlap_and_fusions_of_a_launch_script() -> None:
    plan = imported("mindspeed-llama3-70b").plan
    assert plan["parallel"]["layer_split"] == [17, 20, 22, 21]
    assert plan["parallel"]["overlap"] == {"grad_reduce": False, "param_gather": False, "tensor": "mc2"}
    assert {"rmsnorm", "swiglu", "rope", "softmax"} <= set(plan["software"]["fused"])
    assert "grouped_gemm" not in plan["software"]["fused"]
    assert plan["cluster"]["extends"] == "atlas-900-a2"


def test_step_time_from_tokens_per_second() -> None:
    measured = imported("mindspeed-llama3-70b").measured
    assert measured.step_s == pytest.approx(512 * 8192 / (353.0 * 32))
    assert measured.derived_from == "tokens_per_s_per_device"


def test_per_stage_lists_override_the_word_full() -> None:
    """The GLM-4 row says full, but recomputes 14 of 40 layers; offsets count from the even split."""
    row = imported("mindformers-glm4-9b")
    assert row.plan["parallel"]["recompute"] == {"policy": "full", "per_stage": [6, 3, 2, 3]}
    assert row.plan["parallel"]["layer_split"] == [9, 10, 11, 10]


def test_parallel_optimizer_that_accumulates_whole_gradients_shards_states_only() -> None:
    row = imported("mindformers-glm4-9b")
    assert row.plan["parallel"]["zero_stage"] == 1
    assert assumed(row)["parallel.zero_stage"] == 1
    assert imported("mindformers-glm4-9b", zero_note=None).plan["parallel"]["zero_stage"] == 2


def test_memory_pool_of_mindspore_is_in_binary_gigabytes() -> None:
    assert imported("mindformers-glm4-9b").plan["memory"] == {"pool_gib": 59.0}


def test_lora_of_mindformers() -> None:
    training = imported("mindformers-lora").plan["training"]
    assert training["task"] == "lora"
    assert training["lora"] == {"rank": 1, "target_modules": ["q_proj", "k_proj", "v_proj"]}
    assert training["optimizer"]["master_weights"] is False


def test_selective_recompute_by_operator_replays_every_second_product() -> None:
    row = imported("torchtitan-8b")
    assert row.plan["parallel"]["recompute"] == {"policy": "selective", "modules": ["alternate_linear"]}
    assert row.plan["software"]["attention"] == "sdpa"
    assert "swiglu" not in row.plan["software"]["fused"]
    assert row.measured.memory_kind == "reserved"


def test_recompute_that_is_not_stated() -> None:
    """MaxText recomputes everything unless told otherwise; for Megatron memory has to decide."""
    assert imported("maxtext-70b").plan["parallel"]["recompute"] == {"policy": "full"}
    assert imported("mlperf-gpt3").recompute.search == "unstated"
    assert imported("megatron-22b-full", recompute=None).recompute.search == "unstated"


def test_recompute_that_adapts_to_a_limit() -> None:
    found = imported(
        "mindspeed-llama3-70b", recompute="selective", recompute_note="adaptive recompute to fit 55296 MB"
    ).recompute
    assert (found.search, found.limit) == ("layers", 55296 * 2.0**20)


def test_block_recompute_counts_layers_of_a_chunk() -> None:
    section = imported(
        "megatron-175b-interleaved", recompute="full", recompute_method="block", recompute_num_layers=1
    ).plan["parallel"]["recompute"]
    assert section == {"policy": "full", "method": "block", "layers": 1, "scope": "chunk"}


def test_unstated_virtual_pipeline_of_nemo_is_assumed_and_said() -> None:
    row = imported("mlperf-gpt3")
    assert row.plan["parallel"]["virtual_pipeline"] == 6
    assert assumed(row)["parallel.virtual_pipeline"] == 6
    assert assumed(row)["model.vocabulary_size"] == row.plan["model"]["vocabulary_size"] == 50257


def test_experts_dispatcher_overlap_and_graphs() -> None:
    plan = imported("bridge-qwen3-235b").plan
    assert plan["model"]["moe"] == {"experts": 128, "top_k": 8, "hidden_size": 1536, "leading_dense_layers": 0}
    assert plan["parallel"]["expert"] == 32
    assert plan["parallel"]["overlap"] == {"expert": True}
    assert plan["software"]["moe"] == {"dispatcher": "deepep"}
    assert plan["software"]["graph_mode"] == "graph"
    assert plan["training"]["precision"] == "mxfp8"


def test_latent_attention_and_shared_experts() -> None:
    row = imported("simumax-deepseekv2")
    model = row.plan["model"]
    assert model["mla"] == {
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    }  # fmt: skip
    assert model["moe"]["shared_hidden_size"] == 3072
    assert row.kind == "mla"
    assert row.measured.step_s is None


def test_a_model_that_is_only_named_is_the_preset_of_that_name() -> None:
    data = dict(ROWS["megatron-22b-full"].data) | {"model": {"name": "llama-2-7b", "seq_len": 4096}}
    row = import_row(rows_from([data])[0])
    loaded = load_plan(row.plan)
    assert (loaded.model.layers, loaded.model.hidden_size) == (32, 4096)
    assert assumed(row)["model"] == "llama-2-7b"


def test_keys_of_plans_are_accepted() -> None:
    parallel = {"tensor": 8, "pipeline": 1, "micro_batch_size": 4, "global_batch_size": 4, "recompute": "full"}
    data = dict(ROWS["megatron-22b-full"].data) | {"parallel": parallel}
    plan = import_row(rows_from([data])[0]).plan
    assert (plan["parallel"]["tensor"], plan["parallel"]["micro_batch_size"]) == (8, 4)
    assert plan["training"]["global_batch_size"] == 4


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("nvidia-smi maximum over the nodes", "device"),
        ("torch max allocated", "allocated"),
        ("peak reserved", "reserved"),
    ],
)
def test_which_memory_a_source_measures(words: str, kind: str) -> None:
    assert memory_kind(words) == kind


def test_fully_sharded_groups() -> None:
    assert imported("torchtitan-8b").plan["parallel"]["zero_stage"] == 3
    hybrid = imported("maxtext-70b", fsdp=None, sharding="HSDP")
    assert hybrid.plan["parallel"]["shard_group"] == 8
    assert imported("maxtext-70b", fsdp=8).plan["parallel"]["shard_group"] == 8


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("flops-only", {}, "only mfu"),
        ("megatron-22b-full", {"tp": None, "pp": None}, "layout is not stated"),
        ("megatron-22b-full", {"dp": 2}, "8 devices are stated"),
        ("megatron-22b-full", {"tp": 3}, "does not divide 8"),
        ("megatron-22b-full", {"micro_batch": 3}, "does not divide into"),
        ("mindspeed-llama3-70b", {"num_layer_list": "20,20"}, "stages hold 40 layers"),
        ("megatron-22b-full", {"offload": ["other"]}, "what is offloaded is not stated"),
        ("megatron-22b-full", {"precision": "int3"}, "precision int3"),
    ],
)
def test_rows_that_cannot_be_compared_say_why(name: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RowSkippedError, match=words):
        imported(name, **changes)


def test_a_key_no_model_reads_is_reported() -> None:
    row = imported("megatron-22b-full", quantised_embedding=True, sequence_paralel=True)
    remarks = {remark.path: remark.source for remark in row.remarks}
    assert "not used" in remarks["parallel.quantised_embedding"]
    assert "did you mean sequence_parallel" in remarks["parallel.sequence_paralel"]


def test_malformed_rows_are_located(tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text("- id: a\n  model: {layers: 2}\n- model: {}\n- 3\n- id: b\n  model: []\n  measured: {}\n")
    with pytest.raises(SpecError) as caught:
        read_rows(file)
    found = {(problem.line, problem.path) for problem in caught.value.problems}
    assert {(1, "a.measured"), (3, "[1].id"), (4, "[2]"), (6, "b.model")} <= found


def test_an_id_given_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text("- {id: a, model: {}, measured: {}}\n- {id: a, model: {}, measured: {}}\n")
    with pytest.raises(SpecError, match="given twice"):
        read_rows(file)


def test_a_value_of_the_wrong_type_is_located() -> None:
    with pytest.raises(SpecError, match=r"parallel\.tp.*whole number"):
        imported("megatron-22b-full", tp="eight")


def test_a_row_that_states_its_plan_predicts_as_the_row_it_was_made_from() -> None:
    from cann_plan.planner.validate import validate

    row = ROWS["mindspeed-llama3-70b"]
    imported = import_row(row)
    stated = {
        "id": "plan", "source": "x", "tier": "A", "device": imported.device, "stack": imported.stack,
        "plan": imported.plan, "measured": dict(row.data["measured"]), "assumed": ["parallel.data"],
    }  # fmt: skip
    (one,), (other,) = (validate([item])["rows"] for item in (row, rows_from([stated])[0]))
    assert other["predicted"]["step_time"] == one["predicted"]["step_time"]
    assert other["measured"]["step_time"] == one["measured"]["step_time"]
    assert {"path": "parallel.data", "value": None, "source": "not stated by the source"} in other["assumptions"]


def test_a_plan_row_without_a_batch_is_skipped_with_the_reason() -> None:
    plan = {**import_row(ROWS["mindspeed-llama3-70b"]).plan, "training": {"sequence_length": 4096}}
    stated = {"id": "plan", "device": "ascend-910b-64g", "plan": plan, "measured": {"step_time_s": 1.0}}
    with pytest.raises(RowSkippedError, match="global_batch_size"):
        import_row(rows_from([stated])[0])

"""MindFormers configurations import by the rules of MindFormers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.importers.mindformers import Options, import_mindformers
from cann_plan.importers.mindformers_model import ffn_width
from cann_plan.spec.resolve import load_plan

# mindspore-lab/mindformers configs/llama2/pretrain_llama2_70b_bf16_64p.yaml, shortened.
LLAMA_70B = """
trainer: {type: CausalLanguageModelingTrainer, model_name: llama2_70b}
runner_config: {epochs: 3, batch_size: 1, sink_mode: True, sink_size: 2}
optimizer: {type: FP32StateAdamWeightDecay, eps: 1.e-8}
train_dataset: &train_dataset {batch_size: 1}
train_dataset_task: {dataset_config: *train_dataset}
use_parallel: True
parallel:
  parallel_mode: 1
  enable_parallel_optimizer: True
  parallel_optimizer_config: {gradient_accumulation_shard: False, parallel_optimizer_threshold: 64}
parallel_config: {data_parallel: 2, model_parallel: 4, pipeline_stage: 8, use_seq_parallel: True, micro_batch_num: 256,
  vocab_emb_dp: False, gradient_aggregation_group: 4}
micro_batch_interleave_num: 1
recompute_config: {recompute: False, select_recompute: [10, 8, 6, 4, 2, 0, 0, 0], mp_comm_recompute: True,
  recompute_slice_activation: True}
context: {mode: 0, max_device_memory: "52GB", jit_config: {jit_level: "O1"}}
model:
  model_config: {type: LlamaConfig, seq_length: 4096, hidden_size: 8192, num_layers: 80, num_heads: 64,
    vocab_size: 32000, multiple_of: 256, n_kv_heads: 8, ffn_dim_multiplier: 1.3, compute_dtype: "bfloat16",
    param_init_type: "bfloat16", use_flash_attention: True, fine_grain_interleave: 2, offset: 0}
"""
BASE: dict[str, Any] = {
    "runner_config": {"batch_size": 2},
    "parallel_config": {"data_parallel": 4, "model_parallel": 2, "pipeline_stage": 2, "micro_batch_num": 8},
    "model": {"model_config": {"type": "LlamaConfig", "hidden_size": 1024, "num_layers": 10, "num_heads": 16,
                               "vocab_size": 32000, "seq_length": 2048, "compute_dtype": "bfloat16"}},
}  # fmt: skip


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {**BASE}
    for name, values in sections.items():
        if name == "model_config":
            document["model"] = {"model_config": {**BASE["model"]["model_config"], **values}}
        else:
            document[name] = {**document.get(name, {}), **values}
    return document


def test_a_published_configuration() -> None:
    imported = import_mindformers(LLAMA_70B)
    plan = imported.plan
    assert not imported.refused
    assert plan["model"]["ffn_hidden_size"] == 28672  # config.json of meta-llama/Llama-2-70b-hf
    assert plan["training"]["global_batch_size"] == 512
    assert plan["cluster"]["devices"] == 64
    assert plan["parallel"]["recompute"]["per_stage"] == [10, 8, 6, 4, 2, 0, 0, 0]
    assert plan["parallel"]["zero_stage"] == 1
    assert plan["parallel"]["overlap"] == {"tensor": "bulk"}
    assert plan["memory"] == {"pool_gib": 52.0}
    assert plan["software"]["graph_mode"] == "graph"
    assert load_plan(plan).hardware.devices == 64


@pytest.mark.parametrize(
    ("hidden", "multiple", "multiplier", "width"),
    [(4096, 256, None, 11008), (5120, 256, None, 13824), (8192, 256, 1.3, 28672), (8192, 4096, 1.3, 28672),
     (4096, 1024, 1.3, 14336)],
)  # fmt: skip
def test_the_feed_forward_width_of_published_models(
    hidden: int, multiple: int, multiplier: float | None, width: int
) -> None:
    """LLaMA 2 7B, 13B, 70B and LLaMA 3 70B, 8B: their config.json."""
    assert ffn_width(hidden, multiple, multiplier) == width


@pytest.mark.parametrize(
    ("stages", "interleave", "accumulation", "batch", "micro"),
    [(2, 1, 4, 2 * 4 * 8, 2), (2, 2, 4, 2 * 4 * 8 * 2, 4), (1, 1, 1, 2 * 4, 2), (1, 2, 4, 2 * 4 * 2 * 4, 4)],
)
def test_the_global_batch_depends_on_whether_there_is_a_pipeline(
    stages: int, interleave: int, accumulation: int, batch: int, micro: int
) -> None:
    document = changed(
        parallel_config={"pipeline_stage": stages},
        runner_config={"gradient_accumulation_steps": accumulation},
    )
    document["micro_batch_interleave_num"] = interleave
    plan = import_mindformers(document).plan
    assert plan["training"]["global_batch_size"] == batch
    assert plan["parallel"]["micro_batch_size"] == micro


@pytest.mark.parametrize(("stages", "shard", "stage"), [(1, None, 2), (2, None, 1), (2, True, 2), (2, False, 1)])
def test_the_parallel_optimizer_keeps_whole_gradients_only_where_they_accumulate(
    stages: int, shard: bool | None, stage: int
) -> None:
    document = changed(
        parallel_config={"pipeline_stage": stages},
        parallel={"enable_parallel_optimizer": True, "parallel_optimizer_config":
                  {"gradient_accumulation_shard": shard, "optimizer_weight_shard_size": 2}},
    )  # fmt: skip
    parallel = import_mindformers(document).plan["parallel"]
    assert parallel["zero_stage"] == stage
    assert parallel["shard_group"] == 2


def test_offsets_are_differences_to_an_even_split() -> None:
    uneven = import_mindformers(changed(model_config={"offset": [1, -1]})).plan["parallel"]
    assert uneven["layer_split"] == [6, 4]
    chunks = changed(model_config={"num_layers": 16, "pp_interleave_num": 2, "offset": [[1, 0], [0, -1]]})
    assert import_mindformers(chunks).plan["parallel"]["layer_split"] == [5, 4, 4, 3]
    assert "layer_split" not in import_mindformers(changed(model_config={"offset": [0, 0]})).plan["parallel"]
    assert import_mindformers(changed(model_config={"offset": [2, 1]})).refused


def test_offsets_count_the_prediction_layer_of_deepseek_v3() -> None:
    """pretrain_deepseek3_671b.yaml: 61 layers and one prediction layer on 16 stages."""
    document = changed(
        parallel_config={"data_parallel": 16, "model_parallel": 4, "pipeline_stage": 16, "expert_parallel": 8,
                         "micro_batch_num": 32},
        model_config={"type": "DeepseekV3Config", "num_layers": 61, "hidden_size": 7168, "num_heads": 128,
                      "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128,
                      "qk_nope_head_dim": 128, "intermediate_size": 18432, "vocab_size": 129280, "mtp_depth": 1,
                      "offset": [1] * 15 + [-1]},
        moe_config={"expert_num": 256, "num_experts_chosen": 8, "moe_intermediate_size": 2048, "shared_expert_num": 1,
                    "first_k_dense_replace": 3, "use_gmm": True, "capacity_factor": 1.5},
        recompute_config={"recompute": [3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 2, 0]},
        runner_config={"batch_size": 1},
    )  # fmt: skip
    plan = import_mindformers(document).plan
    assert plan["parallel"]["layer_split"] == [4] * 15 + [1]
    assert plan["parallel"]["recompute"]["per_stage"][13:] == [3, 2, 0]
    assert plan["cluster"]["devices"] == 1024
    assert plan["training"]["global_batch_size"] == 512
    assert "moe" not in plan["software"]  # grouped products drop no tokens, whatever the capacity factor says
    load_plan(plan)


@pytest.mark.parametrize(
    ("recompute", "expected"),
    [
        ({"recompute": True}, {"policy": "full"}),
        ({"recompute": False}, {"policy": "none"}),
        ({"recompute": [3, 0]}, {"policy": "full", "per_stage": [3, 0]}),
        ({"recompute": 2}, {"policy": "full", "per_stage": [2, 2]}),
        ({"select_recompute": True}, {"policy": "selective", "modules": ["activation"]}),
        ({"select_recompute": ["feed_forward\\.mul", "ffn_norm\\.norm"]},
         {"policy": "selective", "modules": ["activation", "norm"]}),
        ({"select_recompute": {"feed_forward\\.w1\\.activation\\.silu": [2, 0]}},
         {"policy": "selective", "modules": ["activation"], "per_stage": [2, 0]}),
    ],
)  # fmt: skip
def test_recompute_switches_lists_and_operators(recompute: dict[str, Any], expected: dict[str, Any]) -> None:
    assert import_mindformers(changed(recompute_config=recompute)).plan["parallel"]["recompute"] == expected


def test_low_rank_adapters_and_families() -> None:
    lora = changed(model_config={"pet_config": {"pet_type": "lora", "lora_rank": 8, "target_modules": ".*wq|.*wv"}})
    training = import_mindformers(lora).plan["training"]
    assert (training["task"], training["lora"]["target_modules"]) == ("lora", ["q_proj", "v_proj"])
    gpt = import_mindformers(changed(model_config={"type": "GPT2Config"})).plan["model"]
    assert (gpt["norm"], gpt["ffn_hidden_size"], gpt["tied_embeddings"]) == ("layernorm", 4096, True)
    strange = import_mindformers(changed(model_config={"type": "NobodyConfig"}))
    assert any("nobodyconfig" in item.source for item in strange.assumptions)


def test_a_stated_number_of_devices_changes_data_parallelism() -> None:
    plan = import_mindformers(BASE, Options(devices=64)).plan
    assert (plan["parallel"]["data"], plan["training"]["global_batch_size"]) == (16, 2 * 16 * 8)
    assert import_mindformers(BASE, Options(devices=6)).refused


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 10**9) | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from([*BASE, "recompute_config", "recompute", "offset", "num_layers", "moe_config", "context",
                             "select_recompute", "model_config", "data_parallel", "batch_size"]), inner, max_size=4),
        max_leaves=12,
    )
)  # fmt: skip
def test_any_document_is_imported_or_refused_with_a_reason(junk: Any) -> None:
    document = {**BASE, **junk} if isinstance(junk, dict) else {**BASE, "model": {"model_config": junk}}
    assert all(isinstance(reason, str) and reason for reason in import_mindformers(document).refused)

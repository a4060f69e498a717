"""What single arguments mean: the traps of the launch vocabulary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.importers.imported import Imported, ImportRefusedError, Notes
from cann_plan.importers.megatron import Options, import_megatron
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_pipeline import parse_layout
from cann_plan.importers.megatron_rows import plan_from_args
from cann_plan.spec.resolve import load_plan

BASE: dict[str, Any] = {
    "num-layers": 32, "hidden-size": 4096, "num-attention-heads": 32, "seq-length": 4096, "micro-batch-size": 1,
    "global-batch-size": 64, "vocab-size": 32000, "bf16": True, "position-embedding-type": "rope",
}  # fmt: skip
ASCEND = {"use-mcore-models": True, "use-flash-attn": True, "use-fused-rmsnorm": True}


def plan(devices: int = 8, **arguments: Any) -> dict[str, Any]:
    return imported(devices, **arguments).plan


def imported(devices: int = 8, **arguments: Any) -> Imported:
    return import_megatron({**BASE, **arguments}, Options(devices=devices))


def reported(result: Imported) -> dict[str, str]:
    return {item.argument: item.why for item in result.unknown}


@pytest.mark.parametrize(
    ("extra", "scope"),
    [
        ({}, "chunk"),
        ({"enable-recompute-layers-per-pp-rank": True}, "stage"),
    ],
)
def test_block_recompute_counts_layers_of_a_virtual_chunk(extra: dict[str, Any], scope: str) -> None:
    """--recompute-num-layers 2 with 4 chunks means 8 layers per rank, unless MindSpeed's switch makes it 2."""
    found = plan(
        **ASCEND, **extra,
        **{"pipeline-model-parallel-size": 2, "num-layers-per-virtual-pipeline-stage": 4, "recompute-granularity":
           "full", "recompute-method": "block", "recompute-num-layers": 2},
    )["parallel"]  # fmt: skip
    assert found["virtual_pipeline"] == 4
    assert found["recompute"] == {"policy": "full", "method": "block", "layers": 2, "scope": scope}


def test_block_recompute_without_chunks_counts_layers_of_a_stage() -> None:
    words = {"pipeline-model-parallel-size": 2, "recompute-granularity": "full", "recompute-method": "block",
             "recompute-num-layers": 2}  # fmt: skip
    assert plan(**words)["parallel"]["recompute"]["scope"] == "stage"


def test_a_method_without_granularity_recomputes_feed_forward_blocks_only_beside_swapped_attention() -> None:
    words = {"recompute-method": "block", "recompute-num-layers": 3}
    swapped = plan(**ASCEND, **words, **{"swap-attention": True})["parallel"]["recompute"]
    assert (swapped["policy"], swapped["modules"], swapped["layers"]) == ("selective", ["mlp"], 3)
    alone = imported(**ASCEND, **words)
    assert alone.plan["parallel"]["recompute"] == {"policy": "none"}
    assert any("do nothing" in text for text in alone.warnings)


def test_the_activation_function_alone_is_selective_and_beside_whole_layers_is_reported() -> None:
    alone = plan(**ASCEND, **{"recompute-activation-function": True, "recompute-activation-function-num-layers": 5})
    assert alone["parallel"]["recompute"]["modules"] == ["activation"]
    assert alone["parallel"]["recompute"]["layers"] == 5
    beside = imported(
        **ASCEND, **{"recompute-activation-function": True, "recompute-granularity": "full",
                     "recompute-method": "block", "recompute-num-layers": 4},
    )  # fmt: skip
    stated = beside.plan["parallel"]["recompute"].get("other_layers")
    assert stated == ["activation"] or "parallel.recompute.other_layers" in reported(beside)


@pytest.mark.parametrize(
    ("beside", "kind"),
    [({"context-parallel-algo": "ulysses_cp_algo"}, "ulysses"), ({"transformer-impl": "local"}, "ring"),
     ({"use-mc2": True, "sequence-parallel": True}, "ulysses")],
)  # fmt: skip
def test_the_default_of_context_parallelism_follows_the_version_and_is_said(beside: dict[str, Any], kind: str) -> None:
    result = imported(**ASCEND, **beside, **{"context-parallel-size": 2})
    assert result.plan["parallel"]["context_kind"] == kind
    stated = "context-parallel-algo" in beside
    assert any("default changed" in text for text in result.warnings) is not stated


def test_the_caller_may_state_the_default_of_context_parallelism() -> None:
    words = {**BASE, **ASCEND, "context-parallel-size": 2}
    result = import_megatron(words, Options(devices=8, context_kind="ulysses"))
    assert result.plan["parallel"]["context_kind"] == "ulysses"


@pytest.mark.parametrize(
    ("words", "padded", "tensor"),
    [
        ({"vocab-size": 50257}, 51200, 8),
        ({"vocab-size": 50257, "make-vocab-size-divisible-by": 1}, 50264, 8),
        ({"vocab-size": 151643, "padded-vocab-size": 151936}, 151936, 2),
        ({"vocab-size": 50257, "padded-vocab-size": 51200}, 51200, 8),
        ({"vocab-size": None, "tokenizer-type": "GPT2BPETokenizer"}, 57344, 64),
        ({"vocab-size": 131071, "tokenizer-type": "NullTokenizer"}, 131072, 1),
    ],
)
def test_the_padded_vocabulary_is_the_stated_one_or_a_multiple(words: dict[str, Any], padded: int, tensor: int) -> None:
    arguments = {key: value for key, value in {**BASE, **words}.items() if value is not None}
    arguments |= {"tensor-model-parallel-size": tensor, "num-attention-heads": 64}
    found = import_megatron(arguments, Options(devices=64)).plan
    step = found["software"]["vocabulary_multiple"] * tensor
    assert -(-found["model"]["vocabulary_size"] // step) * step == padded


@pytest.mark.parametrize(
    ("words", "width"),
    [({}, 16384), ({"swiglu": True}, 10880), ({"swiglu": True, "hidden-size": 5120}, 13632),
     ({"ffn-hidden-size": 11008}, 11008)],
)  # fmt: skip
def test_the_feed_forward_width_of_megatron(words: dict[str, Any], width: int) -> None:
    """4 x hidden, with SwiGLU two thirds of it in multiples of 64 (Megatron-LM validate_args)."""
    assert plan(**words)["model"]["ffn_hidden_size"] == width


def test_megatron_defaults_of_a_bare_gpt() -> None:
    words = {key: value for key, value in BASE.items() if key != "position-embedding-type"}
    model = import_megatron({**words, "max-position-embeddings": 2048}, Options(devices=8)).plan["model"]
    assert (model["norm"], model["bias"], model["tied_embeddings"], model["gated"]) == ("layernorm", True, True, False)
    assert (model["position"], model["position_table"], model.get("kv_heads")) == ("learned", 2048, None)


def test_query_groups_count_only_with_the_flag() -> None:
    assert plan(**{"num-query-groups": 8}).get("kv_heads") is None
    assert plan(**{"num-query-groups": 8, "group-query-attention": True})["model"]["kv_heads"] == 8
    assert plan(**{"group-query-attention": True})["model"]["kv_heads"] == 1


def test_experts_over_tensor_ranks() -> None:
    """--moe-tp-extend-ep spreads whole experts over tensor x expert ranks; Megatron-Core shards them by tensor."""
    moe = {"num-experts": 64, "moe-router-topk": 2, "tensor-model-parallel-size": 4, "expert-model-parallel-size": 8}
    extended = plan(64, **ASCEND, **moe, **{"moe-tp-extend-ep": True})["parallel"]
    assert (extended["expert"], extended["expert_tensor"]) == (32, 1)
    folded = plan(64, **moe)["parallel"]
    assert (folded["expert"], folded["expert_tensor"]) == (8, 4)
    assert "group_generator" not in folded


def test_stacks_and_their_rank_grids() -> None:
    legacy = plan(64, **{"use-fused-rmsnorm": True, "num-experts": 8, "expert-model-parallel-size": 8})
    assert legacy["software"]["stack"] == "mindspeed-legacy"
    assert legacy["parallel"]["group_generator"] == "nested"
    assert plan(**ASCEND)["software"]["stack"] == "mindspeed-mcore"
    assert plan(**{"checkpoint-activations": True, "use-fused-rmsnorm": True})["software"]["stack"] == "ascendspeed"
    assert plan()["software"]["stack"] == "megatron"


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ({"use-mc2": True}, "parallel.overlap.tensor", "mc2"),
        ({"use-ascend-coc": True}, "parallel.overlap.tensor", "coc"),
        ({"use-distributed-optimizer": True}, "parallel.zero_stage", 1),
        ({"use-torch-fsdp2": True}, "parallel.zero_stage", 3),
        ({"use-megatron-fsdp": True, "data-parallel-sharding-strategy": "optim_grads"}, "parallel.zero_stage", 2),
        ({"zero-stage": 2}, "parallel.zero_stage", 2),
        ({"fp8-format": "hybrid", "fp8-recipe": "mxfp8"}, "training.precision", "mxfp8"),
        ({"fp8-format": "e4m3", "fp8-recipe": "blockwise"}, "training.precision", "fp8_blockwise"),
        ({"grad-reduce-in-bf16": True}, "training.gradient_dtype", "bf16"),
        ({"exp-avg-dtype": "bf16", "exp-avg-sq-dtype": "bf16"}, "training.optimizer.state_dtype", "bf16"),
        ({"reuse-fp32-param": True}, "training.optimizer.reuse_master_weights", True),
        ({"reset-attention-mask": True}, "training.attention_mask", "document"),
        ({"attention-mask-type": "general"}, "training.attention_mask", "full"),
        ({"npu-deterministic": True}, "software.deterministic", True),
        ({"loss-compute-mode": "chunk"}, "software.loss.chunk", 1024),
        ({"train-samples": 1000}, "training.samples", 1000),
        ({"optimizer": "muon"}, "training.optimizer.name", "muon"),
        ({"squared-relu": True}, "model.activation", "relu2"),
        ({"sliding-window": 1024}, "model.window", 1024),
        ({"mtp-num-layers": 1}, "model.mtp_layers", 1),
    ],
)  # fmt: skip
def test_a_switch_and_its_key(words: dict[str, Any], path: str, value: Any) -> None:
    found: Any = plan(**ASCEND, **words)
    for step in path.split("."):
        found = found[step]
    assert found == value


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ({"swap-optimizer": True, "use-distributed-optimizer": True}, "parallel.offload.optimizer"),
        ({"swap-attention": True}, "parallel.offload.activations"),
        ({"tp-2d": True, "tp-x": 2, "tp-y": 2, "tensor-model-parallel-size": 4}, "parallel.tensor_grid"),
        ({"num-experts": 8, "moe-zero-memory": "level0"}, "software.moe.zero_memory"),
    ],
)
def test_a_switch_without_a_model_is_in_the_plan_or_reported(words: dict[str, Any], path: str) -> None:
    result = imported(**ASCEND, **words)
    found: Any = result.plan
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    assert (found is not None) != (path in reported(result))
    load_plan(result.plan)


def test_arguments_are_sorted_into_read_harmless_and_unknown() -> None:
    result = imported(**{"lr": "1e-4", "log-interval": 1, "save": "x", "use-quantum-gemm": True, "use-nanopipe": True})
    assert {item.argument for item in result.ignored} == {"lr", "log-interval", "save"}
    assert reported(result) == {
        "use-quantum-gemm": "nobody here knows this argument", "use-nanopipe": "bubble-filling schedule",
    }  # fmt: skip


def test_environment_and_script_placeholders() -> None:
    script = (
        "export HCCL_BUFFSIZE=120\nexport PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\nNNODES=1\n"
        "export ASCEND_LAUNCH_BLOCKING=1\nexport TASK_QUEUE_ENABLE=2\n"
        "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\\n"
        " --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 \\\n"
        " --vocab-size 32000 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --bf16 \\\n"
        " --use-mcore-models --use-flash-attn\n"
    )
    shipped = import_megatron(script)
    assert shipped.plan["cluster"]["devices"] == 32
    assert any("placeholder" in text for text in shipped.warnings)
    assert shipped.plan["memory"] == {"communicator_buffer_mib": 120, "expandable_segments": True}
    assert shipped.plan["software"]["launch_blocking"] is True
    assert "TASK_QUEUE_ENABLE" in reported(shipped)
    filled = import_megatron(script, Options(variables={"NNODES": "16"}))
    assert filled.plan["cluster"]["devices"] == 128
    assert filled.plan["parallel"]["data"] == 4
    assert not filled.warnings


def test_a_value_only_running_the_script_would_give_is_refused_by_name() -> None:
    script = "L=$(cat layers)\ntorchrun pretrain_gpt.py --num-layers $L --hidden-size 64 --num-attention-heads 4\n"
    assert any("--num-layers: $(cat layers)" in reason for reason in import_megatron(script).refused)


def test_a_command_in_a_string_and_arguments_without_a_command() -> None:
    body = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --vocab-size 512"
    wrapped = f'CMD="python -u train/pretrain_gpt.py {body}"\nsrun -n 1 bash -c "${{CMD}}"\n'
    assert import_megatron(wrapped).plan["model"]["layers"] == 2
    listed = import_megatron(f"MODEL_ARGS=({body})\n")
    assert listed.plan["model"]["layers"] == 2
    assert any("no command" in text for text in listed.warnings)


def test_linear_attention_of_qwen3_next_keeps_its_experts() -> None:
    """Qwen3-Next-80B-A3B: three gated delta layers, then one with full attention (its config.json)."""
    model = plan(
        **ASCEND,
        **{"num-experts": 512, "moe-router-topk": 10, "moe-ffn-hidden-size": 512, "mamba-d-conv": 4, "mamba-expand": 1,
           "linear-num-key-heads": 16, "linear-num-value-heads": 32, "linear-key-head-dim": 128,
           "linear-value-head-dim": 128, "num-layers": 8},
    )["model"]  # fmt: skip
    assert model["mixers"] == ["linear", "linear", "linear", "full"] * 2
    assert model["moe"]["experts"] == 512
    assert "state_space" not in model


@pytest.mark.parametrize(
    ("layout", "parts"),
    [
        ("Et*3|(tt|)*6tmL", [3, 2, 2, 2, 2, 2, 2, 1]),
        ("Et*7|t*7mL", [7, 7]),
        ("E|t*2,|ttL", [0, 2, 2]),
        ("Et*99999999999", None),
        ("Ext", None),
        ("(" * 1000 + "t", None),
    ],
)
def test_pipeline_layouts(layout: str, parts: list[int] | None) -> None:
    assert parse_layout(layout) == parts


@pytest.mark.parametrize(
    ("text", "value"),
    [("([0]*3+[1]*2)", [0, 0, 0, 1, 1]), ("2", 2), ("-1", -1), ("[1]*10**9", None), ("__import__('os')", None),
     ("[1]*99999999", None), ("[" * 1900, None), ("[0]*-5", [])],
)  # fmt: skip
def test_layer_patterns_are_lists_and_numbers_only(text: str, value: int | list[int] | None) -> None:
    notes = Notes()
    arguments = Arguments({"moe-layer-freq": (text,)}, notes)
    assert arguments.pattern("moe-layer-freq") == value
    assert bool(notes.refused) == (value is None)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.one_of(st.sampled_from([*BASE, "noop-layers", "num-layer-list", "pipeline-model-parallel-size",
                                   "num-layers-per-virtual-pipeline-stage", "pipeline-model-parallel-layout",
                                   "moe-layer-freq", "num-experts", "context-parallel-size", "tp-2d", "lora-r"]),
                  st.text(max_size=8)),
        st.one_of(st.none(), st.booleans(), st.integers(-3, 10**12), st.floats(), st.text(max_size=12)),
        max_size=8,
    )
)  # fmt: skip
def test_any_mapping_is_imported_or_refused_with_a_reason(junk: dict[str, Any]) -> None:
    result = import_megatron({**BASE, **junk})
    assert all(isinstance(reason, str) and reason for reason in result.refused)


def test_rows_with_arguments() -> None:
    row = {"id": "r", "hardware": "dev_dgx_h100", "devices": 8, "vocab": 50257, "framework": "Megatron-LM"}
    words = {key: value for key, value in BASE.items() if key != "vocab-size"}
    found = plan_from_args({**words, "tensor-model-parallel-size": 2, "pipeline-model-parallel-size": 2}, row)
    assert found["cluster"]["device"] == "h100-80g-sxm"
    assert found["parallel"]["data"] == 2
    load_plan(found)
    with pytest.raises(ImportRefusedError, match="vision"):
        plan_from_args({**BASE, "img-h": 336}, row)

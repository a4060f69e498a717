"""DeepSpeed configurations import by DeepSpeed's batch arithmetic and ZeRO stages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.importers.deepspeed import Options, import_deepspeed
from cann_plan.spec.resolve import load_plan

CONFIG: dict[str, Any] = {
    "train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8},
    "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "gradient_clipping": 1.0,
}  # fmt: skip
MODEL = Options(model="llama-2-7b", sequence_length=4096)


def plan(options: Options = MODEL, **changes: Any) -> dict[str, Any]:
    return import_deepspeed({**CONFIG, **changes}, options).plan


def test_a_configuration_becomes_a_plan_that_loads() -> None:
    found = plan()
    assert found["cluster"]["devices"] == 512 // (4 * 2)
    assert found["parallel"]["zero_stage"] == 3
    assert found["parallel"]["overlap"] == {"grad_reduce": True, "param_gather": True}
    assert (found["training"]["precision"], found["training"]["optimizer"]["name"]) == ("bf16", "adamw")
    assert load_plan(found).hardware.devices == 64


def test_text_and_mapping_say_the_same() -> None:
    assert import_deepspeed(json.dumps(CONFIG), MODEL).plan == plan()


@pytest.mark.parametrize(
    ("changes", "options", "devices", "micro", "batch"),
    [
        ({"gradient_accumulation_steps": "auto"}, Options("llama-2-7b", devices=64), 64, 4, 512),
        ({"train_micro_batch_size_per_gpu": "auto"}, Options("llama-2-7b", devices=64), 64, 4, 512),
        ({"train_batch_size": "auto"}, Options("llama-2-7b", devices=16), 16, 4, 128),
        ({"train_batch_size": "auto"}, MODEL, None, 4, None),
    ],
)
def test_train_batch_is_micro_batch_x_accumulation_x_devices(
    changes: dict[str, Any], options: Options, devices: int | None, micro: int, batch: int | None
) -> None:
    found = plan(options, **changes)
    assert found["cluster"].get("devices") == devices
    assert found["parallel"]["micro_batch_size"] == micro
    assert found["training"].get("global_batch_size") == batch


def test_offload_is_in_the_plan_or_reported() -> None:
    zero = {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "offload_param": {"device": "nvme"}}
    imported = import_deepspeed({**CONFIG, "zero_optimization": zero}, MODEL)
    offload = imported.plan["parallel"].get("offload", {})
    reported = {item.argument: item.value for item in imported.unknown}
    assert offload.get("optimizer", reported.get("parallel.offload.optimizer")) == 0.5
    assert offload.get("parameters", reported.get("parallel.offload.parameters")) == 1.0


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        ({"bf16": {"enabled": False}, "fp16": {"enabled": True}}, ("training", "precision"), "fp16"),
        ({"bf16": {"enabled": False}}, ("training", "precision"), "fp32"),
        ({"data_types": {"grad_accum_dtype": "fp32"}}, ("training", "gradient_dtype"), "fp32"),
        ({"zero_optimization": {"stage": 1}}, ("parallel", "zero_stage"), 1),
        ({"zero_optimization": {"stage": 3, "mics_shard_size": 8}}, ("parallel", "shard_group"), 8),
        ({"activation_checkpointing": {"partition_activations": False}}, ("parallel", "recompute"), {"policy": "full"}),
        ({}, ("parallel", "recompute"), {"policy": "none"}),
    ],
)
def test_a_key_and_its_place_in_the_plan(changes: dict[str, Any], path: tuple[str, str], value: Any) -> None:
    assert plan(**changes)[path[0]][path[1]] == value


def test_the_model_must_be_given() -> None:
    assert any("--model" in reason for reason in import_deepspeed(CONFIG).refused)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*CONFIG, "fp16", "activation_checkpointing", "data_types", "x"]),
        st.none() | st.booleans() | st.integers(-3, 10**9) | st.floats() | st.text(max_size=4)
        | st.dictionaries(st.sampled_from(["stage", "enabled", "device", "offload_optimizer", "type"]),
                          st.none() | st.integers(-2, 9) | st.text(max_size=4) | st.floats(), max_size=3),
        max_size=5,
    )
)  # fmt: skip
def test_any_document_is_imported_or_refused_with_a_reason(junk: dict[str, Any]) -> None:
    assert all(isinstance(reason, str) and reason for reason in import_deepspeed({**CONFIG, **junk}, MODEL).refused)

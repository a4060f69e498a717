"""The operators a layer is walked into do the FLOPs that the closed form of its kind counts."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from cann_plan.hardware.attention import attention_pairs
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.presets import root
from cann_plan.workload.build import build_architecture
from cann_plan.workload.flops import layer_flops_per_token
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.operator import CoreAttention, Gemm, GroupedGemm, Operator
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

SEQUENCE = 4096
NAMES = (
    "gpt3-175b", "llama-2-70b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3", "deepseek-v3.2", "falcon-40b",
    "gemma-3-27b", "gemma-4-26b-a4b", "gpt-oss-120b", "qwen3.5-35b-a3b", "nemotron-3-super-120b-a12b", "bert-large",
    "llama-4-maverick", "pangu-ultra-moe-718b",
)  # fmt: skip


def forward_flops(operators: list[Operator]) -> float:
    total = 0.0
    for operator in operators:
        work = operator.work
        if isinstance(work, Gemm):
            total += float(np.sum(2.0 * work.m * work.n * work.k * work.batch))
        elif isinstance(work, GroupedGemm):
            total += float(np.sum(2.0 * work.tokens * work.n * work.k))
        elif isinstance(work, CoreAttention):
            pairs = attention_pairs(work.q_length, work.kv_length, work.causal, work.window or 0)
            total += float(np.sum(2.0 * work.batch * work.heads * pairs * (work.head_dim + work.v_head_dim)))
    return total


@pytest.mark.parametrize("name", NAMES)
def test_operators_do_the_flops_of_the_closed_form(name: str) -> None:
    text = root().joinpath("models", f"{name}.yaml").read_text(encoding="utf-8")
    arch = build_architecture(ModelSpec(**yaml.safe_load(text)))
    one = np.ones(1)
    rows = LayerRows(one, one, np.zeros(1, dtype=np.int64), one, one, one, one, one)
    settings = LayerSettings(sequence_length=SEQUENCE, hidden=arch.hidden, causal=not arch.encoder)
    for kind in arch.kinds:
        closed = layer_flops_per_token(arch, kind, SEQUENCE, causal=not arch.encoder)[0] * SEQUENCE
        # the walk counts the causal diagonal and the chunked scan of a state-space layer, the closed form does not
        assert forward_flops(layer_operators(kind, rows, settings)) == pytest.approx(closed, rel=0.02)

"""Parameter counts against closed forms of the papers, and how they split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.spec.model import ModelSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.build import build_architecture
from cann_plan.workload.parameters import padded_vocabulary, parameter_counts


def build(**keys: Any) -> Architecture:
    return build_architecture(ModelSpec(**keys))


def gpt(layers: int, hidden: int, heads: int, vocabulary: int = 51200, positions: int = 2048) -> Architecture:
    return build(
        layers=layers, hidden_size=hidden, heads=heads, ffn_hidden_size=4 * hidden, vocabulary_size=vocabulary,
        gated=False, activation="gelu", norm="layernorm", bias=True, position="learned", position_table=positions,
        tied_embeddings=True,
    )  # fmt: skip


# arXiv 2104.04473 (Narayanan et al. 2021), table 1: billions of parameters, layers, hidden size, heads
TABLE_1 = [
    (1.7, 24, 2304, 24), (3.6, 30, 3072, 32), (7.5, 36, 4096, 32), (18.4, 40, 6144, 48), (39.1, 48, 8192, 64),
    (76.1, 60, 10240, 80), (145.6, 80, 12288, 96), (310.1, 96, 16384, 128), (529.6, 105, 20480, 128),
    (1008.0, 128, 25600, 160),
]  # fmt: skip


@pytest.mark.parametrize(("billions", "layers", "hidden", "heads"), TABLE_1)
def test_gpt_has_the_parameters_of_the_megatron_table(billions: float, layers: int, hidden: int, heads: int) -> None:
    total = parameter_counts(gpt(layers, hidden, heads)).total
    assert round(total / 1e9, 1) == billions


@pytest.mark.parametrize(("layers", "hidden"), [(row[1], row[2]) for row in TABLE_1])
def test_gpt_follows_equation_2_of_the_paper(layers: int, hidden: int) -> None:
    # P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)), which leaves the final norm of 2 h out
    paper = 12 * layers * hidden * hidden + 13 * layers * hidden + (51200 + 2048) * hidden
    assert parameter_counts(gpt(layers, hidden, 1)).total == paper + 2 * hidden


def test_mixture_splits_into_what_all_tokens_use_and_routed_experts() -> None:
    keys: dict[str, Any] = {"layers": 4, "hidden_size": 64, "heads": 4, "vocabulary_size": 100, "ffn_hidden_size": 128}
    moe = {"experts": 8, "top_k": 2, "hidden_size": 32, "shared_experts": 1, "leading_dense_layers": 1}
    counts = parameter_counts(build(**keys, moe=moe))
    expert = 3 * 64 * 32
    assert counts.routed == 3 * 8 * expert
    assert counts.total - counts.active == 3 * (8 - 2) * expert
    dense, mixture = counts.layers
    assert dense.routed == 0
    assert mixture.routed == 8 * expert
    assert mixture.ffn == expert + 64 * 8  # shared expert and router


def test_parts_sum_to_the_total() -> None:
    arch = gpt(6, 64, 4, vocabulary=1000, positions=32)
    counts = parameter_counts(arch)
    layers = sum(counts.layers[kind].total for kind in arch.sequence)
    assert counts.embedding + counts.embedding_extra + counts.head + counts.final + layers == counts.total
    assert counts.head == 0  # tied


def test_latent_attention_compresses_keys_and_values() -> None:
    # DeepSeek-V3, arXiv 2412.19437 section 4.2: 187.1 M parameters of attention per layer
    mla = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    arch = build(layers=1, hidden_size=7168, heads=128, vocabulary_size=1, ffn_hidden_size=1, mla=mla)
    down = 7168 * (1536 + 512 + 64)
    up = 1536 * 128 * 192 + 512 * 128 * 256
    layer = parameter_counts(arch).layers[0]
    assert layer.mixer == down + up + 128 * 128 * 7168 + 1536 + 512
    assert layer.replicated == down + 1536 + 512 + 2 * 7168


def test_padding_of_the_vocabulary() -> None:
    # Megatron-LM: a multiple of 128 x tensor_parallel
    np.testing.assert_array_equal(padded_vocabulary(50257, [1, 8, 64]), [50304, 51200, 57344])
    np.testing.assert_array_equal(padded_vocabulary([32000, 128256], 8), [32768, 129024])
    assert padded_vocabulary(50257, 4, multiple=1)[0] == 50260


@given(st.integers(1, 300_000), st.integers(1, 64))
def test_padded_vocabulary_is_the_least_multiple(vocabulary: int, tensor: int) -> None:
    padded = int(padded_vocabulary(vocabulary, tensor)[0])
    assert padded % (128 * tensor) == 0
    assert vocabulary <= padded < vocabulary + 128 * tensor


@given(
    st.integers(1, 6), st.sampled_from([1, 2, 4]), st.sampled_from([8, 16]), st.booleans(),
    st.sampled_from(["none", "head", "full"]),
)  # fmt: skip
def test_replicated_part_never_exceeds_what_a_layer_has(
    layers: int, kv_heads: int, head_dim: int, bias: bool, qk_norm: str
) -> None:
    arch = build(
        layers=layers, hidden_size=64, heads=4, kv_heads=kv_heads, head_dim=head_dim, ffn_hidden_size=96,
        vocabulary_size=10, bias=bias, qk_norm=qk_norm,
    )  # fmt: skip
    for layer in parameter_counts(arch).layers:
        assert 0 < layer.replicated < layer.dense
        assert layer.key_value < layer.mixer
        assert layer.matmul <= layer.active

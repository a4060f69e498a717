"""Model FLOPs against the closed forms of the papers that define each convention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.spec.model import ModelSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.build import build_architecture
from cann_plan.workload.flops import (
    CONVENTIONS,
    attended_keys,
    attention_flops_per_token,
    forward_flops_per_token,
    model_flops_per_token,
    mtp_flops_per_token,
)
from cann_plan.workload.parameters import parameter_counts


def build(**keys: Any) -> Architecture:
    defaults: dict[str, Any] = {"layers": 8, "hidden_size": 512, "heads": 8, "vocabulary_size": 4000}
    return build_architecture(ModelSpec(**(defaults | {"ffn_hidden_size": 2048} | keys)))


def gpt(layers: int, hidden: int, vocabulary: int) -> Architecture:
    return build(
        layers=layers, hidden_size=hidden, ffn_hidden_size=4 * hidden, vocabulary_size=vocabulary, gated=False,
        bias=True, norm="layernorm", position="learned", position_table=2048, tied_embeddings=True,
    )  # fmt: skip


@given(st.integers(1, 128), st.integers(1, 32), st.integers(1000, 60000), st.integers(128, 32768))
def test_narayanan_convention_is_equation_3_of_the_paper(layers: int, width: int, vocabulary: int, s: int) -> None:
    h = 512 * width
    paper = 96 * layers * h * h * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    result = model_flops_per_token(gpt(layers, h, vocabulary), s, "narayanan_2021")
    np.testing.assert_allclose(result, paper, rtol=1e-12)


def test_full_attention_over_causal_attention() -> None:
    # attention is 4 s h per token and layer beside 24 h^2, half of it under a causal mask
    h = 4096
    arch = gpt(32, h, 1)
    s = np.array([4096.0, 32768.0])
    ratio = model_flops_per_token(arch, s, "full_attention") / model_flops_per_token(arch, s, "model")
    np.testing.assert_allclose(ratio, (24 + 4 * s / h) / (24 + 2 * s / h), rtol=1e-6)
    assert np.round(ratio, 2).tolist() == [1.08, 1.40]


def test_palm_convention_is_appendix_b() -> None:
    # arXiv 2204.02311 appendix B: 6 N + 12 L H Q T
    arch = build(head_dim=256)
    expected = 6 * parameter_counts(arch).total + 12 * 8 * 8 * 256 * 1024
    assert model_flops_per_token(arch, 1024, "palm")[0] == expected


def test_six_n_takes_active_parameters() -> None:
    arch = build(moe={"experts": 8, "top_k": 2, "hidden_size": 256})
    assert model_flops_per_token(arch, 1024, "6n")[0] == 6 * parameter_counts(arch).active


def test_mixture_counts_the_experts_a_token_visits() -> None:
    dense = build(ffn_hidden_size=1024)
    routed = build(moe={"experts": 16, "top_k": 2, "hidden_size": 512})
    router = 2 * 8 * 512 * 16
    assert forward_flops_per_token(routed, 1024)[0] - forward_flops_per_token(dense, 1024)[0] == router


def test_attended_keys_of_windows_and_chunks() -> None:
    s = 1000
    exact_window = np.minimum(np.arange(s) + 0.5, 100).mean()
    np.testing.assert_allclose(attended_keys(s, window=100), exact_window, rtol=1e-3)
    exact_chunk = ((np.arange(s) % 300) + 0.5).mean()
    np.testing.assert_allclose(attended_keys(s, chunk=300), exact_chunk, rtol=1e-12)
    np.testing.assert_array_equal(attended_keys([64, 128], window=128), [32, 64])


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_a_window_never_adds_keys(s: int, window: int) -> None:
    for causal in (True, False):
        limited = attended_keys(s, window, causal=causal)[0]
        assert limited <= attended_keys(s, causal=causal)[0]
        assert limited <= window
        assert attended_keys(s, chunk=window, causal=causal)[0] <= attended_keys(s, causal=causal)[0]


def test_sparse_attention_reads_its_choice_and_scores_everything() -> None:
    mla: dict[str, Any] = {"kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32}
    index = {"index_heads": 4, "index_head_dim": 16, "index_top_k": 256}
    full, sparse = build(mla=mla), build(mla=mla | index)
    s = np.array([128.0, 8192.0])
    core = attention_flops_per_token(full.kinds[0].mixer, s)
    chosen = attention_flops_per_token(sparse.kinds[0].mixer, s)
    scores = 2 * 4 * 16 * s / 2
    np.testing.assert_allclose(chosen[0], core[0] + scores[0])
    np.testing.assert_allclose(chosen[1], 2 * 8 * (32 + 16 + 32) * (256 - 256**2 / (2 * 8192)) + scores[1])


def test_recurrent_mixers_do_not_grow_with_the_sequence() -> None:
    linear = {"key_heads": 4, "value_heads": 8, "key_head_dim": 32, "value_head_dim": 32}
    state = {"heads": 16, "head_dim": 64, "state_size": 128}
    arch = build(mixers=["linear", "state_space"], linear_attention=linear, state_space=state)
    short, long = forward_flops_per_token(arch, [1024, 65536])
    assert short == long


def test_encoder_sees_the_whole_sequence() -> None:
    arch = build(encoder=True)
    causal, full = model_flops_per_token(arch, 512), model_flops_per_token(arch, 512, "full_attention")
    assert causal[0] == full[0]


def test_prediction_modules_are_added_on_demand() -> None:
    arch = build(mtp_layers=1)
    added = mtp_flops_per_token(arch, 1024)
    assert added[0] > forward_flops_per_token(build(layers=1), 1024)[0]
    difference = model_flops_per_token(arch, 1024, mtp=True) - model_flops_per_token(arch, 1024)
    np.testing.assert_allclose(difference, 3 * added)
    assert mtp_flops_per_token(build(), 1024)[0] == 0.0


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_many_lengths_at_once_equal_one_by_one(convention: str) -> None:
    arch = build(kv_heads=2, window=256, mixers=["sliding", "full"], moe={"experts": 4, "top_k": 1, "hidden_size": 64})
    lengths = np.arange(1, 4000, 37)
    together = model_flops_per_token(arch, lengths, convention)
    single = np.concatenate([model_flops_per_token(arch, int(s), convention) for s in lengths])
    assert together.tobytes() == single.tobytes()


def test_unknown_convention_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed: model, full_attention"):
        model_flops_per_token(build(), 1, "mfu")

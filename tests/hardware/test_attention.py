"""Attention: counted pairs, physical bounds, measured points of kernel generations, the unfused composition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.hardware.attention import (
    UNFUSED_PASSES,
    attention_flops,
    attention_outside_validity,
    attention_pairs,
    attention_seconds,
    unfused_attention_seconds,
)
from cann_plan.hardware.decode import decode_attention_seconds
from cann_plan.hardware.gemm import gemm_seconds
from cann_plan.hardware.vector import vector_seconds

from .devices import DEVICES, PAIRS

HALF = [(family, dtype) for family, dtype in PAIRS if dtype in ("bf16", "fp16")]
relaxed = settings(max_examples=150, deadline=None)
lengths = st.integers(1, 32768)


@relaxed
@given(st.integers(1, 60), st.integers(1, 60), st.booleans(), st.integers(0, 70))
def test_pairs_equal_the_mask_counted_entry_by_entry(q: int, kv: int, causal: bool, window: int) -> None:
    count = 0
    for i in range(q):
        last = kv - q + i if causal else kv - 1
        visible = max(last + 1, 0)
        count += min(visible, window) if window else visible
    assert attention_pairs(q, kv, causal, window)[0] == count


def test_backward_has_two_and_a_half_times_the_flops_of_forward() -> None:
    """Dao 2023 (FlashAttention-2), section 4.1: five products against two, at equal key and value width."""
    assert attention_flops("backward", 2, 8, 100.0, 128)[0] == 2.5 * attention_flops("forward", 2, 8, 100.0, 128)[0]


@relaxed
@given(
    st.sampled_from(HALF),
    st.sampled_from(["forward", "backward"]),
    st.integers(1, 16),
    st.integers(1, 128),
    lengths,
    st.sampled_from([32, 64, 96, 128, 192, 256]),
    st.booleans(),
    st.floats(0.2, 50.0),
)
def test_never_faster_than_peak_or_bandwidth(
    pair: tuple[str, str], phase: str, batch: int, heads: int, length: int, dim: int, causal: bool, rate: float
) -> None:
    family, dtype = pair
    machine = DEVICES[family]
    for kernel in machine.operators.attention:
        seconds = attention_seconds(
            machine, kernel, phase, batch, heads, 1, length, length, dim, causal=causal, dtype=dtype, rate=rate
        )[0]
        flops = attention_flops(phase, batch, heads, attention_pairs(length, length, causal), dim)[0]
        assert seconds >= flops / machine.peak(dtype) * (1.0 - 1e-12)
        assert seconds >= 2.0 * 2.0 * batch * heads * length * dim / machine.memory_bandwidth * (1.0 - 1e-12)


@relaxed
@given(st.sampled_from(HALF), st.integers(1, 64), lengths, st.booleans())
def test_more_heads_are_not_slower_per_flop_and_longer_is_not_quicker(
    pair: tuple[str, str], heads: int, length: int, causal: bool
) -> None:
    family, dtype = pair
    machine = DEVICES[family]
    kernel = machine.operators.default_attention

    def seconds(count: int, size: int) -> float:
        shape = (1, count, count, size, size, 128)
        return float(attention_seconds(machine, kernel, "forward", *shape, causal=causal, dtype=dtype)[0])

    assert seconds(2 * heads, length) <= 2.0 * seconds(heads, length) * (1.0 + 1e-12)
    assert seconds(heads, length + 128) >= seconds(heads, length) * (1.0 - 1e-12)


@relaxed
@given(
    st.sampled_from(HALF),
    st.sampled_from(["forward", "backward"]),
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 64), lengths, lengths, st.booleans()), min_size=2, max_size=30
    ),
)
def test_a_batch_equals_one_by_one_to_the_bit(
    pair: tuple[str, str], phase: str, shapes: list[tuple[int, int, int, int, bool]]
) -> None:
    family, dtype = pair
    machine = DEVICES[family]
    kernel = machine.operators.default_attention
    batch, heads, q, window, causal = (np.array(column) for column in zip(*shapes, strict=True))
    many = attention_seconds(
        machine, kernel, phase, batch, heads, heads, q, q, 128, causal=causal, window=window, dtype=dtype
    )
    for i, (b, h, s, w, c) in enumerate(shapes):
        one = attention_seconds(machine, kernel, phase, b, h, h, s, s, 128, causal=c, window=w, dtype=dtype)
        assert one[0] == many[i]


# Prefill tables of aiconfigurator (repository 095f58a51), 32 query and 8 key/value heads, causal, and of
# aiconfigurator-npu (commit 90d7765): microseconds.
PREFILL = [
    ("a100", "flash-v2", 1, 2048, 272.92),
    ("a100", "flash-v2", 4, 4096, 3395.85),
    ("h100", "flash-v3-paged", 1, 2048, 89.0),
    ("h100", "flash-v3-paged", 1, 8192, 912.22),
    ("h100", "flash-v3-paged", 4, 4096, 1011.02),
    ("ascend-a3-die", "ascend-fia", 1, 2048, 381.72),
    ("ascend-a3-die", "ascend-fia", 1, 8192, 3768.86),
    ("ascend-a3-die", "ascend-fia", 4, 4096, 4348.06),
]


@pytest.mark.parametrize(("family", "kernel", "batch", "length", "microseconds"), PREFILL)
def test_measured_prefill_is_met_within_the_stated_residual(
    family: str, kernel: str, batch: int, length: int, microseconds: float
) -> None:
    machine = DEVICES[family]
    p90 = machine.operators.attention[kernel].provenance.p90
    assert p90 is not None
    predicted = attention_seconds(machine, kernel, "forward", batch, 32, 8, length, length, 128)[0] * 1e6
    assert predicted == pytest.approx(microseconds, rel=p90)


# Shah et al. 2024 (FlashAttention-3), figures 5 and 6: TFLOP/s on an H100, 16k tokens, hidden 2048.
GENERATIONS = [
    ("flash-v2", "forward", True, 128, 8192, 333.0),
    ("cudnn", "forward", True, 128, 8192, 529.0),
    ("flash-v3", "forward", True, 128, 8192, 602.0),
    ("flash-v3", "forward", False, 64, 4096, 476.0),
    ("flash-v2", "backward", False, 128, 8192, 318.0),
    ("cudnn", "backward", False, 128, 8192, 518.0),
    ("flash-v3", "backward", False, 128, 8192, 559.0),
    ("flash-v3", "backward", False, 64, 2048, 422.0),
]


@pytest.mark.parametrize(("kernel", "phase", "causal", "dim", "length", "tflops"), GENERATIONS)
def test_kernel_generations_reach_their_published_rates(
    kernel: str, phase: str, causal: bool, dim: int, length: int, tflops: float
) -> None:
    batch, heads = 16384 // length, 2048 // dim
    seconds = attention_seconds(
        DEVICES["h100"], kernel, phase, batch, heads, heads, length, length, dim, causal=causal
    )[0]
    flops = 4.0 * batch * heads * length * length * dim * (0.5 if causal else 1.0)
    flops *= 2.5 if phase == "backward" else 1.0
    assert flops / seconds / 1e12 == pytest.approx(tflops, rel=0.13)


def test_training_attention_of_a_910b_meets_the_measured_kernels() -> None:
    """Median FlashAttentionScore 406.6 us and gradient 759.7 us: length 4096, batch 2, 4 heads, 20 cores at 1.8 GHz."""
    from dataclasses import replace

    part = replace(DEVICES["ascend-910b"], peak_flops={"bf16": 294.9e12})
    shape = (2, 4, 4, 4096, 4096, 128)
    forward = attention_seconds(part, "ascend-fusion", "forward", *shape)[0] * 1e6
    backward = attention_seconds(part, "ascend-fusion", "backward", *shape)[0] * 1e6
    assert forward == pytest.approx(406.6, rel=0.01)
    assert backward == pytest.approx(759.7, rel=0.01)


def test_serving_prefill_with_four_heads_on_an_a3_die_was_not_fitted_and_is_met() -> None:
    """FusedInferAttentionScore, Qwen3-32B at tensor parallel 16: six requests of 4104 tokens, 780 us."""
    die = DEVICES["ascend-a3-die"]
    p90 = die.operators.attention["ascend-fia"].provenance.p90
    assert p90 is not None
    seconds = attention_seconds(die, "ascend-fia", "forward", 6, 4, 1, 4104, 4104, 128)[0]
    assert seconds * 1e6 == pytest.approx(780.06, rel=p90)


def test_unfused_attention_is_its_products_plus_its_passes() -> None:
    machine = DEVICES["a100"]
    batch, heads, s, d = 4, 12, 2048, 96
    products = gemm_seconds(machine, "bf16", s, s, d, batch=batch * heads)
    products = products + gemm_seconds(machine, "bf16", s, d, s, batch=batch * heads)
    passes = vector_seconds(machine, UNFUSED_PASSES["forward"] * 2.0 * batch * heads * s * s, 4.0)
    actual = unfused_attention_seconds(machine, "forward", batch, heads, s, s, d)
    np.testing.assert_allclose(actual, products + passes, rtol=1e-12)


def test_fused_attention_beats_the_unfused_composition_on_long_sequences() -> None:
    for family in ("a100", "h100", "ascend-910b"):
        machine = DEVICES[family]
        kernel = machine.operators.default_attention
        for phase in ("forward", "backward"):
            fused = attention_seconds(machine, kernel, phase, 1, 16, 16, 8192, 8192, 128)
            assert fused[0] < unfused_attention_seconds(machine, phase, 1, 16, 8192, 8192, 128)[0]


def test_a_sliding_window_saves_in_proportion_to_its_pairs() -> None:
    machine = DEVICES["h100"]
    full = attention_seconds(machine, "flash-v3", "forward", 1, 32, 8, 32768, 32768, 128)[0]
    window = attention_seconds(machine, "flash-v3", "forward", 1, 32, 8, 32768, 32768, 128, window=4096)[0]
    pairs = attention_pairs(32768, 32768, True)[0] / attention_pairs(32768, 32768, True, 4096)[0]
    assert full / window == pytest.approx(pairs, rel=0.1)


def test_a_kernel_that_was_not_measured_is_told() -> None:
    machine = DEVICES["a100"]
    assert not attention_outside_validity(machine, "flash-v2", 1, 32, 4096, 128)[0]
    assert attention_outside_validity(machine, "cudnn", 1, 32, 4096, 128)[0]
    assert attention_outside_validity(machine, "flash-v2", 1, 32, 10**6, 128)[0]


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed: forward, backward"):
        attention_seconds(DEVICES["h100"], "cudnn", "sideways", 1, 1, 1, 128, 128, 128)
    with pytest.raises(ValueError, match="allowed: forward, backward"):
        unfused_attention_seconds(DEVICES["h100"], "sideways", 1, 1, 128, 128, 128)


@relaxed
@given(st.sampled_from(sorted(DEVICES)), st.integers(1, 256), st.integers(1, 64), st.integers(1, 131072))
def test_decode_never_reads_the_cache_faster_than_memory(family: str, batch: int, heads: int, context: int) -> None:
    machine = DEVICES[family]
    seconds = decode_attention_seconds(machine, batch, heads, context, 512.0)[0]
    assert seconds >= batch * heads * context * 512.0 / machine.memory_bandwidth
    assert decode_attention_seconds(machine, batch, heads, context + 1, 512.0)[0] >= seconds

"""Matrix products: physical bounds, shape monotonicity, batch independence, measured points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.hardware.device import UnsupportedPrecision
from cann_plan.hardware.gemm import (
    CAST_BYTES,
    gemm_outside_validity,
    gemm_seconds,
    grouped_gemm_outside_validity,
    grouped_gemm_seconds,
)
from cann_plan.hardware.operator_model import ELEMENT_BYTES

from .devices import DEVICES, PAIRS

sizes = st.integers(min_value=1, max_value=65536)
pairs = st.sampled_from(PAIRS)
relaxed = settings(max_examples=150, deadline=None)

# Measured microseconds: aiconfigurator operator tables (repository 095f58a51; H100 and H200 TensorRT-LLM 1.3.0rc20,
# A100 vLLM 0.14, B200 vLLM 0.24) and aiconfigurator-npu (commit 90d7765; one die of Atlas 800 A3).
MEASURED = [
    ("a100", "bf16", 8192, 4096, 4096, 1108.475),
    ("a100", "bf16", 4096, 12288, 4096, 1517.258),
    ("a100", "bf16", 16, 8192, 8192, 100.637),
    ("h100", "bf16", 8192, 8192, 8192, 1404.784),
    ("h100", "bf16", 2048, 4096, 4096, 87.957),
    ("h100", "bf16", 16, 8192, 8192, 49.829),
    ("h100", "fp8", 8192, 8192, 8192, 884.912),
    ("h100", "fp8", 8192, 1024, 8192, 266.924),
    ("h100", "fp8", 16, 8192, 8192, 37.707),
    ("h200", "bf16", 4096, 12288, 4096, 569.525),
    ("h200", "fp8", 2048, 4096, 4096, 76.544),
    ("b200", "bf16", 8192, 4096, 4096, 163.401),
    ("b200", "bf16", 2048, 4096, 4096, 44.721),
    ("ascend-a3-die", "bf16", 8192, 8192, 8192, 3527.71),
    ("ascend-a3-die", "bf16", 4096, 12288, 4096, 1326.12),
    ("ascend-a3-die", "int8", 4096, 12288, 4096, 772.57),
]


@pytest.mark.parametrize(("family", "dtype", "m", "n", "k", "microseconds"), MEASURED)
def test_measured_products_are_met_within_the_stated_residual(
    family: str, dtype: str, m: int, n: int, k: int, microseconds: float
) -> None:
    p90 = DEVICES[family].operators.gemm[dtype].provenance.p90
    assert p90 is not None
    predicted = gemm_seconds(DEVICES[family], dtype, m, n, k)[0] * 1e6
    assert predicted == pytest.approx(microseconds, rel=p90)


# Training kernels of two 910B parts (mstt profiler data, not fitted): 24 cores at 1.85 GHz fp16, 363.7 TFLOP/s.
@pytest.mark.parametrize(
    ("m", "n", "k", "microseconds"),
    [(4096, 4608, 12288, 1475.0), (4096, 12288, 1536, 496.0), (4096, 6144, 12288, 2048.0), (4096, 12288, 6144, 1981.0)],
)
def test_training_products_of_a_910b_are_met_by_constants_of_the_a3_die(
    m: int, n: int, k: int, microseconds: float
) -> None:
    from dataclasses import replace

    part = replace(DEVICES["ascend-910b"], peak_flops={"fp16": 363.7e12})
    assert gemm_seconds(part, "fp16", m, n, k)[0] * 1e6 == pytest.approx(microseconds, rel=0.06)


@relaxed
@given(pairs, sizes, sizes, sizes, st.integers(1, 64), st.floats(0.1, 50.0))
def test_never_faster_than_peak_or_bandwidth(
    pair: tuple[str, str], m: int, n: int, k: int, batch: int, rate: float
) -> None:
    family, dtype = pair
    machine = DEVICES[family]
    seconds = gemm_seconds(machine, dtype, m, n, k, batch=batch, rate=rate)[0]
    assert seconds >= 2.0 * batch * m * n * k / machine.peak(dtype)
    moved = batch * (ELEMENT_BYTES[dtype] * (m * k + n * k) + 2.0 * m * n)
    assert seconds >= moved / machine.memory_bandwidth


@relaxed
@given(pairs, sizes, sizes, sizes, st.integers(1, 4096), st.sampled_from("mnk"))
def test_a_larger_product_never_takes_less_time(
    pair: tuple[str, str], m: int, n: int, k: int, steps: int, axis: str
) -> None:
    family, dtype = pair
    shape = {"m": m, "n": 8 * n, "k": 8 * k}  # on the aligned fast path; leaving it may cost more than it adds
    larger = shape | {axis: shape[axis] + 8 * steps}
    small = gemm_seconds(DEVICES[family], dtype, **shape)[0]
    assert gemm_seconds(DEVICES[family], dtype, **larger)[0] >= small * (1.0 - 1e-12)


@relaxed
@given(pairs, st.lists(st.tuples(sizes, sizes, sizes, st.integers(1, 8)), min_size=2, max_size=40))
def test_a_batch_equals_one_by_one_to_the_bit(pair: tuple[str, str], shapes: list[tuple[int, int, int, int]]) -> None:
    family, dtype = pair
    m, n, k, b = (np.array(column) for column in zip(*shapes, strict=True))
    many = gemm_seconds(DEVICES[family], dtype, m, n, k, batch=b)
    grouped = grouped_gemm_seconds(DEVICES[family], dtype, b, m, n, k)
    for i, (mi, ni, ki, bi) in enumerate(shapes):
        assert gemm_seconds(DEVICES[family], dtype, mi, ni, ki, batch=bi)[0] == many[i]
        assert grouped_gemm_seconds(DEVICES[family], dtype, bi, mi, ni, ki)[0] == grouped[i]


@relaxed
@given(pairs, st.integers(1, 256), sizes, sizes, sizes)
def test_grouped_product_obeys_the_same_bounds(
    pair: tuple[str, str], experts: int, tokens: int, n: int, k: int
) -> None:
    family, dtype = pair
    machine = DEVICES[family]
    seconds = grouped_gemm_seconds(machine, dtype, experts, tokens, n, k)[0]
    assert seconds >= 2.0 * tokens * n * k / machine.peak(dtype)
    weights = min(experts, tokens) * n * k * ELEMENT_BYTES[dtype]
    assert seconds >= weights / machine.memory_bandwidth
    assert grouped_gemm_seconds(machine, dtype, experts, tokens + 1, n, k)[0] >= seconds * (1.0 - 1e-12)


# aiconfigurator-npu npu_grouped_matmul, w13 + w2, bf16, one A3 die: DeepSeek-V3 shape with 32 local experts, 4096 rows;
# Mixtral shape with 8 experts, 8192 rows.
@pytest.mark.parametrize(
    ("hidden", "width", "experts", "rows", "microseconds"),
    [(7168, 2048, 32, 4096, 3650.0), (4096, 14336, 8, 8192, 12147.0)],
)
def test_measured_grouped_products(hidden: int, width: int, experts: int, rows: int, microseconds: float) -> None:
    die = DEVICES["ascend-a3-die"]
    up = grouped_gemm_seconds(die, "bf16", experts, rows, 2 * width, hidden)[0]
    down = grouped_gemm_seconds(die, "bf16", experts, rows, hidden, width)[0]
    p90 = die.operators.grouped_gemm["bf16"].provenance.p90
    assert p90 is not None
    assert (up + down) * 1e6 == pytest.approx(microseconds, rel=p90)


def test_fp32_main_gradients_cost_their_extra_bytes_when_bandwidth_binds() -> None:
    machine = DEVICES["h100"]
    plain = gemm_seconds(machine, "bf16", 8192, 8192, 16)
    added = gemm_seconds(machine, "bf16", 8192, 8192, 16, out_bytes=4.0, accumulate=True)
    extra = (2 * 4.0 - 2.0) * 8192 * 8192
    memory = machine.memory_bandwidth * machine.operators.gemm["bf16"].memory_efficiency
    np.testing.assert_allclose(added - plain, extra / memory, rtol=1e-12)


def test_the_conversion_to_fp8_is_a_separable_part_of_the_measured_call() -> None:
    machine = DEVICES["h100"]
    fit = machine.operators.gemm["fp8"]
    fused = gemm_seconds(machine, "fp8", 4096, 4096, 8192, cast=False)
    measured = gemm_seconds(machine, "fp8", 4096, 4096, 8192)
    bytes_moved = CAST_BYTES * 4096 * 8192
    expected = fit.cast_launch_s + bytes_moved / (machine.memory_bandwidth * fit.cast_efficiency)
    np.testing.assert_allclose(measured - fused, expected, rtol=1e-12)


def test_a_head_dimension_off_the_tensor_core_alignment_is_slow_on_nvidia_and_only_padded_on_ascend() -> None:
    gpu, npu = DEVICES["a100"], DEVICES["ascend-910b"]
    assert gemm_seconds(gpu, "fp16", 8192, 8192, 150)[0] > 4.0 * gemm_seconds(gpu, "fp16", 8192, 8192, 152)[0]
    assert gemm_seconds(npu, "fp16", 8192, 8192, 150)[0] <= gemm_seconds(npu, "fp16", 8192, 8192, 160)[0]


def test_nothing_to_do_costs_nothing() -> None:
    assert gemm_seconds(DEVICES["h100"], "bf16", 0, 4096, 4096)[0] == 0.0
    assert grouped_gemm_seconds(DEVICES["h100"], "bf16", 8, 0, 4096, 4096)[0] == 0.0


def test_an_unknown_peak_is_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedPrecision, match=r"ascend-910a: precision bf16 .* no dense peak .*fp16"):
        gemm_seconds(DEVICES["ascend-910a"], "bf16", 128, 128, 128)


def test_a_precision_without_constants_is_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedPrecision, match="operator family h100 has no matrix-product constants"):
        gemm_seconds(DEVICES["h100"], "fp64", 128, 128, 128)


def test_shapes_outside_the_fitted_range_are_told() -> None:
    outside = gemm_outside_validity(DEVICES["h100"], "bf16", [4096, 65536], 4096, [8192, 8192])
    assert outside.tolist() == [False, True]
    assert grouped_gemm_outside_validity(DEVICES["ascend-910b"], "bf16", 8, [4096, 10**6], 4096, 4096).tolist() == [
        False,
        True,
    ]

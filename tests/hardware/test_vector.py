"""Element-wise work and the optimizer step."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.hardware.vector import optimizer_seconds, vector_outside_validity, vector_seconds

from .devices import DEVICES


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(DEVICES)), st.floats(1.0, 1e12), st.integers(1, 50))
def test_never_faster_than_memory_and_every_launch_costs(family: str, moved: float, launches: int) -> None:
    machine = DEVICES[family]
    for kind in machine.operators.vector:
        seconds = vector_seconds(machine, moved, launches, kind=kind)[0]
        floor = launches * machine.operators.vector[kind].launch_s
        assert seconds >= floor + moved / machine.memory_bandwidth
        assert vector_seconds(machine, 2.0 * moved, launches, kind=kind)[0] > seconds


# Ascend mstt profiler data, training step on a 910B: ApplyAdamW over 75,497,472 parameters (28 bytes each) took
# 1763.9 to 1793.1 us; Mul of 301,989,888 + 301,989,892 bytes 469.4 to 474.8 us; Cast of 452,984,832 bytes 356 to 363.
def test_fused_adam_on_a_910b_meets_the_measured_kernel() -> None:
    seconds = optimizer_seconds(DEVICES["ascend-910b"], 75_497_472, 28.0)[0]
    assert seconds * 1e6 == pytest.approx(1780.0, rel=0.05)


def test_large_elementwise_kernels_of_a_910b_run_at_memory_speed() -> None:
    machine = DEVICES["ascend-910b"]
    assert vector_seconds(machine, 603_979_780.0)[0] * 1e6 == pytest.approx(471.0, rel=0.10)
    assert vector_seconds(machine, 452_984_832.0)[0] * 1e6 == pytest.approx(359.0, rel=0.10)


def test_layer_norm_is_slower_per_byte_than_an_addition() -> None:
    machine = DEVICES["ascend-910b"]  # LayerNormV3 of 201.4 MB: 315.6 to 359.5 us
    norm = vector_seconds(machine, 201_392_128.0, kind="layer-norm")[0]
    assert norm * 1e6 == pytest.approx(320.0, rel=0.05)
    assert norm > vector_seconds(machine, 201_392_128.0)[0]


def test_a_kind_that_was_not_measured_is_told() -> None:
    assert vector_outside_validity(DEVICES["h100"], 1e8, kind="layer-norm")[0]
    assert not vector_outside_validity(DEVICES["ascend-910b"], 1e8)[0]
    assert vector_outside_validity(DEVICES["ascend-910b"], 1e12)[0]


def test_nothing_to_move_costs_nothing() -> None:
    assert vector_seconds(DEVICES["h100"], 0.0, 3.0)[0] == 0.0
    assert optimizer_seconds(DEVICES["h100"], 0.0, 28.0)[0] == 0.0

"""The simulator and the schedules against what their papers state."""

import numpy as np
import pytest

from cann_plan.cost.pipeline_in_flight import chunk_in_flight, in_flight
from cann_plan.cost.pipeline_orders import Kind, Schedule, runnable, stage_orders
from cann_plan.cost.pipeline_simulator import simulate

F, B, W = 1.0, 1.3, 0.9  # seconds of a whole stage: forward, gradient of the input, gradient of the weights


def even(schedule: Schedule, p: int, m: int, v: int = 1) -> float:
    """Bubble of even stages without sends, in seconds."""
    ones = np.full(p * v, 1.0 / v)
    weight = W * ones if schedule.splits_backward else None
    backward = B * ones if schedule.splits_backward else (B + W) * ones
    return simulate(schedule, F * ones, backward, 0.0, m, v, weight).makespan - m * (F + B + W)


@pytest.mark.parametrize(("p", "m"), [(2, 1), (4, 3), (4, 16), (8, 8), (8, 40)])
@pytest.mark.parametrize("schedule", [Schedule.GPIPE, Schedule.ONE_F_ONE_B])
def test_bubble_of_gpipe_and_1f1b_is_p_minus_1_slots(schedule: Schedule, p: int, m: int) -> None:
    """Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1: (p - 1)(t_f + t_b), a fraction (p - 1)/m."""
    assert even(schedule, p, m) == pytest.approx((p - 1) * (F + B + W), rel=1e-12)


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 2), (4, 2, 8), (4, 3, 16), (8, 2, 32), (8, 4, 8)])
def test_interleaving_divides_the_bubble_by_the_chunks(p: int, v: int, m: int) -> None:
    """Narayanan et al. 2021, section 2.2.2: bubble fraction (p - 1)/(v m)."""
    assert even(Schedule.INTERLEAVED, p, m, v) == pytest.approx((p - 1) * (F + B + W) / v, rel=1e-12)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 16), (8, 24)])
def test_zb_h1_bubble(p: int, m: int) -> None:
    """Qi et al. 2023, arXiv:2401.10241, table 2: (p - 1)(T_F + T_B - T_W)."""
    assert even(Schedule.ZB_H1, p, m) == pytest.approx((p - 1) * (F + B - W), rel=1e-12)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 16), (8, 24)])
def test_zb_v_has_no_bubble_when_the_passes_are_equal(p: int, m: int) -> None:
    """Qi et al. 2023, section 6: zero bubble for T_F = T_B = T_W; stages only start and end staggered by a forward."""
    chunk = np.full(2 * p, 0.5)
    run = simulate(Schedule.ZB_V, chunk, chunk, 0.0, m, 2, chunk)
    for stage in range(p):
        passes = run.timeline.stage == stage
        span = run.timeline.end[passes].max() - run.timeline.start[passes].min()
        assert span == pytest.approx(1.5 * 2 * m * 0.5 * 2, rel=1e-12)


@pytest.mark.parametrize(("p", "m"), [(4, 8), (4, 16), (8, 16), (8, 40)])
def test_dualpipe_bubble(p: int, m: int) -> None:
    """DeepSeek-V3 report, arXiv:2412.19437, table 2: (PP/2 - 1)(F&B + B - 3W), B being the whole backward.

    It holds for T_F equal to the gradient of the input; DualPipeV has PP = 2p chunks of half a stage.
    """
    f, w = 1.0, 0.7
    slot = 2 * f + w
    expected = slot + (f + w) - 3 * w
    stage = np.full(p, f)
    two = simulate(Schedule.DUALPIPE, stage, stage, 0.0, m, 1, np.full(p, w)).makespan
    assert two - m * slot == pytest.approx((p / 2 - 1) * expected, rel=1e-12)
    chunk = np.full(2 * p, f / 2)
    one = simulate(Schedule.DUALPIPE_V, chunk, chunk, 0.0, m, 2, np.full(2 * p, w / 2)).makespan
    assert one - m * slot == pytest.approx((p - 1) * expected / 2, rel=1e-12)


def test_activations_of_dualpipe() -> None:
    """DeepSeek-V3 report, table 2: PP + 1 chunk activations."""
    for p in (4, 8):
        chunk = np.ones(p)
        assert set(simulate(Schedule.DUALPIPE, chunk, chunk, 0.0, 4 * p, 1, chunk).in_flight.tolist()) == {p + 1}
        chunk = np.ones(2 * p)
        assert set(simulate(Schedule.DUALPIPE_V, chunk, chunk, 0.0, 4 * p, 2, chunk).in_flight.tolist()) == {2 * p + 1}


@pytest.mark.parametrize("schedule", list(Schedule))
def test_in_flight_equals_the_simulators_count(schedule: Schedule) -> None:
    for p in (2, 4, 6):
        for v in (2, 3) if schedule is Schedule.INTERLEAVED else (1,):
            for m in range(1, 5 * p + 1):
                if not runnable(schedule, p, np.array([m]))[0]:
                    continue
                chunks = v if schedule is Schedule.INTERLEAVED else len(_chunks(schedule, p, m)) // p
                ones = np.ones(p * chunks)
                run = simulate(schedule, ones, ones, 0.0, m, chunks, ones if schedule.splits_backward else None)
                held = in_flight(schedule, p, chunks, np.arange(p), m)
                per_chunk = chunk_in_flight(schedule, p, chunks, np.arange(p * chunks), m)
                assert per_chunk.tolist() == run.chunk_in_flight.tolist(), (schedule, p, chunks, m)
                assert (held * chunks).tolist() == run.in_flight.tolist(), (schedule, p, chunks, m)


def _chunks(schedule: Schedule, p: int, m: int) -> set[int]:
    return {item.chunk for order in stage_orders(schedule, p, m) for operation in order for item in operation}


@pytest.mark.parametrize("schedule", list(Schedule))
def test_every_pass_runs_once_and_after_its_inputs(schedule: Schedule) -> None:
    p, m, v = 4, 12, 3 if schedule is Schedule.INTERLEAVED else 1
    chunks = len(_chunks(schedule, p, m)) if v == 1 else p * v
    rng = np.random.default_rng(1)
    f, b, w = rng.uniform(1, 2, (3, chunks))
    run = simulate(schedule, f, b, 0.2, m, chunks // p, w if schedule.splits_backward else None).timeline
    end = {}
    start = {}
    for kind, chunk, i, begin, finish in zip(run.kind, run.chunk, run.micro_batch, run.start, run.end, strict=True):
        names = {Kind.FORWARD: "f", Kind.BACKWARD: "bw", Kind.BACKWARD_INPUT: "b", Kind.BACKWARD_WEIGHT: "w"}
        for name in names[Kind(kind)]:
            assert (name, chunk, i) not in end
            start[name, chunk, i], end[name, chunk, i] = begin, finish
    assert len(end) == 3 * chunks * m
    for (name, chunk, i), begin in start.items():
        if name == "f" and chunk:
            assert begin >= end["f", chunk - 1, i] - 1e-12
        if name == "b":
            assert begin >= end[("b", chunk + 1, i) if chunk + 1 < chunks else ("f", chunk, i)] - 1e-12
        if name == "w":
            assert begin >= start["b", chunk, i] - 1e-12


def test_one_stage_does_one_thing_at_a_time() -> None:
    rng = np.random.default_rng(2)
    f, b = rng.uniform(1, 2, (2, 12))
    run = simulate(Schedule.INTERLEAVED, f, b, 0.1, 8, 3)
    for stage in range(4):
        passes = run.timeline.stage == stage
        assert (run.timeline.start[passes][1:] >= run.timeline.end[passes][:-1]).all()
    np.testing.assert_allclose(run.busy, 8 * (f + b).reshape(3, 4).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(run.busy + run.sending + run.idle, run.makespan, rtol=1e-12)


def test_blocking_send_occupies_the_sender() -> None:
    """Two stages, one micro-batch: f0, send, f1, b1, send, b0; three micro-batches add a slot of stage 0 each."""
    one = simulate(Schedule.ONE_F_ONE_B, [1.0, 1.0], [2.0, 2.0], 0.25, 1)
    assert one.makespan == pytest.approx(6.5)
    assert one.sending.tolist() == [0.25, 0.25]
    overlapped = simulate(Schedule.ONE_F_ONE_B, [1.0, 1.0], [2.0, 2.0], 0.25, 1, overlapped=True)
    assert overlapped.makespan == pytest.approx(6.5)
    assert overlapped.sending.tolist() == [0.0, 0.0]


def test_impossible_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match="micro-batches"):
        stage_orders(Schedule.INTERLEAVED, 4, 6, 2)
    with pytest.raises(ValueError, match="micro-batches"):
        stage_orders(Schedule.DUALPIPE, 4, 6)
    with pytest.raises(ValueError, match="chunk"):
        stage_orders(Schedule.ZB_V, 4, 8, 3)
    with pytest.raises(ValueError, match="shape"):
        simulate(Schedule.GPIPE, [1.0, 2.0], [1.0], 0.0, 2)


def test_interleaving_holds_more_than_1f1b_but_never_more_than_there_is() -> None:
    """Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3: 1 + (p - 1)/(p v) times the activations."""
    for p, v in ((8, 2), (8, 4), (4, 3)):
        ratio = in_flight("interleaved", p, v, 0, 100 * p) / in_flight("1f1b", p, 1, 0, 100 * p)
        assert ratio == pytest.approx(1 + (p - 1) / (p * v), rel=1e-12)
        assert in_flight("interleaved", p, v, 0, p) == p

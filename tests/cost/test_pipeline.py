"""The pipeline model against the exact execution, and invariants of a step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.cost.pipeline import step_parts, step_seconds
from cann_plan.cost.pipeline_orders import Schedule
from cann_plan.cost.pipeline_simulator import simulate
from tests.cost.pipeline_cases import Case, random_cases

# Bounds on |predicted / simulated - 1| of benchmarks/pipeline_accuracy.py; blocking sends, then overlapped ones.
EXACT = 1e-11
BOUNDS = {
    Schedule.GPIPE: (EXACT, EXACT),
    Schedule.ONE_F_ONE_B: (EXACT, 0.01),
    Schedule.INTERLEAVED: (0.02, 0.02),
    Schedule.ZB_H1: (0.01, 0.02),
    Schedule.ZB_V: (0.01, 0.02),
    Schedule.DUALPIPE: (0.02, 0.02),
    Schedule.DUALPIPE_V: (0.02, 0.02),
}
FEW = {Schedule.GPIPE: 200, Schedule.ONE_F_ONE_B: 300}


def predict(case: Case, micro_batches: int | None = None, overlapped: bool = False) -> float:
    weight = None if case.backward_weight is None else case.backward_weight[None]
    m = np.array([case.micro_batches if micro_batches is None else micro_batches])
    send = np.array([case.send])
    forward, backward = case.forward[None], case.backward[None]
    return float(step_seconds(case.schedule, forward, backward, send, m, case.virtual, weight, overlapped)[0])


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("schedule", list(Schedule))
def test_closed_form_against_exact_execution(schedule: Schedule, overlapped: bool) -> None:
    bound = BOUNDS[schedule][overlapped]
    for case in random_cases(schedule, FEW.get(schedule, 100), seed=7 + overlapped, largest_stages=12):
        exact = simulate(
            case.schedule,
            case.forward,
            case.backward,
            case.send,
            case.micro_batches,
            case.virtual,
            case.backward_weight,
            overlapped,
        ).makespan
        assert predict(case, overlapped=overlapped) == pytest.approx(exact, rel=bound), case


@pytest.mark.parametrize("schedule", list(Schedule))
def test_a_block_equals_its_rows_to_the_last_bit(schedule: Schedule) -> None:
    rng = np.random.default_rng(3)
    v = 2 if schedule in (Schedule.INTERLEAVED, Schedule.ZB_V, Schedule.DUALPIPE_V) else 1
    n, p = 40, 6
    forward = rng.uniform(1, 2, (n, p * v))
    forward[::2] = forward[::2, :1]
    forward[::4, -1] *= 1.7
    backward, send = forward * rng.uniform(1.8, 3.1, (n, 1)), rng.uniform(0, 0.2, n) * rng.integers(0, 2, n)
    m = p * rng.integers(2, 8, n)
    for overlapped in (False, True):
        block = step_parts(schedule, forward, backward, send, m, v, None, overlapped)
        for i in range(n):
            row = slice(i, i + 1)
            one = step_parts(schedule, forward[row], backward[row], send[row], m[row], v, None, overlapped)
            for name in ("seconds", "critical_stage", "busy", "sending", "bubble"):
                assert getattr(one, name)[0] == getattr(block, name)[i]


@pytest.mark.parametrize("schedule", list(Schedule))
def test_inputs_are_left_as_they_were(schedule: Schedule) -> None:
    forward, backward, send = np.full((1, 8), 1.0), np.full((1, 8), 2.0), np.array([0.5])
    step_parts(schedule, forward, backward, send, np.array([16]), chunks(schedule))
    assert (forward == 1.0).all()
    assert (backward == 2.0).all()


def chunks(schedule: Schedule) -> int:
    return 2 if schedule in (Schedule.INTERLEAVED, Schedule.ZB_V, Schedule.DUALPIPE_V) else 1


@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 8), (8, 64), (16, 16)])
def test_even_stages_without_sends(p: int, m: int) -> None:
    """(m + p - 1)(f + b); interleaved m (f + b) + (p - 1)(f + b)/v (Narayanan et al. 2021)."""
    no, count = np.zeros(1), np.array([m])
    for schedule in (Schedule.GPIPE, Schedule.ONE_F_ONE_B):
        seconds = step_seconds(schedule, np.full((1, p), 1.0), np.full((1, p), 2.0), no, count)
        assert seconds[0] == pytest.approx((m + p - 1) * 3.0, rel=1e-12)
    for v in (2, 4):
        chunk = np.full((1, p * v), 1.0 / v)
        seconds = step_seconds(Schedule.INTERLEAVED, chunk, 2 * chunk, no, count, v)
        assert seconds[0] == pytest.approx(m * 3.0 + (p - 1) * 3.0 / v, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(Schedule)), st.integers(0, 10_000))
def test_a_step_is_at_least_its_busiest_stage_and_grows_with_micro_batches(schedule: Schedule, seed: int) -> None:
    case = next(random_cases(schedule, 1, seed, largest_stages=8))
    weight = None if case.backward_weight is None else case.backward_weight[None]
    send, m = np.array([case.send]), np.array([case.micro_batches])
    parts = step_parts(schedule, case.forward[None], case.backward[None], send, m, case.virtual, weight)
    assert parts.seconds[0] >= parts.busy[0] * (1 - 1e-12)
    assert parts.bubble[0] >= 0.0
    assert parts.busy[0] + parts.sending[0] + parts.bubble[0] == pytest.approx(parts.seconds[0], rel=1e-12)
    more = case.micro_batches + (case.stages if schedule is Schedule.INTERLEAVED else 2)
    assert predict(case, more) >= parts.seconds[0] * (1 - 1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B]), st.integers(0, 10_000), st.floats(1.0, 2.0))
def test_a_slower_stage_never_makes_a_faster_step(schedule: Schedule, seed: int, factor: float) -> None:
    case = next(random_cases(schedule, 1, seed, largest_stages=16))
    send, m = np.array([case.send]), np.array([case.micro_batches])
    before = step_seconds(schedule, case.forward[None], case.backward[None], send, m)
    slower = case.forward.copy()
    slower[seed % case.stages] *= factor
    assert step_seconds(schedule, slower[None], case.backward[None], send, m)[0] >= before[0] * (1 - 1e-12)


def test_one_stage_has_no_bubble() -> None:
    parts = step_parts(Schedule.ONE_F_ONE_B, np.array([[1.0]]), np.array([[2.0]]), np.array([0.5]), np.array([7]))
    assert parts.seconds[0] == 21.0
    assert parts.bubble[0] == 0.0


def test_a_heavy_first_stage_hides_the_warm_up() -> None:
    """sum(t) + (m - 1) max(t) charges 52 here; the first stage is never idle: m t_0 = 40."""
    forward = np.array([[1.25, 1.0, 1.0, 1.0]])
    backward = np.array([[3.75, 2.0, 2.0, 2.0]])
    seconds = step_seconds(Schedule.ONE_F_ONE_B, forward, backward, np.zeros(1), np.array([8]))
    assert seconds[0] == pytest.approx(simulate(Schedule.ONE_F_ONE_B, forward[0], backward[0], 0.0, 8).makespan)
    assert seconds[0] < 49.0


def test_refused_micro_batches_take_for_ever_and_wrong_shapes_raise() -> None:
    chunk, send = np.ones((2, 8)), np.zeros(2)
    seconds = step_seconds(Schedule.INTERLEAVED, chunk, chunk, send, np.array([6, 8]), 2)
    assert np.isinf(seconds[0])
    assert np.isfinite(seconds[1])
    with pytest.raises(ValueError, match="shape"):
        step_seconds(Schedule.GPIPE, chunk, chunk[:, :4], send, np.array([6, 8]))
    with pytest.raises(ValueError, match="shape"):
        step_seconds(Schedule.GPIPE, chunk, chunk, send[:1], np.array([6, 8]))
    with pytest.raises(ValueError, match="divide"):
        step_seconds(Schedule.INTERLEAVED, chunk, chunk, send, np.array([6, 8]), 3)
    with pytest.raises(ValueError, match="zb-h9"):
        step_seconds("zb-h9", chunk, chunk, send, np.array([6, 8]))

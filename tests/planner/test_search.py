"""The search finds what brute force finds, whatever the blocks and processes; the winner estimates to the same bits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cann_plan.planner.choices import Choices, Range, search_policies
from cann_plan.planner.evaluate import Evaluation, evaluate, score
from cann_plan.planner.front import Front
from cann_plan.planner.objective import Objective
from cann_plan.planner.pairs import pairs_of
from cann_plan.planner.search import Found, mechanisms, search
from cann_plan.planner.space import Ragged, Space, strategy_space
from tests.planner.jobs import job

SMALL = [("llama-3-8b", "dgx-h100", 2), ("llama-2-70b", "atlas-900-a2", 8), ("mixtral-8x7b", "dgx-h100", 2)]
MEMORY = Objective("memory")
TIME = Objective("time")


@cache
def small(model: str, cluster: str, nodes: int) -> tuple[Space, Evaluation]:
    """A space with all kinds of axes, evaluated one strategy after the other."""
    the_job = job(model, cluster, nodes)
    problem = replace(the_job.problem, policies=search_policies(the_job.problem), recompute_scope="stage")
    ranges = {"tensor": Range((1, 4)), "micro_batch_size": Range((1, 2)), "sequence_parallel": Range((1,))}
    space = strategy_space(problem, Choices(ranges, whole=True))
    return space, evaluate(space.problem, space.rows(0, len(space)))


def best_by_force(space: Space, result: Evaluation, top: int) -> list[int]:
    pairs = pairs_of(space.rows(0, len(space)))
    rows = np.flatnonzero(result.feasible)
    count = mechanisms(pairs, rows)
    order = sorted(zip(result.step[rows].tolist(), count.tolist(), rows.tolist(), strict=True))
    return [row for _, _, row in order[:top]]


@pytest.mark.parametrize(("model", "cluster", "nodes"), SMALL)
def test_search_agrees_with_brute_force(model: str, cluster: str, nodes: int) -> None:
    space, result = small(model, cluster, nodes)
    found = search(space, 20, workers=1)
    assert found.index == best_by_force(space, result, 20)
    assert found.evaluated == len(space)
    assert found.feasible == int(result.feasible.sum())
    assert sum(found.infeasible.values()) == found.evaluated - found.feasible


@pytest.mark.parametrize(("model", "cluster", "nodes"), SMALL)
def test_scores_of_what_fits_are_the_evaluation_to_the_last_bit(model: str, cluster: str, nodes: int) -> None:
    space, result = small(model, cluster, nodes)
    scores = score(space.problem, space.pairs(0, len(space)))
    np.testing.assert_array_equal(scores.reason, result.reason)
    np.testing.assert_array_equal(scores.device_bytes, result.device_bytes)
    np.testing.assert_array_equal(scores.step[result.feasible], result.step[result.feasible])


@pytest.mark.parametrize(("model", "cluster", "nodes"), [*SMALL, ("gpt3-175b", "dgx-a100", 16)])
def test_what_a_limit_leaves_out_is_slower_than_the_limit(model: str, cluster: str, nodes: int) -> None:
    space, result = small(model, cluster, nodes)
    limit = float(np.median(result.step[result.feasible]))
    scores = score(space.problem, space.pairs(0, len(space)), limit=limit)
    left_out = np.isinf(scores.step)
    assert left_out.any()
    assert (result.step[left_out] > limit).all()
    kept = result.feasible & ~left_out
    np.testing.assert_array_equal(scores.step[kept], result.step[kept])


def outcome(found: Found) -> tuple[object, ...]:
    closest = None if found.closest is None else (found.closest_bytes, int(found.closest.tensor[0]))
    return found.index, found.steps, found.evaluated, found.feasible, found.infeasible, closest, found.better


def first_layouts(space: Space, number: int) -> Space:
    def of(ragged: Ragged) -> Ragged:
        return Ragged(ragged.table, ragged.start[:number], ragged.count[:number], ragged.before[:number])

    columns = {name: values[:number] for name, values in space.columns.items()}
    return Space(space.problem, columns, of(space.passes), of(space.states), space.before[: number + 1])


@pytest.mark.parametrize("objectives", [(TIME,), (TIME, MEMORY)], ids=["time", "front"])
def test_blocks_and_processes_do_not_change_the_outcome(objectives: tuple[Objective, ...]) -> None:
    the_job = job("llama-3-8b", "dgx-h100", 2)
    ranges = {"tensor": Range((2,)), "pipeline": Range((1, 4)), "micro_batch_size": Range((1, 2))}
    space = strategy_space(the_job.problem, Choices(ranges, whole=True))
    than = search(space, 9, workers=1).steps[8]
    few = first_layouts(space, 3)
    for some, blocks in ((space, (1024,)), (few, (1, 7, 4096))):
        expected = outcome(search(some, 9, objectives=objectives, than=than, workers=1))
        for block in blocks:
            for workers in (1, 2):
                found = search(some, 9, objectives=objectives, than=than, workers=workers, block=block)
                assert outcome(found) == expected, (block, workers)


@pytest.mark.parametrize(("model", "cluster", "nodes"), SMALL)
def test_the_front_holds_exactly_what_nothing_beats_in_both(model: str, cluster: str, nodes: int) -> None:
    space, result = small(model, cluster, nodes)
    found = search(space, 1, objectives=(TIME, MEMORY), workers=1, block=999)
    rows = np.flatnonzero(result.feasible)
    points = {(result.step[row], result.device_bytes[row]) for row in rows}
    front = {p for p in points if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)}
    assert {(result.step[row], result.device_bytes[row]) for row in found.index} == front
    assert found.steps == sorted(found.steps)


def test_ties_go_to_fewer_mechanisms_then_to_the_earlier_row() -> None:
    front = Front(2, 1)
    front.add(np.array([[1.0, 1.0, 1.0, 2.0]]), np.array([3, 1, 1, 0]), np.array([0, 5, 2, 1]), np.ones(4))
    assert front.ranked() == [(2, 1.0), (5, 1.0)]
    pair = Front(1, 2)
    pair.add(np.array([[1.0, 1.0], [4.0, 4.0]]), np.array([2, 1]), np.array([0, 1]), np.ones(2))
    assert [index for index, _ in pair.ranked()] == [1]


def test_memory_as_objective_leaves_most_memory_free() -> None:
    space, result = small(*SMALL[0])
    found = search(space, 1, objectives=(MEMORY,), workers=1)
    assert result.device_bytes[found.index[0]] == result.device_bytes[result.feasible].min()


def test_better_counts_feasible_strategies_with_a_faster_step() -> None:
    space, result = small(*SMALL[1])
    steps = np.sort(result.step[result.feasible])
    assert search(space, 1, than=float(steps[25]), workers=1).better == int((steps < steps[25]).sum())


def test_where_nothing_fits_the_row_that_needs_least_memory_is_closest() -> None:
    the_job = job("llama-3.1-405b", "dgx-a100", 1)
    space = strategy_space(the_job.problem, Choices(whole=True))
    result = evaluate(space.problem, space.rows(0, len(space)))
    found = search(space, 1, workers=1)
    assert not found.best
    assert found.closest_bytes == np.nanmin(result.device_bytes)
    assert found.closest is not None
    assert evaluate(space.problem, found.closest).device_bytes[0] == found.closest_bytes


def test_without_one_layer_table_for_all_the_outcome_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    space, _ = small(*SMALL[2])
    expected = outcome(search(space, 9, workers=1))
    monkeypatch.setattr("cann_plan.planner.search.LAYERS_AT_ONCE", 0)
    assert outcome(search(space, 9, workers=1, block=1024)) == expected

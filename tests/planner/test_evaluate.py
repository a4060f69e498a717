"""Evaluation of strategy blocks: sums, independence of the batch, search and estimate on one path."""

from dataclasses import replace

import numpy as np
import pytest

from cann_plan.cost.memory import PARTS
from cann_plan.cost.step import BREAKDOWN
from cann_plan.planner.estimate import estimate_document
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.search import search
from cann_plan.planner.space import Space, strategy_space
from tests.planner.jobs import job

CASES = [
    ("llama-2-70b", "atlas-900-a2", 8),
    ("gpt3-175b", "dgx-a100", 16),
    ("llama-3-8b", "dgx-h100", 2),
    ("mixtral-8x7b", "dgx-h100", 4),
    ("deepseek-v3", "atlas-900-a3", 16),
]


def random_rows(model: str, cluster: str, nodes: int, count: int) -> tuple[object, Space, np.ndarray]:
    the_job = job(model, cluster, nodes)
    space = strategy_space(the_job.problem, {})
    rows = np.random.default_rng(7).choice(len(space), size=min(count, len(space)), replace=False)
    return the_job, space, np.sort(rows)


def fields(result: Evaluation, row: int) -> list[float]:
    values = [result.step[row], result.device_bytes[row], result.hardware_flops[row], float(result.reason[row])]
    values += [result.breakdown[name][row] for name in BREAKDOWN]
    values += [result.memory[name][row] for name in PARTS]
    values += [value[row] for value in result.overlapped.values()]
    return [float(value) for value in values]


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_parts_sum_to_the_whole(model: str, cluster: str, nodes: int) -> None:
    the_job, space, rows = random_rows(model, cluster, nodes, 600)
    block = space.rows(0, len(space)).take(rows)
    result = evaluate(the_job.problem, block)  # type: ignore[attr-defined]
    valid = np.isfinite(result.step)
    assert valid.sum() > 100
    total = sum(result.breakdown[name][valid] for name in BREAKDOWN)
    np.testing.assert_allclose(total, result.step[valid], rtol=1e-12)
    for name in BREAKDOWN:
        assert (result.breakdown[name][valid] >= -1e-9 * result.step[valid]).all(), name
    memory = sum(result.memory[name][valid] for name in PARTS)
    np.testing.assert_allclose(memory, result.device_bytes[valid], rtol=1e-12)


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_a_block_equals_its_rows_one_by_one_to_the_last_bit(model: str, cluster: str, nodes: int) -> None:
    the_job, space, rows = random_rows(model, cluster, nodes, 200)
    block = space.rows(0, len(space)).take(rows)
    together = evaluate(the_job.problem, block)  # type: ignore[attr-defined]
    for row in range(0, len(block), 5):
        alone = evaluate(the_job.problem, block.take(np.array([row])))  # type: ignore[attr-defined]
        np.testing.assert_array_equal(fields(together, row), fields(alone, 0))


def test_step_is_at_least_the_executed_flops_over_the_peak() -> None:
    the_job, space, rows = random_rows("llama-2-70b", "atlas-900-a2", 8, 600)
    result = evaluate(the_job.problem, space.rows(0, len(space)).take(rows))  # type: ignore[attr-defined]
    valid = np.isfinite(result.step)
    bound = result.hardware_flops[valid] / (the_job.cluster.devices * the_job.peak)  # type: ignore[attr-defined]
    assert (result.step[valid] >= bound).all()


def test_the_winner_of_a_search_estimates_to_the_same_bits() -> None:
    the_job = job("llama-2-70b", "atlas-900-a2", 8)
    found = search(strategy_space(the_job.problem, {}), top=3)
    for strategies, step in zip(found.best, found.steps, strict=True):
        document = estimate_document(the_job, strategies, [])
        assert document["time"]["step_s"] == step


def test_search_counts_every_strategy_once() -> None:
    the_job = job("llama-3-8b", "dgx-h100", 2)
    space = strategy_space(the_job.problem, {})
    found = search(space)
    assert found.evaluated == len(space)
    assert found.feasible + sum(found.infeasible.values()) == len(space)


def test_stage_parts_sum_to_device_memory_and_the_peak_is_the_largest_stage() -> None:
    the_job = job("llama-2-70b", "atlas-900-a2", 8)
    space = strategy_space(the_job.problem, {})
    found = search(space, top=1)
    memory = estimate_document(the_job, found.best[0], [])["memory"]
    for stage in memory["stages"]:
        parts = sum(stage[f"{name}_gib"] for name in PARTS)  # type: ignore[literal-required]
        assert parts == pytest.approx(stage["device_gib"], rel=1e-12)
    assert memory["peak_gib"] == max(stage["device_gib"] for stage in memory["stages"])


@pytest.mark.parametrize("axis", ["policy", "micro_batch_size"])
def test_full_recompute_and_smaller_micro_batches_never_raise_states_plus_activations(axis: str) -> None:
    the_job, space, rows = random_rows("llama-2-70b", "atlas-900-a2", 8, 400)
    block = space.rows(0, len(space)).take(rows)
    low = np.zeros(len(block), np.int64) if axis == "policy" else np.full(len(block), 4, np.int64)
    high = np.full(len(block), 2, np.int64)
    before = evaluate(the_job.problem, replace(block, **{axis: low}))  # type: ignore[attr-defined]
    after = evaluate(the_job.problem, replace(block, **{axis: high}))  # type: ignore[attr-defined]
    both = np.isfinite(before.step) & np.isfinite(after.step)
    names = ("weights", "gradients", "optimizer", "activations")
    held_before = sum(before.memory[name][both] for name in names)
    held_after = sum(after.memory[name][both] for name in names)
    assert (held_after <= held_before * (1 + 1e-12)).all()

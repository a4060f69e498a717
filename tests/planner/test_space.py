"""The strategy space: what is in it, in which blocks it comes, what the plan's restrictions leave."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.choices import Choices, Range, search_policies
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.space import Space, strategy_space
from tests.planner.jobs import job

WHOLE = Choices(whole=True)


def whole_space(the_job: Job, choices: Choices = WHOLE) -> Space:
    problem = replace(the_job.problem, policies=search_policies(the_job.problem), recompute_scope="stage")
    return strategy_space(problem, choices)


def rows_of(strategies: Strategies) -> np.ndarray:
    return np.stack([getattr(strategies, name) for name in Strategies.__dataclass_fields__], axis=1)


@pytest.mark.parametrize(
    ("model", "cluster", "nodes"), [("llama-2-70b", "atlas-900-a2", 4), ("mixtral-8x7b", "dgx-h100", 2)]
)
def test_every_strategy_is_there_once_and_uses_all_devices(model: str, cluster: str, nodes: int) -> None:
    the_job = job(model, cluster, nodes)
    space = whole_space(the_job)
    rows = rows_of(space.rows(0, len(space)))
    assert rows.shape[0] == len(space)
    assert np.unique(rows, axis=0).shape[0] == len(space)
    assert (space.rows(0, len(space)).devices == the_job.cluster.devices).all()


def test_blocks_of_any_size_enumerate_the_same_strategies() -> None:
    space = whole_space(job("llama-3-8b", "dgx-h100", 2))
    everything = rows_of(space.rows(0, len(space)))
    for size in (7, 1000, 4096):
        blocks = [rows_of(block) for _, block in space.blocks(size)]
        np.testing.assert_array_equal(np.concatenate(blocks), everything)
    for size in (501, 32768):
        spans = space.spans(size)
        assert spans[0][0] == 0
        assert spans[-1][1] == len(space)
        assert all(first[1] == second[0] for first, second in pairwise(spans))
        assert max(stop - start for start, stop in spans) <= size


def test_all_schedules_are_tried_and_evaluate() -> None:
    space = whole_space(job("gpt3-175b", "dgx-a100", 16))
    block = space.rows(0, len(space))
    picked = []
    for code in range(len(SCHEDULES)):
        rows = np.flatnonzero((block.schedule == code) & (block.pipeline > 1))
        assert rows.shape[0], SCHEDULES[code]
        picked.append(rows[:: max(rows.shape[0] // 40, 1)])
    result = evaluate(space.problem, block.take(np.concatenate(picked)))
    valid = np.isfinite(result.step)
    assert valid.mean() > 0.5
    total = sum(part[valid] for part in result.breakdown.values())
    np.testing.assert_allclose(total, result.step[valid], rtol=1e-12)


def test_layer_splits_hold_all_layers() -> None:
    the_job = job("llama-2-70b", "atlas-900-a2", 4)
    space = whole_space(the_job)
    lists = [split for split in space.problem.splits if split is not None]
    assert lists
    assert all(sum(split) == the_job.architecture.layers for split in lists)


@pytest.mark.parametrize(
    ("axis", "limit", "allowed"),
    [
        ("tensor", Range((4,)), {4}),
        ("pipeline", Range(least=2, most=8), {2, 4, 8}),
        ("micro_batch_size", Range((1, 3)), {1, 3}),
        ("zero_stage", Range((1,)), {1}),
        ("schedule", Range((SCHEDULES.index("1f1b"), SCHEDULES.index("zb-h1"))), {0, 3}),
    ],
)
def test_restrictions_leave_what_they_allow(axis: str, limit: Range, allowed: set[int]) -> None:
    space = whole_space(job("llama-2-70b", "atlas-900-a2", 4), Choices({axis: limit}, whole=True))
    assert set(getattr(space.rows(0, len(space)), axis).tolist()) == allowed


def test_listed_values_are_tried_even_where_a_constraint_refuses_them() -> None:
    the_job = job("llama-2-70b", "atlas-900-a2", 4)
    space = strategy_space(the_job.problem, Choices({"micro_batch_size": Range((5,))}))
    result = evaluate(space.problem, space.rows(0, len(space)))
    assert len(space) > 0
    assert not result.feasible.any()


def test_a_hundred_million_strategies_are_laid_out_without_being_held() -> None:
    the_job = job("deepseek-v3", "dgx-h100", 256, sequence=131072, batch=4096)
    space = whole_space(the_job, Choices({"micro_batch_size": Range(tuple(range(1, 65)))}, whole=True))
    assert len(space) > 100_000_000
    held = sum(values.nbytes for values in space.columns.values()) + space.before.nbytes
    held += sum(getattr(part, name).nbytes for part in (space.passes, space.states) for name in ("start", "count"))
    assert held < 200_000_000
    last = space.rows(len(space) - 5, len(space))
    assert len(last) == 5

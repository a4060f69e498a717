"""What must hold whatever the constants: better hardware is never slower, sharding never needs more memory."""

from dataclasses import replace

import numpy as np
import pytest

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.network.library import CommunicationOptions
from cann_plan.network.table import CommunicationTable
from cann_plan.planner.communication import network_of
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.space import strategy_space
from tests.planner.jobs import job

CASES = [("llama-2-70b", "atlas-900-a2", 8), ("mixtral-8x7b", "dgx-h100", 4), ("gpt3-175b", "dgx-a100", 16)]


def block_of(the_job: Job, count: int = 300) -> Strategies:
    space = strategy_space(the_job.problem, {})
    rows = np.random.default_rng(3).choice(len(space), size=min(count, len(space)), replace=False)
    picked = [space.rows(int(row), int(row) + 1) for row in np.sort(rows)]
    names = Strategies.__dataclass_fields__
    return Strategies(**{name: np.concatenate([getattr(one, name) for one in picked]) for name in names})


def with_network(the_job: Job, factor: float) -> Problem:
    """The job's problem on links `factor` times as fast, always the best algorithm (a library's switch points move)."""
    network = network_of(the_job.cluster)
    levels = [replace(level, bandwidth=level.bandwidth * factor) for level in network.levels]
    table = CommunicationTable(network.with_levels(levels), CommunicationOptions(algorithm="best"))
    return replace(the_job.problem, communication=table)


def assert_never_slower(faster: Problem, slower: Problem, block: Strategies) -> None:
    new, old = evaluate(faster, block).step, evaluate(slower, block).step
    valid = np.isfinite(old)
    assert valid.any()
    assert (new[valid] <= old[valid] * (1 + 1e-12)).all()


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_more_bandwidth_between_devices_is_never_slower(model: str, cluster: str, nodes: int) -> None:
    the_job = job(model, cluster, nodes)
    # without overlap: overlapped traffic at a higher rate slows the compute beside it more
    plain = replace(the_job.problem.overlap, grad_reduce=False, param_gather=False)
    block = block_of(the_job)
    block = block.take(block.zero_stage < 3)
    fast, slow = (replace(with_network(the_job, factor), overlap=plain) for factor in (2.0, 1.0))
    assert_never_slower(fast, slow, block)


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_a_faster_device_is_never_slower(model: str, cluster: str, nodes: int) -> None:
    the_job = job(model, cluster, nodes)
    problem = the_job.problem
    device = problem.compute.device
    peaks = {name: value * 1.5 for name, value in device.peak_flops.items()}
    faster = replace(device, peak_flops=peaks, memory_bandwidth=device.memory_bandwidth * 1.5)
    new = replace(problem, compute=replace(problem.compute, device=faster))
    assert_never_slower(new, problem, block_of(the_job))


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_sharding_more_states_never_raises_states_plus_activations(
    model: str, cluster: str, nodes: int, stage: int
) -> None:
    the_job = job(model, cluster, nodes)
    block = block_of(the_job)
    names = ("weights", "gradients", "optimizer", "activations")
    held = []
    for value in (stage, stage + 1):
        result = evaluate(the_job.problem, replace(block, zero_stage=np.full(len(block), value)))
        held.append((result.step, sum(result.memory[name] for name in names)))
    valid = np.isfinite(held[0][0]) & np.isfinite(held[1][0])
    assert valid.any()
    assert (held[1][1][valid] <= held[0][1][valid] * (1 + 1e-12)).all()


@pytest.mark.parametrize(("model", "cluster", "nodes"), CASES)
def test_more_device_memory_is_never_less_feasible(model: str, cluster: str, nodes: int) -> None:
    the_job = job(model, cluster, nodes)
    problem = the_job.problem
    larger = replace(problem, memory=replace(problem.memory, visible=problem.memory.visible * 1.3))
    block = block_of(the_job)
    before, after = evaluate(problem, block).feasible, evaluate(larger, block).feasible
    assert (after | ~before).all()

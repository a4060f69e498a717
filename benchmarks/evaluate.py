"""Speed of the cost models: full evaluations per second, against streaming the same arrays through element-wise work.

    python benchmarks/evaluate.py [--rows 100000] [--repeat 5]        a table
    pytest benchmarks/evaluate.py --benchmark-only                    pytest-benchmark's

A block of structurally valid strategies of a whole space goes through `evaluate` (every part of the step and of memory)
and, as pairs, through `score` (what a search needs: memory of all, the step of those that fit). The yardstick, in the
same run, is 300 additions and multiplications over arrays of as many float64.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from cann_plan.cost.layer_block import LayerIndex
from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.choices import Choices, search_policies
from cann_plan.planner.evaluate import broken, evaluate, score
from cann_plan.planner.pairs import Pairs, pairs_of
from cann_plan.planner.prepare import prepare
from cann_plan.planner.space import strategy_space
from cann_plan.planner.workers import cores, spread
from cann_plan.spec.resolve import load_plan

OPERATIONS = 300
JOBS = {
    "dense 70B, 1,024 910B": ("llama-2-70b", "atlas-900-a2", 128, 4096, 1024),
    "dense 8B at 32k, 512 H100": ("llama-3-8b", "dgx-h100", 64, 32768, 1024),
    "MoE 671B, 2,048 H100": ("deepseek-v3", "dgx-h100", 256, 4096, 8192),
}


@dataclass(frozen=True)
class Block:
    """Valid strategies of a job, as a block and as pairs with the layer table of its space."""

    problem: Problem
    strategies: Strategies
    pairs: Pairs
    layers: LayerIndex


@cache
def block_of(name: str, rows: int) -> Block:
    model, cluster, nodes, sequence, batch = JOBS[name]
    plan = {
        "model": model,
        "cluster": {"extends": cluster, "nodes": nodes},
        "training": {"tokens": 1e12, "sequence_length": sequence, "global_batch_size": batch},
    }
    problem = prepare(load_plan(plan)).problem
    problem = replace(problem, policies=search_policies(problem), recompute_scope="stage")
    space = strategy_space(problem, Choices(whole=True))
    every = space.pairs(0, len(space))
    valid = np.flatnonzero(broken(space.problem, every) == 0)
    # all strategies of every k-th layout, as the blocks of a search have them
    layout = np.searchsorted(space.before, valid, side="right") - 1
    step = max(1, valid.shape[0] // rows)
    chosen = np.resize(valid[layout % step == 0], rows)
    strategies = every.strategies(np.sort(chosen))
    return Block(space.problem, strategies, pairs_of(strategies), LayerIndex(space.problem, space.layers()))


def stream(rows: int) -> float:
    """300 element-wise operations over arrays of `rows` numbers, in place."""
    arrays = [np.random.default_rng(index).random(rows) for index in range(len(Strategies.__dataclass_fields__))]
    total = np.zeros(rows)
    for index in range(OPERATIONS // 2):
        np.multiply(arrays[index % len(arrays)], 1.0000001, out=arrays[index % len(arrays)])
        np.add(total, arrays[index % len(arrays)], out=total)
    return float(total[0])


def on_all_cores(block: Block, times: int) -> None:
    """The block `times` over, spread over one process per core."""

    def part(_low: int, _high: int) -> int:
        return int(evaluate(block.problem, block.strategies, block.layers).feasible.sum())

    list(spread(part, [(0, 0)] * times, cores()))


def least_seconds(work: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    times = []
    for _ in range(repeat):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


@pytest.mark.parametrize("name", JOBS)
def test_evaluate(benchmark: object, name: str) -> None:
    block = block_of(name, 100_000)
    benchmark.pedantic(evaluate, args=(block.problem, block.strategies, block.layers), rounds=3, warmup_rounds=1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", JOBS)
def test_score(benchmark: object, name: str) -> None:
    block = block_of(name, 100_000)
    benchmark.pedantic(score, args=(block.problem, block.pairs, block.layers), rounds=3, warmup_rounds=1)  # type: ignore[attr-defined]


def test_stream(benchmark: object) -> None:
    benchmark.pedantic(stream, args=(100_000,), rounds=3, warmup_rounds=1)  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows, repeat = options.rows, options.repeat
    print(f"{rows:,} valid strategies, best of {repeat} runs; evaluations per second of processor time, and elapsed")
    head = ("evaluate", "/ stream", "score", "elapsed", f"{cores()} cores", "feasible", "passes")
    print(f"{'':28}" + "".join(f"{name:>12}" for name in head))
    for name in JOBS:
        block = block_of(name, rows)

        def full(block: Block = block) -> object:
            return evaluate(block.problem, block.strategies, block.layers)

        feasible = full().feasible.mean()  # type: ignore[attr-defined]
        yardstick = least_seconds(lambda: stream(rows), repeat, time.process_time)
        one = least_seconds(full, repeat, time.process_time)
        scored = least_seconds(
            lambda b=block: score(b.problem, b.pairs, b.layers),
            repeat,
            time.process_time,  # type: ignore[misc]
        )
        elapsed = least_seconds(full, repeat)
        times = 4 * cores()
        many = least_seconds(lambda b=block, t=times: on_all_cores(b, t), 2) / times  # type: ignore[misc]
        print(
            f"{name:28}{rows / one:12,.0f}{one / yardstick:12.1f}{rows / scored:12,.0f}{rows / elapsed:12,.0f}"
            f"{rows / many:12,.0f}{feasible:12.1%}{len(block.pairs.passes):12,}"
        )


if __name__ == "__main__":
    main()

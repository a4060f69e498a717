"""Recomputation of one stage for every byte budget: the exact front over its layers, beside listed policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cann_plan.cost.layer_block import layer_block
from cann_plan.cost.memory import RankMemory
from cann_plan.cost.problem import Problem
from cann_plan.cost.recompute import Policy
from cann_plan.cost.recompute_plan import (
    LayerOption,
    RecomputePlan,
    optimal_plan,
    plan_front,
    square_root_plan,
    uniform_plans,
)
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.job import Job

GIB = 2.0**30
SHOWN = 12
"""Plans of a front that the document lists; the front itself has one per layer and more."""
OPTIONS = (
    Policy("none"),
    Policy("norm", frozenset({"norm"})),
    Policy("activation", frozenset({"activation", "moe_activation"})),
    Policy("norm+activation", frozenset({"norm", "activation", "moe_activation"})),
    Policy("core_attention", frozenset({"core_attention"})),
    Policy("mla_up_proj", frozenset({"mla_up_proj"})),
    Policy("mlp", frozenset({"mlp"})),
    Policy("full", frozenset({"layer"})),
)
"""What a layer may do with its activations; options that save nothing drop out."""


def recompute_front(
    job: Job, strategies: Strategies, table: StageTable, memory: RankMemory, stage: int, *, timed: bool
) -> dict[str, Any]:
    """Plans of the stage's layers from fewest bytes to fewest seconds, the best that fits, and listed policies.

    Bytes are activations over all micro-batches in flight with the worst temporaries; seconds are replays of a step.
    """
    problem = replace(job.problem, policies=OPTIONS)
    layers = _options(problem, strategies, table, memory, stage)
    front = plan_front(layers)
    held = float(memory.device[0, stage])
    activations = float(memory.activations[0, stage] + memory.temporaries[0, stage] - memory.standing[0, stage])
    share = 1.0 + job.problem.memory.fragmentation
    budget = activations + (job.problem.memory.visible - held) / share
    best = optimal_plan(layers, budget)
    first = layers[0]
    whole, full = first[0], next(option for option in first if option.name == "full")
    alive = max(float(memory.in_flight[0, stage]), 1.0)
    root = square_root_plan(len(layers), full.kept, whole.kept / alive, full.replay_s)
    step = max(len(front) // SHOWN, 1)
    listed = [*front[::step], *([front[-1]] if (len(front) - 1) % step else [])]
    return {
        "stage": stage,
        "layers": len(layers),
        "budget_gib": budget / GIB,
        "best": None if best is None else _entry(best, layers, timed=timed),
        "front": [_entry(plan, layers, timed=timed) for plan in listed],
        "policies": [_entry(plan, layers, timed=timed) for plan in uniform_plans(layers)],
        "square_root": {
            "segment": root.segment, "gib": root.total / GIB, "replay_s": root.replay_s if timed else None,
        },
    }  # fmt: skip


def _options(
    problem: Problem, strategies: Strategies, table: StageTable, memory: RankMemory, stage: int
) -> list[list[LayerOption]]:
    """Options of every layer of the stage, in model order; the first keeps everything."""
    block = layer_block(problem, replace(strategies, policy=strategies.policy * 0))
    row = int(block.row[0])
    alive = max(float(memory.in_flight[0, stage]), 1.0)
    slots = max(problem.global_batch_size // int(strategies.data[0] * strategies.micro_batch_size[0]), 1)
    by_kind: list[list[LayerOption]] = []
    for cost in block.costs[: len(problem.architecture.kinds)]:
        options: list[LayerOption] = []
        for policy, entry in zip(problem.policies, cost.policies, strict=True):
            option = LayerOption(
                policy.name, float(entry.kept[row]) * alive, float(entry.replay.seconds[row]) * slots,
                float(entry.backward_extra[row]),
            )  # fmt: skip
            if policy.name in ("none", "full") or all(option.kept < other.kept for other in options[:1]):
                options.append(option)
        by_kind.append(options)
    sequence = problem.architecture.sequence
    chunks = table.chunks_of(stage)
    held = [sequence[int(table.starts[c]) + index] for c in chunks for index in range(int(table.sizes[c]))]
    return [by_kind[kind] for kind in held]


def _entry(plan: RecomputePlan, layers: list[list[LayerOption]], *, timed: bool) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for options, index in zip(layers, plan.choice, strict=True):
        counts[options[index].name] = counts.get(options[index].name, 0) + 1
    return {"layers": counts, "gib": plan.total / GIB, "replay_s": plan.replay_s if timed else None}

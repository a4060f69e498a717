"""Which tensors a pipeline rank holds at its peak, by the operator that keeps or makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.cost.layer_table import peak_operator
from cann_plan.cost.memory import PHASES, RankMemory
from cann_plan.cost.pipeline_in_flight import chunk_in_flight
from cann_plan.cost.problem import Problem
from cann_plan.cost.recompute import Policy
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.evaluate import micro_batches
from cann_plan.workload.operators.edges import embedding_operators, head_operators
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.operator import Operator
from cann_plan.workload.operators.rows import LayerRows
from cann_plan.workload.parameters import padded_vocabulary

GIB = 2.0**30


def one_row(strategies: Strategies) -> LayerRows:
    """The layer row of a block of one."""

    def axis(name: str) -> Any:
        return np.asarray(getattr(strategies, name)[:1], np.float64)

    return LayerRows(
        axis("tensor"), axis("context"), strategies.context_kind[:1], axis("ulysses"), axis("expert"),
        axis("expert_tensor"), axis("micro_batch_size"), axis("sequence_parallel"),
    )  # fmt: skip


def operator_lists(problem: Problem, strategies: Strategies) -> list[list[Operator]]:
    """Operators of every layer kind, then of the embedding and the head, for a block of one."""
    rows, settings = one_row(strategies), problem.settings
    lists = [layer_operators(kind, rows, settings) for kind in problem.architecture.kinds]
    padded = padded_vocabulary(problem.architecture.vocabulary, strategies.tensor[:1], problem.vocabulary_multiple)
    lists.append(embedding_operators(rows, settings))
    lists.append(
        head_operators(
            rows, settings, np.asarray(padded, np.float64), final_norm=problem.architecture.final_norm,
            fused_loss=problem.fused_loss,
        )
    )  # fmt: skip
    return lists


def top_operators(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, memory: RankMemory, stage: int
) -> list[dict[str, Any]]:
    """Tensors alive at the peak of `stage`, largest first: states, kept activations by operator, temporaries.

    `count`: copies alive, one per layer and micro-batch in flight.
    """
    items: list[dict[str, Any]] = []

    def add(operator: str, tensor: str, kept_for: str, count: float, size: float) -> None:
        if size > 0.0:
            items.append(
                {"operator": operator, "tensor": tensor, "kept_for": kept_for, "count": count, "gib": size / GIB}
            )  # fmt: skip

    for name in ("weights", "gradients", "optimizer"):
        add(name, name, "states", 1.0, float(getattr(memory, name)[0, stage]))
    phase = PHASES[int(memory.phase[0, stage])]
    if phase != "optimizer":
        for operator, tensor, count, size in _kept(problem, strategies, table, recomputed, memory, stage):
            add(operator, tensor, "backward", count, size)
    standing = float(memory.standing[0, stage])
    add("libraries", "workspaces and cached buffers", "always", 1.0, standing)
    rest = float(memory.temporaries[0, stage]) - standing
    name = _worst(problem, strategies, table, stage, phase)
    add(name, "temporaries", phase, 1.0, rest)
    return sorted(items, key=lambda item: -item["gib"])


def _kept(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, memory: RankMemory, stage: int
) -> list[tuple[str, str, float, float]]:
    """(operator, tensor, copies, bytes) of the activations kept on the device."""
    alive = float(memory.in_flight[0, stage])
    schedule, last = SCHEDULES[int(strategies.schedule[0])], table.sizes.shape[0] - 1
    held = [
        float(chunk_in_flight(schedule, table.pipeline, table.virtual, chunk, micro_batches(problem, strategies))[0])
        for chunk in (0, last)
    ]
    policy = problem.policies[int(strategies.policy[0])]
    plain = problem.policies[0]
    lists = operator_lists(problem, strategies)
    kinds = len(problem.architecture.kinds)
    chunks = table.chunks_of(stage)
    on_device = 1.0 - problem.offload.activations
    found: dict[tuple[str, str], tuple[float, float]] = {}

    def take(operators: list[Operator], chosen: Policy, layers: float) -> None:
        for operator in operators:
            for saved in chosen.saved(operator):
                if layers and not chosen.drops(saved):
                    copies, size = found.get((operator.name, saved.name), (0.0, 0.0))
                    more = float(np.sum(saved.size)) * layers
                    found[operator.name, saved.name] = (copies + layers, size + more)

    for kind in range(kinds):
        for chunk in chunks:
            start, again = int(table.starts[chunk]), int(recomputed[0, chunk])
            replayed = int(table.prefix[kind][start + again] - table.prefix[kind][start])
            total = int(table.counts[kind, chunk])
            take(lists[kind], plain, (total - replayed) * alive)
            take(lists[kind], policy, replayed * alive)
    if stage in table.holders(0):
        take(lists[kinds], plain, held[0])
    if stage in table.holders(last):
        take(lists[kinds + 1], plain, held[1])
    return [(*key, copies, size * on_device) for key, (copies, size) in found.items()]


def _worst(problem: Problem, strategies: Strategies, table: StageTable, stage: int, phase: str) -> str:
    """Name of the operator at whose temporaries the rank peaks."""
    if phase == "optimizer":
        return "optimizer step"
    lists = operator_lists(problem, strategies)
    kinds = len(problem.architecture.kinds)
    held = [kind for kind in range(kinds) if int(table.layers[kind, stage])]
    held += [kinds] if stage in table.holders(0) else []
    held += [kinds + 1] if stage in table.holders(table.sizes.shape[0] - 1) else []
    policy = problem.policies[int(strategies.policy[0])]
    best = max((peak_operator(lists[index], policy if index < kinds else problem.policies[0], phase) for index in held),
               key=lambda item: item[1])  # fmt: skip
    return best[0]

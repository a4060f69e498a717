"""Activations of the candidate ranks: kept tensors times micro-batches in flight, and the worst temporaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.layer_block import LayerBlock
from cann_plan.cost.layer_table import LayerCost
from cann_plan.cost.pipeline_in_flight import chunk_in_flight, in_flight
from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import PAIR, StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes, every array (J, n): `kept` of all micro-batches in flight, `logits` what the head keeps of the last one.

    `forward`, `backward`: what is alive besides at the worst point of each pass.
    """

    kept: Array
    logits: Array
    forward: Array
    backward: Array
    in_flight: Array


def rank_activations(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, micro_batches: Ints
) -> Activations:
    """Walk results of the layer table put together for every candidate rank.

    The worst point of a stage is in its last layer, when all kept tensors are alive and one layer runs or is replayed,
    or, on the last stage, in the head: logits and their gradient.
    """
    policy = strategies.policy
    kinds = len(problem.architecture.kinds)
    shape = (table.candidates.shape[0], row.shape[0])
    kept, forward, backward = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    replays = table.replayed(recomputed_layers(problem, strategies, table))
    for kind, classes in enumerate(replays):
        replayed = table.of_ranks(classes).astype(np.float64)
        total = table.layers[kind][table.candidates].astype(np.float64)[:, None]
        cost = block.costs[kind]
        plain = cost.policies[0]
        usual, again = total > replayed, replayed > 0.0
        kept = kept + ((total - replayed) * plain.kept[row] + replayed * _chosen(cost, policy, row, "kept"))
        ahead = np.where(again, _chosen(cost, policy, row, "forward_extra"), 0.0)
        forward = np.maximum(forward, np.maximum(np.where(usual, plain.forward_extra[row], 0.0), ahead))
        behind = np.where(again, _chosen(cost, policy, row, "backward_extra"), 0.0)
        backward = np.maximum(backward, np.maximum(np.where(usual, plain.backward_extra[row], 0.0), behind))
    first, last = table.holds(0)[:, None], table.holds(table.sizes.shape[0] - 1)[:, None]
    alive = _in_flight(strategies, table, micro_batches)
    embedding = block.costs[kinds].policies[0]
    copies = _chunk_in_flight(strategies, table, micro_batches, 0)
    kept = kept * alive + np.where(first, embedding.kept[row] * copies, 0.0)
    sent = block.boundary_elements[row] * problem.settings.element_bytes
    if problem.memory.kept_outputs and table.pipeline > 1:
        kept = kept + np.where(table.candidates[:, None] < table.pipeline - 1, sent * alive, 0.0)
    head, head_ahead, head_behind = _head(block, kinds, row)
    # all forwards before the first backward (GPipe): every micro-batch's logits are alive
    waiting = _chunk_in_flight(strategies, table, micro_batches, table.sizes.shape[0] - 1) - 1.0
    kept = kept + np.where(last, head * waiting, 0.0)
    forward = np.maximum(forward, np.where(first, embedding.forward_extra[row], 0.0))
    forward = np.maximum(forward, np.where(last, head + head_ahead, 0.0))
    backward = np.maximum(backward, np.where(first, embedding.backward_extra[row], 0.0))
    backward = np.maximum(backward, np.where(last, head + head_behind, 0.0))
    # the tensor received from a neighbour and the one sent to it
    boundary = 2.0 * sent if table.pipeline > 1 else np.zeros_like(sent)
    logits = np.minimum(np.where(last, head, 0.0), np.minimum(forward, backward))
    return Activations(kept, logits, forward - logits + boundary, backward - logits + boundary, alive)


def recomputed_layers(problem: Problem, strategies: Strategies, table: StageTable) -> Ints:
    """Layers replayed in backward by a chunk of each class, (Q, n)."""
    layers = table.recomputed_by_class(strategies.recompute_layers, problem.recompute_lists, problem.recompute_scope)
    result: Ints = np.where(strategies.policy == 0, 0, layers)
    return result


def _head(block: LayerBlock, kinds: int, row: Ints) -> tuple[Array, Array, Array]:
    """Kept by the head and the prediction modules together, and the most either holds besides: (n,) each."""
    kept, ahead, behind = (np.zeros(row.shape[0]) for _ in range(3))
    for cost in block.costs[kinds + 1 :]:
        plain = cost.policies[0]
        kept = kept + plain.kept[row]
        ahead = np.maximum(ahead, plain.forward_extra[row])
        behind = np.maximum(behind, plain.backward_extra[row])
    return kept, ahead, behind


def _chosen(cost: LayerCost, policy: Ints, row: Ints, field: str) -> Array:
    """A field of each strategy's policy, shape (n,)."""
    result: Array = np.stack([getattr(chosen, field) for chosen in cost.policies])[policy, row]
    return result


def _in_flight(strategies: Strategies, table: StageTable, micro_batches: Ints) -> Array:
    """Micro-batches whose activations a candidate rank holds at its peak, (J, n); paired ranks hold the activations of
    two chunks, each for half of what the schedule counts.
    """
    result = np.zeros((table.candidates.shape[0], len(strategies)))
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        ranks = table.candidates[:, None]
        values = in_flight(SCHEDULES[code], table.pipeline, table.virtual, ranks, micro_batches[rows][None, :])
        result[:, rows] = values * 0.5 if table.placement == PAIR else values
    return result


def _chunk_in_flight(strategies: Strategies, table: StageTable, micro_batches: Ints, chunk: int) -> Array:
    """Micro-batches whose activations one chunk holds at its peak, (n,)."""
    result = np.zeros(len(strategies))
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        result[rows] = chunk_in_flight(SCHEDULES[code], table.pipeline, table.virtual, chunk, micro_batches[rows])
    return result

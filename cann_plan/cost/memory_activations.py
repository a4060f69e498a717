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
    """Bytes, every array (n, J): `kept` of all micro-batches in flight, `logits` what the head keeps of the last one.

    `forward`, `backward`: what is alive besides at the worst point of each pass.
    """

    kept: Array
    logits: Array
    forward: Array
    backward: Array
    in_flight: Array


def rank_activations(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, recomputed: Ints,
    micro_batches: Ints, policy: Ints,
) -> Activations:  # fmt: skip
    """Walk results of the layer table put together for every candidate rank.

    The worst point of a stage is in its last layer, when all kept tensors are alive and one layer runs or is replayed,
    or, on the last stage, in the head: logits and their gradient.
    """
    kinds = len(problem.architecture.kinds)
    ranks = table.candidates
    pipeline = table.pipeline
    count, width = row.shape[0], ranks.shape[0]
    starts = table.starts[None, :]
    kept = np.zeros((count, width))
    forward, backward = np.zeros((count, width)), np.zeros((count, width))
    for kind in range(kinds):
        replayed = table.prefix[kind][starts + recomputed] - table.prefix[kind][starts]  # (n, C)
        replayed = table.per_rank(replayed)[:, ranks].astype(np.float64)
        total = table.layers[kind][ranks].astype(np.float64)[None, :]
        cost = block.costs[kind]
        plain = cost.policies[0]
        kept = kept + (total - replayed) * plain.kept[row][:, None] + replayed * _chosen(cost, policy, row, "kept")
        for name in ("forward", "backward"):
            usual = np.where(total > replayed, getattr(plain, f"{name}_extra")[row][:, None], 0.0)
            again = np.where(replayed > 0.0, _chosen(cost, policy, row, f"{name}_extra"), 0.0)
            worst = np.maximum(usual, again)
            if name == "forward":
                forward = np.maximum(forward, worst)
            else:
                backward = np.maximum(backward, worst)
    first, last = table.holds(0)[None, :], table.holds(table.sizes.shape[0] - 1)[None, :]
    alive = _in_flight(strategies, table, micro_batches)
    embedding = block.costs[kinds].policies[0]
    copies = _chunk_in_flight(strategies, table, micro_batches, 0)
    kept = kept * alive + np.where(first, embedding.kept[row][:, None] * copies, 0.0)
    if problem.memory.kept_outputs and pipeline > 1:
        sent = block.boundary_elements[row][:, None] * problem.settings.element_bytes
        kept = kept + np.where(ranks[None, :] < pipeline - 1, sent * alive, 0.0)
    head, ahead, behind = _head(block, kinds, row)
    head, ahead, behind = (np.where(last, value, 0.0) for value in (head, ahead, behind))
    # all forwards before the first backward (GPipe): every micro-batch's logits are alive
    waiting = _chunk_in_flight(strategies, table, micro_batches, table.sizes.shape[0] - 1) - 1.0
    kept = kept + head * waiting
    for name, edge in (("forward", ahead), ("backward", behind)):
        at_start = np.where(first, getattr(embedding, f"{name}_extra")[row][:, None], 0.0)
        if name == "forward":
            forward = np.maximum(np.maximum(forward, at_start), head + edge)
        else:
            backward = np.maximum(np.maximum(backward, at_start), head + edge)
    # the tensor received from a neighbour and the one sent to it
    boundary = 2.0 * block.boundary_elements[row][:, None] * problem.settings.element_bytes
    boundary = boundary if pipeline > 1 else np.zeros_like(boundary)
    logits = np.minimum(head, np.minimum(forward, backward))
    return Activations(kept, logits, forward - logits + boundary, backward - logits + boundary, alive)


def _head(block: LayerBlock, kinds: int, row: Ints) -> tuple[Array, Array, Array]:
    """Kept by the head and the prediction modules together, and the most either holds besides: (n, 1) each."""
    kept, ahead, behind = (np.zeros((row.shape[0], 1)) for _ in range(3))
    for cost in block.costs[kinds + 1 :]:
        plain = cost.policies[0]
        kept = kept + plain.kept[row][:, None]
        ahead = np.maximum(ahead, plain.forward_extra[row][:, None])
        behind = np.maximum(behind, plain.backward_extra[row][:, None])
    return kept, ahead, behind


def _chosen(cost: LayerCost, policy: Ints, row: Ints, field: str) -> Array:
    """A field of each strategy's policy, shape (n, 1)."""
    result: Array = getattr(cost.policies[0], field)[row]
    for index in range(1, len(cost.policies)):
        result = np.where(policy == index, getattr(cost.policies[index], field)[row], result)
    return result[:, None]


def _in_flight(strategies: Strategies, table: StageTable, micro_batches: Ints) -> Array:
    """Micro-batches whose activations a candidate rank holds at its peak, (n, J); paired ranks hold the activations of
    two chunks, each for half of what the schedule counts.
    """
    result = np.zeros((len(strategies), table.candidates.shape[0]))
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        ranks = table.candidates[None, :]
        values = in_flight(SCHEDULES[code], table.pipeline, table.virtual, ranks, micro_batches[rows][:, None])
        result[rows] = values * 0.5 if table.placement == PAIR else values
    return result


def _chunk_in_flight(strategies: Strategies, table: StageTable, micro_batches: Ints, chunk: int) -> Array:
    """Micro-batches whose activations one chunk holds at its peak, (n, 1)."""
    result = np.zeros((len(strategies), 1))
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        values = chunk_in_flight(SCHEDULES[code], table.pipeline, table.virtual, chunk, micro_batches[rows])
        result[rows, 0] = values
    return result

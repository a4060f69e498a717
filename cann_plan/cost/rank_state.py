"""Parameters and training states held by the candidate ranks of a group of strategies, and their gradient traffic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.groups import Group, data_groups
from cann_plan.cost.layer_block import LayerBlock
from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import VEE, StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankState:
    """Per strategy and candidate rank, shape (n, J): parameters on the device and bytes of each training state.

    `dense_group`, `expert_group`: gradient groups (n,). `largest_layer` (n, J): parameters of the largest layer, which
    fully sharded training gathers whole.
    """

    dense: Array
    expert: Array
    weights: Array
    gradients: Array
    optimizer: Array
    gathered: Array
    dense_group: Group
    expert_group: Group


def rank_state(problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable) -> RankState:
    """Parameters by rank from the stage table, bytes by the states' sharding degrees.

    ZeRO stage 1 shards optimizer states, 2 also gradients, 3 also weights, over the gradient group (or the shard
    group when smaller).
    """
    kinds = len(problem.architecture.kinds)
    ranks = table.candidates
    per_rank = table.layers[:, ranks]  # (K, J)
    count, width = row.shape[0], ranks.shape[0]
    dense = np.zeros((count, width))
    expert = np.zeros((count, width))
    largest = np.zeros((count, width))
    for kind in range(kinds):
        present = per_rank[kind].astype(np.float64)
        local = block.dense[kind][row][:, None]
        routed = block.expert[kind][row][:, None]
        dense = dense + present * local
        expert = expert + present * routed
        largest = np.maximum(largest, np.where(present > 0.0, local + routed, 0.0))
    first = table.holds(0).astype(np.float64)
    last = table.holds(table.sizes.shape[0] - 1).astype(np.float64)
    hidden = float(problem.architecture.hidden)
    head = block.dense[kinds + 1][row]
    if problem.architecture.tied_embeddings and (table.pipeline == 1 or table.placement == VEE):
        head = np.full_like(head, hidden)
    edge = first * block.dense[kinds][row][:, None] + last * head[:, None]
    if problem.architecture.mtp_layers and not problem.architecture.tied_embeddings:
        # prediction modules embed the tokens again: the last stage holds a copy of the first one's table
        edge = edge + (last * (1.0 - first)) * block.dense[kinds][row][:, None]
    dense = dense + edge
    for index in range(kinds + 2, len(block.costs)):
        dense = dense + last * block.dense[index][row][:, None]
        expert = expert + last * block.expert[index][row][:, None]
    s = strategies
    dense_group, expert_group = data_groups(
        s.tensor, s.context, s.data, s.pipeline, s.expert, s.expert_tensor, s.rank_order,
        nested=problem.nested_experts,
    )  # fmt: skip
    shard = np.where(s.shard_group > 0, s.shard_group, dense_group.ranks)
    dense_ways = np.minimum(dense_group.ranks, shard).astype(np.float64)[:, None]
    expert_ways = np.minimum(expert_group.ranks, shard).astype(np.float64)[:, None]
    stage = s.zero_stage[:, None]
    states = problem.states

    def sized(per_parameter: float, sharded_from: int) -> Array:
        parts = stage >= sharded_from
        whole = dense + expert
        split = dense / dense_ways + expert / expert_ways
        held: Array = np.where(parts, split, whole)
        return held * (per_parameter * problem.trainable_fraction)

    parts = dense / dense_ways + expert / expert_ways
    held = np.where(stage >= 3, parts, dense + expert)
    weights = (states.weight + problem.reference_copies * states.live) * held
    if problem.trainable_fraction < 1.0:
        # frozen layers, tables that no quantisation touches (QLoRA), and the adapters
        tables = np.where(stage >= 3, edge / dense_ways, edge)
        weights = problem.frozen_states * (held - tables) + states.live * tables
        weights = weights + states.weight * problem.trainable_fraction * held
    options = problem.memory
    # the running layer and the prefetched one, more where the framework keeps more alive
    alive = np.minimum(np.maximum(2.0 * largest, options.live_parameters), dense + expert)
    if options.gathered_tables:
        alive = np.minimum(alive + edge, dense + expert)
    elsewhere = (dense_ways > 1.0) | (problem.offload.parameters > 0.0)
    gathered = np.where((stage >= 3) & elsewhere, alive * states.live, 0.0)
    return RankState(
        dense, expert, weights, sized(states.gradient, 2), sized(states.optimizer, 1), gathered, dense_group,
        expert_group,
    )  # fmt: skip

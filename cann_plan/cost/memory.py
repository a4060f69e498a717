"""Device memory of the candidate ranks, by component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_block import LayerBlock
from cann_plan.cost.pipeline_in_flight import in_flight
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]

PARTS = (
    "weights", "gradients", "optimizer", "activations", "temporaries", "logits", "communicators", "runtime",
    "fragmentation",
)  # fmt: skip
"""Components of device memory, in the order they are added up."""

PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes per strategy and candidate rank, every array (n, J); `phase` indexes `PHASES`."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    temporaries: Array
    logits: Array
    communicators: Array
    runtime: Array
    fragmentation: Array
    in_flight: Array
    phase: Ints

    @property
    def allocated(self) -> Array:
        """Bytes of live tensors at the peak, (n, J)."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.temporaries + self.logits

    @property
    def reserved(self) -> Array:
        """Bytes the framework's allocator holds, (n, J)."""
        return self.allocated + self.fragmentation

    @property
    def device(self) -> Array:
        """Bytes in use on the device, (n, J)."""
        return self.reserved + self.communicators + self.runtime


def rank_memory(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, recomputed: Ints,
    state: RankState, micro_batches: Ints, policy: Ints,
) -> RankMemory:  # fmt: skip
    """Peak of every candidate rank: states, kept activations x micro-batches in flight, worst temporaries.

    `recomputed` (n, C): recomputed layers per chunk. The worst point of a stage is the backward of its last layer
    (all kept tensors alive, one layer replayed) or, on the last stage, of the head (logits and their gradient).
    """
    architecture = problem.architecture
    kinds = len(architecture.kinds)
    ranks = table.candidates
    pipeline, virtual = table.pipeline, table.virtual
    count, width = row.shape[0], ranks.shape[0]
    starts = table.starts[None, :]
    activations = np.zeros((count, width))
    temporary = np.zeros((count, width))
    forward_temporary = np.zeros((count, width))
    for kind in range(kinds):
        replayed = table.prefix[kind][starts + recomputed] - table.prefix[kind][starts]  # (n, C)
        replayed = _per_rank(replayed, pipeline, virtual)[:, ranks].astype(np.float64)
        total = table.counts[kind].reshape(virtual, pipeline).sum(axis=0)[ranks].astype(np.float64)[None, :]
        cost = block.costs[kind]
        kept_none = cost.policies[0].kept[row][:, None]
        kept_policy = _by_policy([p.kept for p in cost.policies], policy, row)
        activations = activations + (total - replayed) * kept_none + replayed * kept_policy
        extra = np.where(total > replayed, cost.policies[0].backward_extra[row][:, None], 0.0)
        replay_extra = _by_policy([p.backward_extra for p in cost.policies], policy, row)
        extra = np.maximum(extra, np.where(replayed > 0.0, replay_extra, 0.0))
        temporary = np.maximum(temporary, extra)
        forward_extra = cost.policies[0].forward_extra[row][:, None]
        forward_temporary = np.maximum(forward_temporary, np.where(total > 0.0, forward_extra, 0.0))
    first = (ranks == 0)[None, :]
    last = (ranks == pipeline - 1)[None, :]
    alive = _in_flight(strategies, table, micro_batches)
    embedding = block.costs[kinds].policies[0]
    head = block.costs[kinds + 1].policies[0]
    activations = activations * alive + np.where(first, embedding.kept[row][:, None] * alive, 0.0)
    head_kept = head.kept[row][:, None]
    for index in range(kinds + 2, len(block.costs)):
        extra_head = block.costs[index].policies[0]
        head_kept = head_kept + extra_head.kept[row][:, None]
    logits = np.where(last, head_kept + head.backward_extra[row][:, None], 0.0)
    boundary = 2.0 * block.boundary_elements[row][:, None] * problem.settings.element_bytes
    temporary = np.maximum(temporary, forward_temporary) + state.gathered + np.where(pipeline > 1, boundary, 0.0)
    phase = np.where(temporary > forward_temporary, 1, 0)
    temporaries = np.maximum(temporary - logits, 0.0)
    communicators = _communicators(problem, strategies, pipeline)[:, None] + np.zeros((1, width))
    runtime = np.full((count, width), problem.memory.runtime)
    allocated = state.weights + state.gradients + state.optimizer + activations + temporaries + logits
    return RankMemory(
        state.weights, state.gradients, state.optimizer, activations, temporaries, logits, communicators, runtime,
        allocated * problem.memory.fragmentation, alive, phase.astype(np.int64),
    )  # fmt: skip


def _per_rank(chunks: Ints, pipeline: int, virtual: int) -> Ints:
    """Sum of a rank's chunks: (n, v * p) -> (n, p), in chunk order."""
    total = chunks[:, :pipeline]
    for index in range(1, virtual):
        total = total + chunks[:, index * pipeline : (index + 1) * pipeline]
    return total


def _by_policy(values: list[Array], policy: Ints, row: Ints) -> Array:
    """The value of each strategy's policy, shape (n, 1)."""
    result = values[0][row]
    for index in range(1, len(values)):
        result = np.where(policy == index, values[index][row], result)
    return result[:, None]


def _in_flight(strategies: Strategies, table: StageTable, micro_batches: Ints) -> Array:
    """Micro-batches whose activations a candidate rank holds at its peak, (n, J)."""
    result = np.zeros((len(strategies), table.candidates.shape[0]))
    for code in np.unique(strategies.schedule):
        rows = strategies.schedule == code
        ranks = table.candidates[None, :]
        values = in_flight(SCHEDULES[code], table.pipeline, table.virtual, ranks, micro_batches[rows][:, None])
        result[rows] = values
    return result


def _communicators(problem: Problem, strategies: Strategies, pipeline: int) -> Array:
    """Bytes of the buffers of the communication groups a training step uses, (n,).

    A group's buffers exist once it is used: tensor, context, data, data-with-context, expert, expert-data, model
    (gradient norm over tensor x pipeline), embedding (tied, pipelined), and the pipeline's point-to-point pair.
    """
    s = strategies
    one = np.zeros(len(s))
    several = (
        (s.tensor > 1, s.context > 1, s.data > 1, (s.data > 1) & (s.context > 1), s.expert > 1,
         (s.expert > 1) & (s.data * s.context * s.tensor > s.expert * s.expert_tensor), s.tensor * s.pipeline > 1)
    )  # fmt: skip
    used = one
    for flag in several:
        used = used + flag
    if problem.architecture.tied_embeddings and pipeline > 1:
        used = used + 1.0
    pairs = 1.0 if pipeline > 1 else 0.0
    return used * problem.memory.communicator_bytes + pairs * problem.memory.p2p_communicator_bytes

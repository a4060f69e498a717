"""Device memory of the candidate ranks, by component and phase."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_block import LayerBlock
from cann_plan.cost.memory_activations import Activations, rank_activations
from cann_plan.cost.memory_weights import held_lists, largest_tensor, one_of_each
from cann_plan.cost.offload import host_bytes, offloaded_bytes
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]

PARTS = (
    "weights", "gradients", "optimizer", "activations", "temporaries", "logits", "communicators", "runtime",
    "fragmentation",
)  # fmt: skip
"""Components of device memory, in the order they are added up."""

PHASES = ("forward", "backward", "optimizer")
"""Phases of a step in which a rank may peak."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes per strategy and candidate rank at the rank's peak, every array (n, J); `phase` indexes `PHASES`.

    `forward`, `backward`, `update`: bytes of live tensors at the worst point of each phase of a later step. `late`:
    optimizer states that exist only from the first update on; `standing`: bytes of `temporaries` that never go.
    `host`: bytes of host memory of the fullest node.
    """

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
    forward: Array
    backward: Array
    update: Array
    late: Array
    standing: Array
    host: Array  # (n,)

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

    @property
    def states(self) -> Array:
        """Bytes of live tensors between steps, (n, J): weights, gradients, optimizer, buffers that stay."""
        return self.weights + self.gradients + self.optimizer + self.standing

    @property
    def first_step(self) -> Array:
        """Most bytes of live tensors up to the first update's end, (n, J)."""
        passes = np.maximum(self.forward, self.backward)
        return np.maximum(passes - self.late, self.update)


def rank_memory(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, recomputed: Ints,
    state: RankState, micro_batches: Ints, policy: Ints,
) -> RankMemory:  # fmt: skip
    """Peak of every candidate rank: the largest of forward, backward and update, each on top of the states.

    `recomputed` (n, C): recomputed layers per chunk.
    """
    ranks = table.candidates
    kinds = len(problem.architecture.kinds)
    counts = table.counts.reshape(kinds, table.virtual, table.pipeline).sum(axis=1)[:, ranks]
    present = held_lists(counts, ranks, table.pipeline, len(block.costs))
    options = problem.memory
    standing = np.full((row.shape[0], ranks.shape[0]), options.workspace)
    if options.cached_weight_gradients and problem.trainable_fraction == 1.0:
        standing = standing + one_of_each(block.shapes, row, present) * problem.settings.element_bytes
    standing = standing + state.gathered
    passes = rank_activations(problem, strategies, block, row, table, recomputed, micro_batches, policy)
    offload = problem.offload
    away, tensors = offloaded_bytes(problem, state, passes.kept)
    host = host_bytes(problem, away, tensors)
    weights = state.weights * (1.0 - offload.parameters)
    gradients = state.gradients * (1.0 - offload.gradients)
    optimizer = state.optimizer * (1.0 - offload.optimizer)
    # of the offloaded activations, one layer's are on their way down and the next one's on their way up
    window = np.minimum(tensors, 2.0 * tensors / np.maximum(passes.in_flight * counts.sum(axis=0)[None, :], 1.0))
    kept = passes.kept - tensors + window
    updating = _update(problem, state, largest_tensor(block.shapes, row, present))
    peaks = _peaks(passes, kept, updating)
    phase = np.argmax(peaks, axis=0)
    held = weights + gradients + optimizer + standing
    in_step = phase < PHASES.index("optimizer")
    activations = np.where(in_step, kept, 0.0)
    logits = np.where(in_step, passes.logits, 0.0)
    temporary = np.where(phase == 0, passes.forward, np.where(phase == 1, passes.backward, updating))
    temporaries = standing + temporary
    communicators = _communicators(problem, strategies, table.pipeline)[:, None] + np.zeros((1, ranks.shape[0]))
    runtime = np.full(standing.shape, options.runtime)
    allocated = weights + gradients + optimizer + activations + temporaries + logits
    late = optimizer * (problem.states.late / problem.states.optimizer if problem.states.optimizer else 0.0)
    return RankMemory(
        weights, gradients, optimizer, activations, temporaries, logits, communicators, runtime,
        allocated * options.fragmentation, passes.in_flight, phase.astype(np.int64), held + peaks[0], held + peaks[1],
        held + peaks[2], late, standing, host,
    )  # fmt: skip


def _peaks(passes: Activations, kept: Array, updating: Array) -> Array:
    """Bytes above the states in each phase, (phases, n, J); `kept`: activations on the device."""
    held = kept + passes.logits
    return np.stack([held + passes.forward, held + passes.backward, updating])


def _update(problem: Problem, state: RankState, largest: Array) -> Array:
    """Bytes the optimizer holds while it updates, (n, J): per element of its largest tensor, or of all it updates."""
    options, states = problem.memory, problem.states
    if states.optimizer <= 0.0:
        return np.zeros_like(largest)
    updated = state.optimizer / states.optimizer  # parameters this rank updates
    tensor = np.minimum(largest * problem.trainable_fraction, updated)
    offload = problem.offload
    swapped = 0.0
    if offload.optimizer > 0.0 and not offload.update_on_host:
        # states come back for the update tensor by tensor; a copy that shares the weights' upper halves never left
        moved = states.optimizer if states.optimizer - states.late >= 4.0 else states.late
        swapped = moved * offload.optimizer
    result: Array = tensor * (options.update_tensor + swapped) + updated * options.update_all
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

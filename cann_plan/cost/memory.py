"""Device memory of the candidate ranks, by component and phase."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_block import LayerBlock
from cann_plan.cost.memory_activations import Activations, rank_activations
from cann_plan.cost.memory_weights import held_lists, largest_tensor, one_of_each
from cann_plan.cost.offload import host_bytes, offloaded_states
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

PHASES = ("forward", "backward", "optimizer", "load")
"""Phases in which a rank may peak; the last one precedes all steps."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes per strategy and candidate rank at the rank's peak, every array (n, J); `phase` indexes `PHASES`.

    `forward`, `backward`, `update`: bytes of live tensors at the worst point of each phase of a later step. `late`:
    optimizer states that exist only from the first update on; `standing`: bytes of `temporaries` that never go.
    `load`: live bytes once the checkpoint is loaded, `between`: between steps. `host`: bytes of host memory of the
    fullest node.
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
    load: Array
    between: Array
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
        return self.between

    @property
    def first_step(self) -> Array:
        """Most bytes of live tensors up to the first update's end, (n, J)."""
        passes = np.maximum(self.forward, self.backward)
        return np.maximum(passes - self.late, self.update)


@dataclass(frozen=True, slots=True)
class StandingBytes:
    """Bytes that follow from the sharding of training states, (J, n): states on the device, buffers that stay, what the
    optimizer step holds besides, communicators; bytes of states a rank keeps in host memory; the whole checkpoint where
    a device loads it before it is sharded.
    """

    weights: Array
    gradients: Array
    optimizer: Array
    standing: Array
    updating: Array
    communicators: Array
    host: Array
    whole: Array

    def take(self, at: Ints) -> StandingBytes:
        """Some of the strategies."""
        return StandingBytes(*(getattr(self, name).take(at, axis=1) for name in self.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class PassBytes:
    """Bytes that follow from the micro-batches, (J, n): activations kept on the device, logits, what is alive
    besides at the worst point of forward and of backward; bytes of activations in host memory.
    """

    kept: Array
    logits: Array
    forward: Array
    backward: Array
    in_flight: Array
    host: Array

    def take(self, at: Ints) -> PassBytes:
        """Some of the strategies."""
        return PassBytes(*(getattr(self, name).take(at, axis=1) for name in self.__dataclass_fields__))


def rank_memory(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, state: RankState,
    micro_batches: Ints,
) -> RankMemory:  # fmt: skip
    """Peak of every candidate rank, (n, J): the largest of forward, backward and update, each on top of the states."""
    passes = pass_bytes(problem, rank_activations(problem, strategies, block, row, table, micro_batches), table)
    standing = standing_bytes(problem, strategies, block, row, table, state)
    memory = memory_of(problem, standing, passes)
    return RankMemory(*(getattr(memory, name).T for name in RankMemory.__dataclass_fields__))


def standing_bytes(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, state: RankState
) -> StandingBytes:
    """What the candidate ranks hold whatever the micro-batches do, (J, n)."""
    ranks = table.candidates
    counts = table.layers[:, ranks]
    present = held_lists(counts, table.holds(0), table.holds(table.sizes.shape[0] - 1), len(block.costs))
    options = problem.memory
    standing = np.full((row.shape[0], ranks.shape[0]), options.workspace)
    if options.cached_weight_gradients and problem.trainable_fraction == 1.0:
        standing = standing + one_of_each(block.shapes, row, present) * problem.settings.element_bytes
    standing = standing + state.gathered
    offload = problem.offload
    weights = state.weights * (1.0 - offload.parameters)
    gradients = state.gradients * (1.0 - offload.gradients)
    optimizer = state.optimizer * (1.0 - offload.optimizer)
    updating = _update(problem, strategies, state, largest_tensor(block.shapes, row, present))
    communicators = _communicators(problem, strategies, table.pipeline)[:, None] + np.zeros((1, ranks.shape[0]))
    away = offloaded_states(problem, state)
    whole = (state.dense + state.expert) * (problem.states.live if options.load_whole else 0.0)
    return StandingBytes(*(
        np.ascontiguousarray(x.T)
        for x in (weights, gradients, optimizer, standing, updating, communicators, away, whole)
    ))  # fmt: skip


def pass_bytes(problem: Problem, passes: Activations, table: StageTable) -> PassBytes:
    """What the candidate ranks hold for the micro-batches in flight, (J, n)."""
    tensors = passes.kept * problem.offload.activations
    # of the offloaded activations, one layer's are on their way down and the next one's on their way up
    layers = table.layers[:, table.candidates].sum(axis=0)[:, None]
    window = np.minimum(tensors, 2.0 * tensors / np.maximum(passes.in_flight * layers, 1.0))
    kept = passes.kept - tensors + window
    return PassBytes(kept, passes.logits, passes.forward, passes.backward, passes.in_flight, tensors)


def memory_of(problem: Problem, held: StandingBytes, passes: PassBytes) -> RankMemory:
    """Standing bytes and pass bytes of the same strategies put together, arrays (J, n)."""
    options = problem.memory
    ahead = passes.kept + passes.logits + passes.forward
    behind = passes.kept + passes.logits + passes.backward
    later = behind > ahead
    in_step = held.updating <= np.maximum(ahead, behind)
    phase = np.where(in_step, later.astype(np.int64), PHASES.index("optimizer"))
    states = held.weights + held.gradients + held.optimizer
    activations = np.where(in_step, passes.kept, 0.0)
    logits = np.where(in_step, passes.logits, 0.0)
    temporary = np.where(in_step, np.where(later, passes.backward, passes.forward), held.updating)
    temporaries = held.standing + temporary
    allocated = states + activations + temporaries + logits
    weights, gradients, optimizer = held.weights, held.gradients, held.optimizer
    if options.load_whole:
        loading = held.whole > allocated
        phase = np.where(loading, PHASES.index("load"), phase)
        weights = np.where(loading, held.whole, weights)
        gradients, optimizer, activations, temporaries, logits = (
            np.where(loading, 0.0, part) for part in (gradients, optimizer, activations, temporaries, logits)
        )
        allocated = np.where(loading, held.whole, allocated)
    late = held.optimizer * (problem.states.late / problem.states.optimizer if problem.states.optimizer else 0.0)
    base = states + held.standing
    host = host_bytes(problem, (held.host + passes.host).max(axis=0))
    return RankMemory(
        weights, gradients, optimizer, activations, temporaries, logits, held.communicators,
        np.full(allocated.shape, options.runtime), allocated * options.fragmentation, passes.in_flight, phase,
        base + ahead, base + behind, base + held.updating, late, held.standing, np.maximum(held.whole, base - late),
        base, host,
    )  # fmt: skip


def device_bytes(
    problem: Problem, held: StandingBytes, passes: PassBytes, ahead: Ints, behind: Ints
) -> tuple[Array, Array]:
    """(device bytes of every rank (J, n), host bytes of the fullest node (n,)) of pairs of columns of `passes` and
    `held`: `memory_of(...)` to the last bit, without its parts.
    """
    options = problem.memory
    first, second = passes.kept + passes.logits + passes.forward, passes.kept + passes.logits + passes.backward
    temporary = np.where(second > first, passes.backward, passes.forward)
    states = held.weights + held.gradients + held.optimizer
    in_update = states + (held.standing + held.updating)
    in_step = held.updating.take(behind, axis=1) <= np.maximum(first, second).take(ahead, axis=1)
    during = states.take(behind, axis=1) + passes.kept.take(ahead, axis=1)
    during += held.standing.take(behind, axis=1) + temporary.take(ahead, axis=1)
    during += passes.logits.take(ahead, axis=1)
    allocated = np.where(in_step, during, in_update.take(behind, axis=1))
    if options.load_whole:
        allocated = np.maximum(allocated, held.whole.take(behind, axis=1))
    device = allocated + allocated * options.fragmentation + held.communicators.take(behind, axis=1) + options.runtime
    if problem.offload.active:
        fullest = (held.host.take(behind, axis=1) + passes.host.take(ahead, axis=1)).max(axis=0)
    else:
        fullest = np.zeros(ahead.shape[0])
    return device, host_bytes(problem, fullest)


def _update(problem: Problem, strategies: Strategies, state: RankState, largest: Array) -> Array:
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
    at_once = np.where(strategies.zero_stage[:, None] >= 3, np.minimum(updated, options.update_group), updated)
    if offload.update_on_host:
        at_once = at_once * (1.0 - offload.optimizer)
    result: Array = tensor * (options.update_tensor + swapped) + at_once * options.update_all
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

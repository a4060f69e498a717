"""What is kept in host memory instead of on the device: bytes on the host and seconds over the host link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OffloadTime:
    """Seconds per step, (n,): what the device waits for, and transfers that run beside its work."""

    exposed: Array
    hidden: Array


def offloaded_bytes(problem: Problem, state: RankState, kept: Array) -> tuple[Array, Array]:
    """(states, activations) of a rank in host memory, (n, J) each; `kept`: activations kept, wherever they are."""
    offload = problem.offload
    states = state.optimizer * offload.optimizer + state.gradients * offload.gradients
    states = states + state.weights * offload.parameters
    if problem.states.optimizer > 0.0:
        updated = state.optimizer / problem.states.optimizer
        states = states + updated * (offload.optimizer * offload.host_extra)
    return states * offload.host_factor, kept * offload.activations


def host_bytes(problem: Problem, states: Array, activations: Array) -> Array:
    """Bytes of host memory of the fullest node, (n,), from what its ranks offload and what each process holds anyway.

    All ranks of a node are taken to be of the fullest stage. While loading, each process may hold a whole copy of the
    checkpoint (`load_copy`) instead of its later offloaded states.
    """
    offload = problem.offload
    running = np.max(states + activations, axis=1)
    each = np.maximum(running, offload.load_copy)
    local = float(min(problem.devices_per_node, problem.devices))
    result: Array = each * local + offload.process * local
    return result


def offload_seconds(
    problem: Problem, strategies: Strategies, state: RankState, table: StageTable, kept: Array, forward: Array,
    backward: Array, micro_batches: Ints,
) -> OffloadTime:  # fmt: skip
    """Transfers and host updates of a step; `kept` (n, J): activations of one micro-batch before offloading.

    Optimizer states on the host: gradients go down behind the backward of the last micro-batch, the host updates, the
    weights come up. Swapped to the device: states come up and go down while the device updates. Parameters come up for
    forward and backward of every micro-batch, activations go down in forward and up in backward; both hide behind the
    compute of the same pass as far as it lasts.
    """
    offload = problem.offload
    zero = np.zeros(len(strategies))
    if not offload.active:
        return OffloadTime(zero, zero)
    link, states = offload.link, problem.states
    slots = micro_batches.astype(np.float64)[:, None]
    ranks = table.candidates
    ahead, behind = forward[:, ranks], backward[:, ranks]
    updated = state.optimizer / states.optimizer if states.optimizer > 0.0 else np.zeros_like(state.optimizer)
    moved = updated * offload.optimizer
    exposed = np.zeros_like(updated)
    hidden = np.zeros_like(updated)
    if offload.update_on_host:
        down = moved * states.reduce / link
        exposed = exposed + np.maximum(down - behind, 0.0) + moved * states.gather / link
        hidden = hidden + np.minimum(down, behind)
        local = float(min(problem.devices_per_node, problem.devices))
        exposed = exposed + moved * local / offload.update_rate
    else:
        exposed = exposed + 2.0 * moved * states.optimizer / link
    weights = state.weights * offload.parameters / link
    tensors = kept * offload.activations / link
    for transfer, compute in ((weights + tensors, ahead), (weights + tensors, behind)):
        exposed = exposed + np.maximum(transfer - compute, 0.0) * slots
        hidden = hidden + np.minimum(transfer, compute) * slots
    return OffloadTime(np.max(exposed, axis=1), np.max(hidden, axis=1))

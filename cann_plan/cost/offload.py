"""What is kept in host memory instead of on the device: bytes on the host and seconds over the host link."""

from __future__ import annotations

import numpy as np

from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array


@dataclass(frozen=True, slots=True)
class OffloadTime:
    """Seconds per step, (n,): what the device waits for, and transfers that run beside its work."""

    exposed: Array
    hidden: Array


def offloaded_states(problem: Problem, state: RankState) -> Array:
    """Bytes of training states of a rank in host memory, (n, J)."""
    offload = problem.offload
    states = state.optimizer * offload.optimizer + state.gradients * offload.gradients
    states = states + state.weights * offload.parameters
    if problem.states.optimizer > 0.0:
        updated = state.optimizer / problem.states.optimizer
        states = states + updated * (offload.optimizer * offload.host_extra)
    return states * offload.host_factor


def host_bytes(problem: Problem, fullest: Array) -> Array:
    """Bytes of host memory of the fullest node, (n,), from what its fullest rank offloads and each process
    holds anyway.

    All ranks of a node are taken to be of the fullest stage. While loading, each process may hold a whole copy of the
    checkpoint (`load_copy`) instead of its later offloaded states.
    """
    offload = problem.offload
    each = np.maximum(fullest, offload.load_copy)
    local = float(min(problem.devices_per_node, problem.devices))
    result: Array = each * local + offload.process * local
    return result


def offload_seconds(
    problem: Problem, optimizer: Array, held: Array, kept: Array, forward: Array, backward: Array, slots: Array
) -> OffloadTime:
    """Transfers and host updates of a step, for ranks and strategies (J, n).

    `optimizer`, `held`: bytes of optimizer states and of weights before offloading; `kept`: activations of one
    micro-batch before offloading; `slots` (n,): micro-batches.

    Optimizer states on the host: gradients go down behind the backward of the last micro-batch, the host updates, the
    weights come up. Swapped to the device: states come up and go down while the device updates. Parameters come up for
    forward and backward of every micro-batch, activations go down in forward and up in backward; both hide behind the
    compute of the same pass as far as it lasts.
    """
    offload = problem.offload
    zero = np.zeros(slots.shape[0])
    if not offload.active:
        return OffloadTime(zero, zero)
    link, states = offload.link, problem.states
    updated = optimizer / states.optimizer if states.optimizer > 0.0 else np.zeros_like(optimizer)
    moved = updated * offload.optimizer
    exposed = np.zeros_like(updated)
    hidden = np.zeros_like(updated)
    if offload.update_on_host:
        down = moved * states.reduce / link
        exposed = exposed + np.maximum(down - backward, 0.0) + moved * states.gather / link
        hidden = hidden + np.minimum(down, backward)
        local = float(min(problem.devices_per_node, problem.devices))
        exposed = exposed + moved * local / offload.update_rate
    else:
        exposed = exposed + 2.0 * moved * states.optimizer / link
    weights = held * offload.parameters / link
    tensors = kept * offload.activations / link
    for transfer, compute in ((weights + tensors, forward), (weights + tensors, backward)):
        exposed = exposed + np.maximum(transfer - compute, 0.0) * slots
        hidden = hidden + np.minimum(transfer, compute) * slots
    return OffloadTime(exposed.max(axis=0), hidden.max(axis=0))

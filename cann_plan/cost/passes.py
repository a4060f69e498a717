"""What a strategy does with its micro-batches, whatever the sharding of its training states: chunk times from the layer
table, the pipeline's closed form, parts of the critical stage, tensors kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.groups import Group, exchange_seconds
from cann_plan.cost.layer_block import LayerBlock, edges
from cann_plan.cost.layer_table import LayerCost, PhaseCost
from cann_plan.cost.memory_activations import Activations, rank_activations
from cann_plan.cost.pipeline import step_seconds
from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import LOOP, PAIR, StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]

PARTS = ("forward", "backward", "recompute", "tensor_comm", "context_comm", "expert_comm", "pipeline_comm",
         "host_overhead", "hidden_tensor", "hidden_context", "hidden_expert", "hidden_pipeline")  # fmt: skip
"""Seconds per step of the critical stage; `hidden_*` run behind its compute."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Per strategy (n,), or per candidate rank and strategy (J, n); seconds, FLOPs, bytes.

    `pipelined`: first forward to last backward. `forward`, `backward`: a rank's work on one micro-batch; `drain`: how
    long before the step's last backward a rank has done its own. `activations` (n, J).
    """

    pipelined: Array
    forward: Array
    backward: Array
    drain: Array
    slots: Array
    critical: Ints
    parts: dict[str, Array]
    hardware_flops: Array
    activations: Activations


def passes(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, micro_batches: Ints
) -> Passes:
    """Passes of strategies that share one stage table; `row` (n,) picks their rows of the layer table.

    The critical stage is the busiest one.
    """
    s, policy = strategies, strategies.policy
    kinds = len(problem.architecture.kinds)
    count, chunks = row.shape[0], table.sizes.shape[0]
    recomputed = recomputed_layers(problem, strategies, table)
    starts = table.starts[None, :]
    replays = [table.prefix[kind][starts + recomputed] - table.prefix[kind][starts] for kind in range(kinds)]
    forward, backward = np.zeros((count, chunks)), np.zeros((count, chunks))
    weight = np.zeros((count, chunks))
    for kind in range(kinds):
        cost = block.costs[kind]
        present = table.counts[kind].astype(np.float64)[None, :]
        forward = forward + present * cost.forward.seconds[row][:, None]
        backward = backward + present * cost.backward.seconds[row][:, None]
        backward = backward + replays[kind].astype(np.float64) * _by_policy(cost, policy, row, "seconds")[:, None]
        weight = weight + present * cost.weight[row][:, None]
    forward = forward * (1.0 + problem.reference_copies)
    for index, chunk in edges(problem, chunks):
        cost = block.costs[index]
        ahead = cost.forward.seconds[row] * (1.0 + problem.reference_copies)
        forward[:, chunk] = forward[:, chunk] + ahead
        backward[:, chunk] = backward[:, chunk] + cost.backward.seconds[row]
    send = _send_seconds(problem, s, block, row, table.pipeline)
    pipelined = _pipeline(problem, s, table, forward, backward, weight, send, micro_batches)
    stage_forward, stage_backward = table.work(forward), table.work(backward)
    critical = np.argmax(stage_forward + stage_backward, axis=1)
    slots = micro_batches.astype(np.float64)
    parts = _critical_parts(problem, block, row, table, replays, critical, policy)
    parts = {name: parts[name] * slots for name in parts}
    blocking = np.zeros_like(send) if problem.overlap.p2p else send
    transfers = np.where((critical == 0) | (critical == table.pipeline - 1), 1.0, 2.0)
    parts["pipeline_comm"] = blocking * table.virtual * slots * transfers
    parts["hidden_pipeline"] = send * table.virtual * slots * 2.0 - blocking * table.virtual * slots * 2.0
    drain = np.zeros((count, table.pipeline))
    if table.placement == LOOP:
        drain[:, 1:] = np.cumsum(stage_backward + send[:, None], axis=1)[:, :-1]
    flops = _hardware_flops(problem, s, block, row, replays, table, policy, slots)
    kept = rank_activations(problem, s, block, row, table, recomputed, micro_batches, policy)
    ahead, behind, waits = (
        np.ascontiguousarray(x[:, table.candidates].T) for x in (stage_forward, stage_backward, drain)
    )
    return Passes(pipelined, ahead, behind, waits, slots, critical.astype(np.int64), parts, flops, kept)


def recomputed_layers(problem: Problem, strategies: Strategies, table: StageTable) -> Ints:
    """Layers replayed in backward per chunk, (n, C)."""
    layers = table.recomputed(strategies.recompute_layers, problem.recompute_lists, problem.recompute_scope)
    result: Ints = np.where((strategies.policy == 0)[:, None], 0, layers)
    return result


def _by_policy(cost: LayerCost, policy: Ints, row: Ints, field: str) -> Array:
    """A field of the replay pass of each strategy's policy, (n,)."""
    result: Array = getattr(cost.policies[0].replay, field)[row]
    for index in range(1, len(cost.policies)):
        result = np.where(policy == index, getattr(cost.policies[index].replay, field)[row], result)
    return result


def _send_seconds(problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, pipeline: int) -> Array:
    """Seconds of one boundary tensor between neighbouring stages, (n,); sharded with sequence parallelism."""
    s = strategies
    if pipeline == 1:
        return np.zeros(len(s))
    stride = np.where(s.rank_order == 0, problem.devices // s.pipeline, s.tensor * s.context)
    one = np.ones_like(stride)
    size = block.boundary_elements[row] * problem.settings.element_bytes
    chain = Group(s.pipeline, stride, one, one)
    if not problem.scatter_gather:
        return exchange_seconds(problem.communication, chain, "send_recv", size)
    # Narayanan et al. 2021 section 4.1: each tensor rank sends its slice, an all-gather inside the node rebuilds it
    sliced = np.where(s.sequence_parallel > 0, size, size / s.tensor)
    sent = exchange_seconds(problem.communication, chain, "send_recv", sliced)
    gathered = np.where(s.sequence_parallel > 0, 0.0, size)
    return sent + exchange_seconds(problem.communication, Group(s.tensor, one, one, one), "all_gather", gathered)


def _pipeline(
    problem: Problem, strategies: Strategies, table: StageTable, forward: Array, backward: Array, weight: Array,
    send: Array, micro_batches: Ints,
) -> Array:  # fmt: skip
    """Seconds from the first forward to the last backward, (n,), schedule by schedule."""
    result = np.zeros(forward.shape[0])
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        name = SCHEDULES[code]
        split = name.startswith(("zb", "dualpipe"))
        result[rows] = step_seconds(
            name, forward[rows], (backward - weight)[rows] if split else backward[rows], send[rows],
            micro_batches[rows], table.virtual, weight[rows] if split else None, problem.overlap.p2p,
        )  # fmt: skip
    return result


def _critical_parts(
    problem: Problem, block: LayerBlock, row: Ints, table: StageTable, replays: list[Ints], critical: Ints,
    policy: Ints,
) -> dict[str, Array]:  # fmt: skip
    """Per-micro-batch seconds of the critical stage by part, (n,)."""
    kinds = len(problem.architecture.kinds)
    count = row.shape[0]
    at = np.arange(count)
    copies = 1.0 + problem.reference_copies
    parts = {name: np.zeros(count) for name in PARTS}

    def add(name: str, phase: PhaseCost, times: Array) -> None:
        parts[name] = parts[name] + times * phase.compute[row]
        for axis in ("tensor", "context", "expert"):
            parts[f"{axis}_comm"] = parts[f"{axis}_comm"] + times * getattr(phase, axis)[row]
            parts[f"hidden_{axis}"] = parts[f"hidden_{axis}"] + times * getattr(phase, f"hidden_{axis}")[row]
        parts["host_overhead"] = parts["host_overhead"] + times * phase.host[row]

    for kind in range(kinds):
        cost = block.costs[kind]
        present = table.work(table.counts[kind].astype(np.float64))[critical]
        add("forward", cost.forward, present * copies)
        add("backward", cost.backward, present)
        replayed = table.work(replays[kind].astype(np.float64))[at, critical]
        for index in range(len(cost.policies)):
            chosen = np.where(policy == index, replayed, 0.0)
            if chosen.any():
                add("recompute", cost.policies[index].replay, chosen)
    for index, chunk in edges(problem, table.sizes.shape[0]):
        here = np.zeros(count)
        for rank in table.holders(chunk):
            here = np.where(critical == rank, 0.5 if table.placement == PAIR else 1.0, here)
        add("forward", block.costs[index].forward, here * copies)
        add("backward", block.costs[index].backward, here)
    return parts


def _hardware_flops(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, replays: list[Ints], table: StageTable,
    policy: Ints, slots: Array,
) -> Array:  # fmt: skip
    """FLOPs all devices execute in a step, replays included, (n,)."""
    kinds = len(problem.architecture.kinds)
    total = np.zeros(row.shape[0])
    copies = 1.0 + problem.reference_copies
    for kind in range(kinds):
        cost = block.costs[kind]
        layers = float(table.counts[kind].sum())
        total = total + layers * (cost.forward.flops[row] * copies + cost.backward.flops[row])
        replayed = replays[kind].sum(axis=1).astype(np.float64)
        total = total + replayed * _by_policy(cost, policy, row, "flops")
    for index, _ in edges(problem, table.sizes.shape[0]):
        edge = block.costs[index]
        total = total + edge.forward.flops[row] * copies + edge.backward.flops[row]
    s = strategies
    return total * slots * (s.tensor * s.context * s.data).astype(np.float64)

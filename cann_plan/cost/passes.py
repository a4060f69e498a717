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
from cann_plan.cost.memory_activations import recomputed_layers
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
    """Per strategy (n,), or per candidate rank and strategy (J, n); seconds, FLOPs.

    `pipelined`: first forward to last backward. `forward`, `backward`: a rank's work on one micro-batch; `drain`: how
    long before the step's last backward a rank has done its own.
    """

    pipelined: Array
    forward: Array
    backward: Array
    drain: Array
    slots: Array
    critical: Ints
    parts: dict[str, Array]
    hardware_flops: Array


def passes(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, micro_batches: Ints, *,
    parts: bool = True,
) -> Passes:  # fmt: skip
    """Passes of strategies that share one stage table; `row` (n,) picks their rows of the layer table.

    The critical stage is the busiest one. Without `parts`, those and the FLOPs are left out. Chunks that cost the same
    are worked out once (`StageTable.classes`).
    """
    s = strategies
    replays = table.replayed(recomputed_layers(problem, s, table))
    forward, backward, weight = _chunk_seconds(problem, s, block, row, table, replays)
    send = _send_seconds(problem, s, block, row, table.pipeline)
    pipelined = _pipeline(problem, s, table, forward, backward, weight, send, micro_batches)
    half = 0.5 if table.placement == PAIR else 1.0
    ahead, behind = table.of_ranks(forward) * half, table.of_ranks(backward) * half
    at = np.argmax(ahead + behind, axis=0)
    critical = table.candidates[at]
    slots = micro_batches.astype(np.float64)
    drain = _drain(table, behind, send)
    if not parts:
        return Passes(pipelined, ahead, behind, drain, slots, critical, {}, np.zeros(0))
    found = _critical_parts(problem, block, row, table, replays, at, s.policy)
    found = {name: found[name] * slots for name in found}
    blocking = np.zeros_like(send) if problem.overlap.p2p else send
    transfers = np.where((critical == 0) | (critical == table.pipeline - 1), 1.0, 2.0)
    found["pipeline_comm"] = blocking * table.virtual * slots * transfers
    found["hidden_pipeline"] = send * table.virtual * slots * 2.0 - blocking * table.virtual * slots * 2.0
    flops = _hardware_flops(problem, s, block, row, replays, table, slots)
    return Passes(pipelined, ahead, behind, drain, slots, critical, found, flops)


def busy_seconds(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, micro_batches: Ints
) -> Array:
    """Seconds the busiest stage works in a step, (n,): no schedule is faster."""
    replays = table.replayed(recomputed_layers(problem, strategies, table))
    forward, backward, _ = _chunk_seconds(problem, strategies, block, row, table, replays)
    half = 0.5 if table.placement == PAIR else 1.0
    work = (table.of_ranks(forward) * half + table.of_ranks(backward) * half).max(axis=0)
    result: Array = work * micro_batches.astype(np.float64)
    return result


def _chunk_seconds(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, replays: list[Ints]
) -> tuple[Array, Array, Array]:
    """Forward, backward and the weight gradients in it of a chunk of each class, seconds, (Q, n)."""
    counts = table.counts[:, table.classes].astype(np.float64)
    shape = (counts.shape[1], row.shape[0])
    forward, backward, weight = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for kind, replayed in enumerate(replays):
        cost = block.costs[kind]
        present = counts[kind][:, None]
        forward = forward + present * cost.forward.seconds[row]
        backward = backward + present * cost.backward.seconds[row]
        backward = backward + replayed * _by_policy(cost, strategies.policy, row, "seconds")
        weight = weight + present * cost.weight[row]
    copies = 1.0 + problem.reference_copies
    forward = forward * copies
    for index, chunk in edges(problem, table.sizes.shape[0]):
        cost, place = block.costs[index], table.member[chunk]
        forward[place] = forward[place] + cost.forward.seconds[row] * copies
        backward[place] = backward[place] + cost.backward.seconds[row]
    return forward, backward, weight


def _drain(table: StageTable, backward: Array, send: Array) -> Array:
    """Seconds between a rank's last backward and the step's, (J, n): the backwards of the ranks before it."""
    drain = np.zeros_like(backward)
    if table.placement != LOOP:
        return drain
    for place, rank in enumerate(table.candidates):
        earlier = np.bincount(table.profile[:rank], minlength=table.candidates.shape[0])
        total = rank * send
        for other in np.flatnonzero(earlier):
            total = total + float(earlier[other]) * backward[other]
        drain[place] = total
    return drain


def _by_policy(cost: LayerCost, policy: Ints, row: Ints, field: str) -> Array:
    """A field of the replay pass of each strategy's policy, (n,)."""
    result: Array = np.stack([getattr(chosen.replay, field) for chosen in cost.policies])[policy, row]
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
    """Seconds from the first forward to the last backward, (n,), schedule by schedule; chunk classes (Q, n)."""
    result = np.zeros(send.shape[0])
    for code in distinct(strategies.schedule):
        rows = np.flatnonzero(strategies.schedule == code)
        name = SCHEDULES[code]
        split = name.startswith(("zb", "dualpipe"))
        behind = backward - weight if split else backward
        chunks = [
            x.take(rows, axis=1)[table.member].T for x in ((forward, behind, weight) if split else (forward, behind))
        ]
        result[rows] = step_seconds(
            name, chunks[0], chunks[1], send[rows], micro_batches[rows], table.virtual, chunks[2] if split else None,
            problem.overlap.p2p,
        )  # fmt: skip
    return result


def _critical_parts(
    problem: Problem, block: LayerBlock, row: Ints, table: StageTable, replays: list[Ints], at: Ints, policy: Ints
) -> dict[str, Array]:
    """Per-micro-batch seconds of the critical stage by part, (n,); `at`: its place among the candidates."""
    count = row.shape[0]
    columns = np.arange(count)
    copies = 1.0 + problem.reference_copies
    half = 0.5 if table.placement == PAIR else 1.0
    parts = {name: np.zeros(count) for name in PARTS}

    def add(name: str, phase: PhaseCost, times: Array) -> None:
        parts[name] = parts[name] + times * phase.compute[row]
        for axis in ("tensor", "context", "expert"):
            parts[f"{axis}_comm"] = parts[f"{axis}_comm"] + times * getattr(phase, axis)[row]
            parts[f"hidden_{axis}"] = parts[f"hidden_{axis}"] + times * getattr(phase, f"hidden_{axis}")[row]
        parts["host_overhead"] = parts["host_overhead"] + times * phase.host[row]

    for kind, classes in enumerate(replays):
        cost = block.costs[kind]
        present = table.layers[kind][table.candidates][at] * half
        add("forward", cost.forward, present * copies)
        add("backward", cost.backward, present)
        replayed = table.of_ranks(classes)[at, columns] * half
        for index in range(len(cost.policies)):
            chosen = np.where(policy == index, replayed, 0.0)
            if chosen.any():
                add("recompute", cost.policies[index].replay, chosen)
    for index, chunk in edges(problem, table.sizes.shape[0]):
        here = np.where(table.holds(chunk)[at], half, 0.0)
        add("forward", block.costs[index].forward, here * copies)
        add("backward", block.costs[index].backward, here)
    return parts


def _hardware_flops(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, replays: list[Ints], table: StageTable,
    slots: Array,
) -> Array:  # fmt: skip
    """FLOPs all devices execute in a step, replays included, (n,)."""
    total = np.zeros(row.shape[0])
    copies = 1.0 + problem.reference_copies
    members = np.bincount(table.member)
    for kind, classes in enumerate(replays):
        cost = block.costs[kind]
        layers = float(table.counts[kind].sum())
        total = total + layers * (cost.forward.flops[row] * copies + cost.backward.flops[row])
        replayed = np.zeros(row.shape[0])
        for place, times in enumerate(members):
            replayed = replayed + float(times) * classes[place]
        total = total + replayed * _by_policy(cost, strategies.policy, row, "flops")
    for index, _ in edges(problem, table.sizes.shape[0]):
        edge = block.costs[index]
        total = total + edge.forward.flops[row] * copies + edge.backward.flops[row]
    s = strategies
    return total * slots * (s.tensor * s.context * s.data).astype(np.float64)

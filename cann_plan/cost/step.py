"""Time of one optimizer step of a group of strategies that share pipeline and virtual degree and layer split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct
from cann_plan.cost.gradient_exchange import finish_seconds
from cann_plan.cost.groups import Group, exchange_seconds
from cann_plan.cost.layer_block import LayerBlock, edges
from cann_plan.cost.layer_table import LayerCost, PhaseCost
from cann_plan.cost.memory_activations import rank_activations
from cann_plan.cost.offload import OffloadTime, offload_seconds
from cann_plan.cost.pipeline import step_seconds
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]

BREAKDOWN = (
    "forward", "backward", "recompute", "tensor_comm", "context_comm", "expert_comm", "pipeline_comm",
    "pipeline_bubble", "data_comm", "optimizer", "offload", "input_stall", "host_overhead",
)  # fmt: skip
"""Parts of a step along the critical stage; they sum to the step."""

OVERLAPPED = ("tensor", "context", "expert", "pipeline", "data", "offload", "input")


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds, arrays (n,): the step, its parts along the critical stage, what is hidden, FLOPs of all devices."""

    step: Array
    breakdown: dict[str, Array]
    overlapped: dict[str, Array]
    critical_stage: Ints
    hardware_flops: Array


def step_time(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, recomputed: Ints,
    state: RankState, micro_batches: Ints, policy: Ints,
) -> StepTime:  # fmt: skip
    """Chunk times from the layer table, the pipeline's closed form, then gradient exchange and optimizer.

    The critical stage is the busiest one; the bubble is what remains of the step.
    """
    kinds = len(problem.architecture.kinds)
    pipeline, virtual = table.pipeline, table.virtual
    count, chunks = row.shape[0], table.sizes.shape[0]
    starts = table.starts[None, :]
    replays = [table.prefix[kind][starts + recomputed] - table.prefix[kind][starts] for kind in range(kinds)]
    forward = np.zeros((count, chunks))
    backward = np.zeros((count, chunks))
    for kind in range(kinds):
        cost = block.costs[kind]
        present = table.counts[kind].astype(np.float64)[None, :]
        forward = forward + present * cost.forward.seconds[row][:, None]
        backward = backward + present * cost.backward.seconds[row][:, None]
        replay = _by_policy(cost, policy, row, "seconds")
        backward = backward + replays[kind].astype(np.float64) * replay[:, None]
    forward = forward * (1.0 + problem.reference_copies)
    for index, chunk in edges(problem, chunks):
        cost = block.costs[index]
        ahead = cost.forward.seconds[row] * (1.0 + problem.reference_copies)
        forward[:, chunk] = forward[:, chunk] + ahead
        backward[:, chunk] = backward[:, chunk] + cost.backward.seconds[row]
    send = _send_seconds(problem, strategies, block, row, pipeline)
    blocking = np.zeros_like(send) if problem.overlap.p2p else send
    weight = _weight(problem, block, row, table)
    pipelined = _pipeline(problem, strategies, forward, backward, weight, send, micro_batches)
    stage_forward = _fold(forward, pipeline, virtual)
    stage_backward = _fold(backward, pipeline, virtual)
    critical = np.argmax(stage_forward + stage_backward, axis=1)
    finish = finish_seconds(problem, strategies, state, table, stage_forward, stage_backward, send, micro_batches)
    offload = _offload(problem, strategies, block, row, table, recomputed, state, micro_batches, policy, stage_forward,
                       stage_backward)  # fmt: skip
    step = pipelined + finish.sharded + finish.exchange + finish.optimizer + problem.compute.stack.step_s
    step = step + offload.exposed
    parts = _critical_parts(problem, block, row, table, replays, critical, policy)
    slots = micro_batches.astype(np.float64)
    breakdown = {name: parts[name] * slots for name in BREAKDOWN[:6]}
    transfers = np.where((critical == 0) | (critical == pipeline - 1), 1.0, 2.0)
    breakdown["pipeline_comm"] = blocking * virtual * slots * transfers
    breakdown["data_comm"] = finish.exchange + finish.sharded
    breakdown["optimizer"] = finish.optimizer
    breakdown["offload"] = offload.exposed
    breakdown["input_stall"] = np.zeros(count)
    breakdown["host_overhead"] = parts["host_overhead"] * slots + problem.compute.stack.step_s
    known = np.zeros(count)
    for name in BREAKDOWN:
        if name != "pipeline_bubble":
            known = known + breakdown[name]
    # a send counted on the critical stage may sit in a gap of the schedule: the bubble is never negative
    excess = np.maximum(known - step, 0.0)
    taken = np.minimum(excess, breakdown["pipeline_comm"])
    breakdown["pipeline_comm"] = breakdown["pipeline_comm"] - taken
    breakdown["pipeline_bubble"] = step - (known - taken)
    overlapped = {axis: parts[f"hidden_{axis}"] * slots for axis in ("tensor", "context", "expert")}
    overlapped["pipeline"] = send * virtual * slots * 2.0 - blocking * virtual * slots * 2.0
    overlapped["data"] = finish.hidden
    overlapped["offload"] = offload.hidden
    overlapped["input"] = np.zeros(count)
    flops = _hardware_flops(problem, strategies, block, row, replays, table, policy, slots)
    return StepTime(step, {name: breakdown[name] for name in BREAKDOWN}, overlapped, critical.astype(np.int64), flops)


def _offload(
    problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, table: StageTable, recomputed: Ints,
    state: RankState, micro_batches: Ints, policy: Ints, forward: Array, backward: Array,
) -> OffloadTime:  # fmt: skip
    """Seconds of transfers between host and device and of updates on the host."""
    if not problem.offload.active:
        zero = np.zeros(len(strategies))
        return OffloadTime(zero, zero)
    passes = rank_activations(problem, strategies, block, row, table, recomputed, micro_batches, policy)
    once = passes.kept / np.maximum(passes.in_flight, 1.0)
    return offload_seconds(problem, strategies, state, table, once, forward, backward, micro_batches)


def _by_policy(cost: LayerCost, policy: Ints, row: Ints, field: str) -> Array:
    """A field of the replay pass of each strategy's policy, (n,)."""
    result: Array = getattr(cost.policies[0].replay, field)[row]
    for index in range(1, len(cost.policies)):
        result = np.where(policy == index, getattr(cost.policies[index].replay, field)[row], result)
    return result


def _fold(chunks: Array, pipeline: int, virtual: int) -> Array:
    """Chunk values (n, v * p) added up per rank (n, p), in chunk order."""
    total = chunks[:, :pipeline]
    for index in range(1, virtual):
        total = total + chunks[:, index * pipeline : (index + 1) * pipeline]
    return total


def _send_seconds(problem: Problem, strategies: Strategies, block: LayerBlock, row: Ints, pipeline: int) -> Array:
    """Seconds of one boundary tensor between neighbouring stages, (n,); sharded with sequence parallelism."""
    s = strategies
    if pipeline == 1:
        return np.zeros(len(s))
    stride = problem.devices // s.pipeline if problem.pipeline_outermost else s.tensor * s.context
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


def _weight(problem: Problem, block: LayerBlock, row: Ints, table: StageTable) -> Array:
    """Weight-gradient seconds of each chunk, (n, C): what zero-bubble schedules move into bubbles."""
    total = np.zeros((row.shape[0], table.sizes.shape[0]))
    for kind in range(len(problem.architecture.kinds)):
        present = table.counts[kind].astype(np.float64)[None, :]
        total = total + present * block.costs[kind].weight[row][:, None]
    return total


def _pipeline(
    problem: Problem, strategies: Strategies, forward: Array, backward: Array, weight: Array, send: Array,
    micro_batches: Ints,
) -> Array:  # fmt: skip
    """Seconds from the first forward to the last backward, (n,), schedule by schedule."""
    result = np.zeros(forward.shape[0])
    virtual = int(strategies.virtual[0])
    for code in distinct(strategies.schedule):
        rows = strategies.schedule == code
        name = SCHEDULES[code]
        split = name.startswith(("zb", "dualpipe"))
        result[rows] = step_seconds(
            name, forward[rows], (backward - weight)[rows] if split else backward[rows], send[rows],
            micro_batches[rows], virtual, weight[rows] if split else None, problem.overlap.p2p,
        )  # fmt: skip
    return result


def _critical_parts(
    problem: Problem, block: LayerBlock, row: Ints, table: StageTable, replays: list[Ints], critical: Ints,
    policy: Ints,
) -> dict[str, Array]:  # fmt: skip
    """Per-micro-batch seconds of the critical stage by part, (n,)."""
    kinds = len(problem.architecture.kinds)
    pipeline, virtual = table.pipeline, table.virtual
    count = row.shape[0]
    at = np.arange(count)
    copies = 1.0 + problem.reference_copies
    names = ("forward", "backward", "recompute", "tensor_comm", "context_comm", "expert_comm", "host_overhead",
             "hidden_tensor", "hidden_context", "hidden_expert")  # fmt: skip
    parts = {name: np.zeros(count) for name in names}

    def add(name: str, phase: PhaseCost, times: Array) -> None:
        parts[name] = parts[name] + times * phase.compute[row]
        for axis in ("tensor", "context", "expert"):
            parts[f"{axis}_comm"] = parts[f"{axis}_comm"] + times * getattr(phase, axis)[row]
            parts[f"hidden_{axis}"] = parts[f"hidden_{axis}"] + times * getattr(phase, f"hidden_{axis}")[row]
        parts["host_overhead"] = parts["host_overhead"] + times * phase.host[row]

    for kind in range(kinds):
        cost = block.costs[kind]
        present = table.counts[kind].reshape(virtual, pipeline).sum(axis=0)[critical].astype(np.float64)
        add("forward", cost.forward, present * copies)
        add("backward", cost.backward, present)
        replayed = _fold(replays[kind].astype(np.float64), pipeline, virtual)[at, critical]
        for index in range(len(cost.policies)):
            chosen = np.where(policy == index, replayed, 0.0)
            if chosen.any():
                add("recompute", cost.policies[index].replay, chosen)
    for index, rank in edges(problem, pipeline):
        here = (critical == rank).astype(np.float64)
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
    pipeline = table.pipeline
    for kind in range(kinds):
        cost = block.costs[kind]
        layers = float(table.counts[kind].sum())
        total = total + layers * (cost.forward.flops[row] * copies + cost.backward.flops[row])
        replayed = replays[kind].sum(axis=1).astype(np.float64)
        total = total + replayed * _by_policy(cost, policy, row, "flops")
    for index, _ in edges(problem, pipeline):
        edge = block.costs[index]
        total = total + edge.forward.flops[row] * copies + edge.backward.flops[row]
    s = strategies
    return total * slots * (s.tensor * s.context * s.data).astype(np.float64)

"""What follows the last backward: gradient exchange, optimizer step, parameter gather; and fully sharded traffic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.groups import Group, exchange_seconds
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.hardware.vector import optimizer_seconds, vector_seconds
from cann_plan.network.compression import ExchangeTime, compressed_exchange
from cann_plan.network.overlap import compute_slowdown, exposed_seconds, never_hidden_share
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Finish:
    """Seconds, (n,): exposed gradient exchange and parameter gather, optimizer, exposed fully-sharded traffic over
    all micro-batches, and what of the exchange is hidden.
    """

    exchange: Array
    optimizer: Array
    sharded: Array
    hidden: Array


def finish_seconds(
    problem: Problem, strategies: Strategies, state: RankState, table: StageTable, stage_forward: Array,
    stage_backward: Array, send: Array, micro_batches: Ints,
) -> Finish:  # fmt: skip
    """Exposed seconds after the pipeline.

    A rank r > 0 finishes its last backward while stages before it still drain, so its exchange hides behind that
    drain; the step ends when the slowest rank is done. With overlap, gradient buckets hide behind the last
    micro-batch's backward except a share that never hides (first bucket, last layers). Compressed gradients travel in
    fewer bytes; encoding and decoding them takes compute units, so that it hides behind no backward.
    """
    s = strategies
    stage = s.zero_stage[:, None]
    ranks = table.candidates
    forward, backward = stage_forward[:, ranks], stage_backward[:, ranks]
    drain = np.concatenate(
        [np.zeros((len(s), 1)), np.cumsum(stage_backward + send[:, None], axis=1)[:, :-1]], axis=1
    )[:, ranks]  # fmt: skip
    reduce_bytes = problem.states.reduce * problem.trainable_fraction
    gather_bytes = problem.states.gather * problem.trainable_fraction
    unsharded = np.where(stage == 0, 1.0, 0.0)
    one_two = np.where((stage == 1) | (stage == 2), 1.0, 0.0)
    replicated = gradient_seconds(problem, state, "all_reduce", reduce_bytes)
    scattered = gradient_seconds(problem, state, "reduce_scatter", reduce_bytes)
    reduce = replicated.wire * unsharded + scattered.wire * one_two
    codec = replicated.codec * unsharded + scattered.codec * one_two
    gather = _both(problem, state, "all_gather", gather_bytes) * one_two
    reduce = reduce + _tied_embedding(problem, strategies, state, table)
    exposed, exposed_gather = reduce, gather
    parameters = state.dense + state.expert
    never = never_hidden_share(parameters, state.dense_group.ranks[:, None])
    if problem.overlap.grad_reduce:
        slowdown = _slowdown(problem, parameters * (reduce_bytes * _wire_share(problem)), reduce)
        exposed = exposed_seconds(reduce, backward, never, slowdown)
    if problem.overlap.param_gather:
        slowdown = _slowdown(problem, parameters * gather_bytes, gather)
        exposed_gather = exposed_seconds(gather, forward, never, slowdown)
    waits = np.maximum(exposed + codec - drain, 0.0)
    exchange = np.max(waits, axis=1) + np.max(exposed_gather, axis=1)
    hidden = np.max(reduce + codec + gather, axis=1) - exchange
    optimizer = np.max(_optimizer(problem, s, state), axis=1)
    sharded, sharded_hidden = _fully_sharded(problem, s, state, table, forward, backward, micro_batches)
    return Finish(exchange, optimizer, sharded, np.maximum(hidden, 0.0) + sharded_hidden)


def _slowdown(problem: Problem, size: Array, seconds: Array) -> Array:
    """Fraction by which compute is slower while `size` bytes move beside it in `seconds`; shapes (n, J)."""
    rate = size / np.maximum(seconds, 1e-9)
    return compute_slowdown(problem.library, rate, problem.compute.device.memory_bandwidth).reshape(size.shape)


def _wire_share(problem: Problem) -> float:
    """Bytes of the gradient exchange over those without compression."""
    return problem.compression.wire_share(problem.states.reduce)


def _exchanged(problem: Problem, group: Group, operation: str, size: Array) -> ExchangeTime:
    """Gradients of `size` bytes over one group as the plan compresses them, (n,)."""
    table = problem.communication
    if problem.compression.kind == "none":
        return ExchangeTime(exchange_seconds(table, group, operation, size), np.zeros_like(size))
    groups = table.groups(
        group.size, group.stride, outer_size=group.outer_size, outer_stride=group.outer_stride
    )  # fmt: skip
    found = compressed_exchange(
        table, operation, size, groups, group.ranks, problem.compression, problem.states.reduce,
        problem.compute.device.memory_bandwidth,
    )  # fmt: skip
    return ExchangeTime(np.where(size > 0.0, found.wire, 0.0), found.codec)


def gradient_seconds(problem: Problem, state: RankState, operation: str, per_parameter: float) -> ExchangeTime:
    """Seconds on the wire and of the codec for gradients of dense parameters and of experts, (n, J)."""
    wire, codec = [], []
    for column in range(state.dense.shape[1]):
        dense = _exchanged(problem, state.dense_group, operation, state.dense[:, column] * per_parameter)
        on_wire, coding = dense.wire, dense.codec
        expert = state.expert[:, column] * per_parameter
        if expert.any():
            routed = _exchanged(problem, state.expert_group, operation, expert)
            on_wire, coding = on_wire + routed.wire, coding + routed.codec
        wire.append(on_wire)
        codec.append(coding)
    return ExchangeTime(np.stack(wire, axis=1), np.stack(codec, axis=1))


def _both(problem: Problem, state: RankState, operation: str, per_parameter: float) -> Array:
    """Seconds of gathering dense parameters over their group and experts over theirs, (n, J)."""
    columns = []
    for column in range(state.dense.shape[1]):
        dense = exchange_seconds(
            problem.communication, state.dense_group, operation, state.dense[:, column] * per_parameter
        )
        expert = state.expert[:, column] * per_parameter
        if expert.any():
            dense = dense + exchange_seconds(problem.communication, state.expert_group, operation, expert)
        columns.append(dense)
    return np.stack(columns, axis=1)


def _tied_embedding(problem: Problem, strategies: Strategies, state: RankState, table: StageTable) -> Array:
    """Gradient all-reduce of a tied table between the first and the last stage, (n, J)."""
    width = table.candidates.shape[0]
    if not problem.architecture.tied_embeddings or table.pipeline == 1:
        return np.zeros((len(strategies), width))
    s = strategies
    size = problem.architecture.vocabulary * problem.architecture.hidden / s.tensor * problem.states.reduce
    block = problem.devices // s.pipeline if problem.pipeline_outermost else s.tensor * s.context
    two = np.full_like(s.tensor, 2)
    one = np.ones_like(s.tensor)
    group = Group(two, block * (s.pipeline - 1), one, one)
    seconds = exchange_seconds(problem.communication, group, "all_reduce", size)
    edge = (table.candidates == 0) | (table.candidates == table.pipeline - 1)
    result: Array = seconds[:, None] * edge[None, :]
    return result


def _optimizer(problem: Problem, s: Strategies, state: RankState) -> Array:
    """Seconds of the optimizer step, (n, J): the gradient norm and the update read and write the local shard, and the
    gradient buffer is cleared for the next step.
    """
    shard = np.where(s.shard_group > 0, s.shard_group, state.dense_group.ranks)
    ways = np.minimum(state.dense_group.ranks, shard).astype(np.float64)[:, None]
    expert_ways = np.minimum(state.expert_group.ranks, shard).astype(np.float64)[:, None]
    sharded = s.zero_stage[:, None] >= 1
    local = np.where(sharded, state.dense / ways + state.expert / expert_ways, state.dense + state.expert)
    states = problem.states
    update = optimizer_seconds(
        problem.compute.device, local * problem.trainable_fraction, states.optimizer_traffic + states.gradient
    )
    return update + vector_seconds(problem.compute.device, state.gradients)


def _fully_sharded(
    problem: Problem,
    s: Strategies,
    state: RankState,
    table: StageTable,
    forward: Array,
    backward: Array,
    micro_batches: Ints,
) -> tuple[Array, Array]:
    """Exposed and hidden seconds of parameter gathers and gradient scatters of ZeRO-3 / FSDP, (n,).

    Every micro-batch gathers parameters in forward and again in backward and scatters gradients; layer-wise
    prefetch hides them behind the layers' compute as far as that lasts, except a share for the first layer.
    """
    active = s.zero_stage >= 3
    zero = np.zeros(len(s))
    if not active.any():
        return zero, zero
    states = problem.states
    shard = np.where(s.shard_group > 0, np.minimum(s.shard_group, state.dense_group.ranks), state.dense_group.ranks)
    group = Group(shard, state.dense_group.stride, np.ones_like(shard), np.ones_like(shard))
    copies = state.dense_group.ranks // np.maximum(shard, 1)
    replicas = Group(copies, state.dense_group.stride * shard, np.ones_like(shard), np.ones_like(shard))
    gather, scatter, across, codec, copied = [], [], [], [], []
    for column in range(state.dense.shape[1]):
        parameters = state.dense[:, column] + state.expert[:, column]
        gather.append(exchange_seconds(problem.communication, group, "all_gather", parameters * states.gather))
        trained = parameters * problem.trainable_fraction
        scattered = _exchanged(problem, group, "reduce_scatter", trained * states.reduce)
        scatter.append(scattered.wire)
        codec.append(scattered.codec)
        summed = _exchanged(problem, replicas, "all_reduce", trained / shard * states.reduce)
        across.append(summed.wire)
        copied.append(summed.codec)
    coding, copying = np.stack(codec, 1), np.max(np.stack(copied, 1), axis=1)
    gathers, scatters, replica = np.stack(gather, 1), np.stack(scatter, 1), np.stack(across, 1)
    total_forward = gathers
    total_backward = gathers + scatters
    # the first layer's gather of a pass has nothing to hide behind
    never = table.pipeline * table.virtual / float(problem.architecture.layers)
    parameters = state.dense + state.expert
    slow_forward = _slowdown(problem, parameters * states.gather, total_forward)
    reduced = states.reduce * _wire_share(problem)
    slow_backward = _slowdown(problem, parameters * (states.gather + reduced), total_backward)
    exposed_forward = exposed_seconds(total_forward, forward, never, slow_forward)
    exposed_backward = exposed_seconds(total_backward, backward, never, slow_backward) + coding
    slots = micro_batches.astype(np.float64)
    exposed = np.max(exposed_forward + exposed_backward, axis=1) * slots
    total = np.max(total_forward + total_backward + coding, axis=1) * slots
    last = np.max(replica, axis=1)
    exposed = np.where(active, exposed + last * never + copying, 0.0)
    total = np.where(active, total + last + copying, 0.0)
    return exposed, np.maximum(total - exposed, 0.0)

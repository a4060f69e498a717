"""What follows the last backward: gradient exchange, optimizer step, parameter gather; and fully sharded traffic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.groups import Group, exchange_seconds, interned, seconds_on
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import LOOP, PAIR, StageTable
from cann_plan.cost.strategies import Strategies
from cann_plan.hardware.vector import optimizer_seconds, vector_seconds
from cann_plan.network.compression import ExchangeTime, compressed_exchange
from cann_plan.network.overlap import compute_slowdown, exposed_seconds, never_hidden_share
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShardedCosts:
    """Fully sharded parameters (ZeRO-3, FSDP), per micro-batch, seconds (J, n): gathers of a forward, gathers and
    scatters of a backward, what they slow compute by, codec. (n,): once per step, exposed and in all.
    """

    forward: Array
    backward: Array
    slow_forward: Array
    slow_backward: Array
    codec: Array
    once: Array
    once_total: Array


@dataclass(frozen=True, slots=True)
class ExchangeCosts:
    """What a strategy's training states cost a step before anything is hidden, per rank and strategy (J, n); seconds.

    `reduce`, `gather`: gradients and parameters on the wire; `never`: share of them that hides behind nothing;
    `slow_*`: fraction by which compute is slower while they run; `total` (n,): of the slowest rank. `sharded` holds the
    columns with fully sharded parameters, `place` (n,) their numbers there, -1 for the others.
    """

    reduce: Array
    codec: Array
    gather: Array
    never: Array
    slow_reduce: Array
    slow_gather: Array
    total: Array
    optimizer: Array
    place: Ints
    sharded: ShardedCosts | None
    each: Array  # (n,) 1 where gradients are scattered after every micro-batch


@dataclass(frozen=True, slots=True)
class Finish:
    """Seconds, (n,): exposed gradient exchange and parameter gather, optimizer, exposed fully-sharded traffic over
    all micro-batches, and what of the exchange is hidden.
    """

    exchange: Array
    optimizer: Array
    sharded: Array
    hidden: Array


def exchange_costs(problem: Problem, strategies: Strategies, state: RankState, table: StageTable) -> ExchangeCosts:
    """Costs of the training states of strategies that share a stage table.

    Compressed gradients travel in fewer bytes; encoding and decoding them takes compute units, so that it hides behind
    no backward.
    """
    s = strategies
    stage = s.zero_stage[:, None]
    reduce_bytes = problem.states.reduce * problem.trainable_fraction
    gather_bytes = problem.states.gather * problem.trainable_fraction
    unsharded = np.where(stage == 0, 1.0, 0.0)
    one_two = np.where((stage == 1) | (stage == 2), 1.0, 0.0)
    groups = _interned(problem, state)
    replicated = _gradient_seconds(problem, state, groups, "all_reduce", reduce_bytes)
    scattered = _gradient_seconds(problem, state, groups, "reduce_scatter", reduce_bytes)
    reduce = replicated.wire * unsharded + scattered.wire * one_two
    codec = replicated.codec * unsharded + scattered.codec * one_two
    gather = _gathers(problem, state, groups, gather_bytes) * one_two
    reduce = reduce + _tied_embedding(problem, strategies, state, table) + _paired(problem, strategies, state, table)
    parameters = state.dense + state.expert
    never = never_hidden_share(parameters, state.dense_group.ranks[:, None])
    slow_reduce = _slowdown(problem, parameters * (reduce_bytes * _wire_share(problem)), reduce)
    slow_gather = _slowdown(problem, parameters * gather_bytes, gather)
    optimizer = np.max(_optimizer(problem, s, state), axis=1)
    total = np.max(reduce + codec + gather, axis=1)
    place = np.where(s.zero_stage >= 3, np.cumsum(s.zero_stage >= 3) - 1, -1)
    sharded = _sharded_costs(problem, s, state, table, np.flatnonzero(s.zero_stage >= 3))
    return ExchangeCosts(
        _by_rank(reduce), _by_rank(codec), _by_rank(gather), _by_rank(never), _by_rank(slow_reduce),
        _by_rank(slow_gather), total, optimizer, place, sharded,
        np.where((s.zero_stage == 2) & problem.scatter_each_micro_batch, 1.0, 0.0),
    )  # fmt: skip


def _by_rank(values: Array) -> Array:
    """(n, J) with ranks along the first axis, contiguous."""
    return np.ascontiguousarray(values.T)


def finish_seconds(
    problem: Problem, costs: ExchangeCosts, at: Ints, forward: Array, backward: Array, drain: Array, slots: Array,
    never_gathered: float,
) -> Finish:  # fmt: skip
    """Exposed seconds after the pipeline, (n,): `at` (n,) picks the columns of `costs`, the other arrays are `Passes`'.

    A rank r > 0 finishes its last backward while stages before it still drain, so its exchange hides behind that
    drain; the step ends when the slowest rank is done. With overlap, gradient buckets hide behind the last
    micro-batch's backward except a share that never hides (first bucket, last layers). `never_gathered`: share of
    fully sharded gathers with nothing to hide behind, the first layer of each pass.
    """
    reduce, gather = costs.reduce.take(at, axis=1), costs.gather.take(at, axis=1)
    overlap = problem.overlap
    never = costs.never.take(at, axis=1) if overlap.grad_reduce or overlap.param_gather else reduce
    if overlap.grad_reduce:
        reduce = exposed_seconds(reduce, backward, never, costs.slow_reduce.take(at, axis=1))
    if overlap.param_gather:
        gather = exposed_seconds(gather, forward, never, costs.slow_gather.take(at, axis=1))
    if problem.compression.kind != "none":
        reduce = reduce + costs.codec.take(at, axis=1)
    waits = np.maximum(reduce - drain, 0.0)
    exchange = waits.max(axis=0) + gather.max(axis=0)
    hidden = np.maximum(costs.total[at] - exchange, 0.0)
    # gradients kept in shards are scattered after every micro-batch, each behind its own backward where overlapped
    sharded = reduce.max(axis=0) * (slots - 1.0) * costs.each[at]
    if costs.sharded is not None:
        place = costs.place[at]
        rows = np.flatnonzero(place >= 0)
        exposed, behind = _sharded_seconds(
            costs.sharded, place[rows], forward.take(rows, axis=1), backward.take(rows, axis=1), slots[rows],
            never_gathered,
        )  # fmt: skip
        sharded[rows] = exposed
        hidden[rows] = hidden[rows] + behind
    return Finish(exchange, costs.optimizer[at], sharded, hidden)


def _sharded_seconds(
    costs: ShardedCosts, at: Ints, forward: Array, backward: Array, slots: Array, never: float
) -> tuple[Array, Array]:
    """Exposed and hidden seconds of fully sharded parameters over all micro-batches, (n,)."""
    ahead, behind, codec = costs.forward.take(at, axis=1), costs.backward.take(at, axis=1), costs.codec.take(at, axis=1)
    exposed = exposed_seconds(ahead, forward, never, costs.slow_forward.take(at, axis=1))
    exposed = exposed + (exposed_seconds(behind, backward, never, costs.slow_backward.take(at, axis=1)) + codec)
    total = (ahead + behind + codec).max(axis=0) * slots + costs.once_total[at]
    seconds = exposed.max(axis=0) * slots + costs.once[at]
    return seconds, np.maximum(total - seconds, 0.0)


def _slowdown(problem: Problem, size: Array, seconds: Array) -> Array:
    """Fraction by which compute is slower while `size` bytes move beside it in `seconds`; shapes (n, J)."""
    rate = size / np.maximum(seconds, 1e-9)
    return compute_slowdown(problem.library, rate, problem.compute.device.memory_bandwidth).reshape(size.shape)


def _wire_share(problem: Problem) -> float:
    """Bytes of the gradient exchange over those without compression."""
    return problem.compression.wire_share(problem.states.reduce)


def _exchanged(problem: Problem, group: Group, groups: Ints, operation: str, size: Array) -> ExchangeTime:
    """Gradients of `size` (n, J) bytes over one group as the plan compresses them; `groups`: the interned group."""
    table = problem.communication
    if problem.compression.kind == "none":
        return ExchangeTime(seconds_on(table, groups, operation, size), np.zeros_like(size))
    columns = size.shape[1]
    found = compressed_exchange(
        table, operation, size.reshape(-1), np.repeat(groups, columns), np.repeat(group.ranks, columns),
        problem.compression, problem.states.reduce, problem.compute.device.memory_bandwidth,
    )  # fmt: skip
    wire = np.where(size > 0.0, found.wire.reshape(size.shape), 0.0)
    return ExchangeTime(wire, found.codec.reshape(size.shape))


def gradient_seconds(problem: Problem, state: RankState, operation: str, per_parameter: float) -> ExchangeTime:
    """Seconds on the wire and of the codec for gradients of dense parameters and of experts, (n, J)."""
    return _gradient_seconds(problem, state, _interned(problem, state), operation, per_parameter)


def _interned(problem: Problem, state: RankState) -> tuple[Ints, Ints]:
    """The gradient groups of dense parameters and of experts as the communication table knows them, (n,) each."""
    table = problem.communication
    return interned(table, state.dense_group), interned(table, state.expert_group)


def _gradient_seconds(
    problem: Problem, state: RankState, groups: tuple[Ints, Ints], operation: str, per_parameter: float
) -> ExchangeTime:
    dense = _exchanged(problem, state.dense_group, groups[0], operation, state.dense * per_parameter)
    if not state.expert.any():
        return dense
    expert = _exchanged(problem, state.expert_group, groups[1], operation, state.expert * per_parameter)
    return ExchangeTime(dense.wire + expert.wire, dense.codec + expert.codec)


def _gathers(problem: Problem, state: RankState, groups: tuple[Ints, Ints], per_parameter: float) -> Array:
    """Seconds of gathering dense parameters over their group and experts over theirs, (n, J)."""
    dense = seconds_on(problem.communication, groups[0], "all_gather", state.dense * per_parameter)
    if not state.expert.any():
        return dense
    return dense + seconds_on(problem.communication, groups[1], "all_gather", state.expert * per_parameter)


def _tied_embedding(problem: Problem, strategies: Strategies, state: RankState, table: StageTable) -> Array:
    """Gradient all-reduce of a table that the first and the last stage hold, (n, J): tied, or embedded with again by
    prediction modules.
    """
    width = table.candidates.shape[0]
    shared = table.pipeline == 1 or table.placement != LOOP  # both ends on the same rank, or on both ranks of a pair
    copied = problem.architecture.tied_embeddings or problem.architecture.mtp_layers > 0
    if not copied or shared:
        return np.zeros((len(strategies), width))
    s = strategies
    size = problem.architecture.vocabulary * problem.architecture.hidden / s.tensor * problem.states.reduce
    block = np.where(s.rank_order == 0, problem.devices // s.pipeline, s.tensor * s.context)
    two = np.full_like(s.tensor, 2)
    one = np.ones_like(s.tensor)
    group = Group(two, block * (s.pipeline - 1), one, one)
    seconds = exchange_seconds(problem.communication, group, "all_reduce", size)
    edge = table.holds(0) | table.holds(table.sizes.shape[0] - 1)
    result: Array = seconds[:, None] * edge[None, :]
    return result


def _paired(problem: Problem, strategies: Strategies, state: RankState, table: StageTable) -> Array:
    """Gradients of the two copies of a stage added up between its ranks r and p - 1 - r (DualPipe), (n, J).

    Half of a rank's gradients have their copy on the other rank of the pair and vice versa: one all-reduce of all of
    them over the widest pair's distance.
    """
    if table.placement != PAIR:
        return np.zeros_like(state.dense)
    s = strategies
    block = np.where(s.rank_order == 0, problem.devices // s.pipeline, s.tensor * s.context)
    one = np.ones_like(s.tensor)
    group = Group(np.full_like(s.tensor, 2), block * (s.pipeline - 1), one, one)
    scale = problem.states.reduce * problem.trainable_fraction
    return exchange_seconds(problem.communication, group, "all_reduce", (state.dense + state.expert) * scale)


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


def _sharded_costs(
    problem: Problem, strategies: Strategies, state: RankState, table: StageTable, rows: Ints
) -> ShardedCosts | None:
    """Parameter gathers and gradient scatters of the strategies in `rows`, None without any.

    Every micro-batch gathers parameters in forward and again in backward and scatters gradients; layer-wise prefetch
    hides them behind the layers' compute as far as that lasts. Replicas of the shard group add up once per step.
    """
    if rows.shape[0] == 0:
        return None
    states = problem.states
    s = strategies.take(rows)
    ranks, stride = state.dense_group.ranks[rows], state.dense_group.stride[rows]
    parameters = (state.dense + state.expert)[rows]
    shard = np.where(s.shard_group > 0, np.minimum(s.shard_group, ranks), ranks)
    alone = np.ones_like(shard)
    group = Group(shard, stride, alone, alone)
    replicas = Group(ranks // np.maximum(shard, 1), stride * shard, alone, alone)
    table_of = problem.communication
    over, beyond = interned(table_of, group), interned(table_of, replicas)
    trained = parameters * problem.trainable_fraction
    # one message per layer (or per matrix), each with the latency of its ring or tree
    messages = float(np.ceil(problem.architecture.layers / table.pipeline)) * problem.gathers_per_layer
    gathers = _by_rank(seconds_on(table_of, over, "all_gather", parameters * (states.gather / messages)) * messages)
    one = _exchanged(problem, group, over, "reduce_scatter", trained * (states.reduce / messages))
    scattered = ExchangeTime(one.wire * messages, one.codec * messages)
    summed = _exchanged(problem, replicas, beyond, "all_reduce", trained / shard[:, None] * states.reduce)
    copying, last = np.max(summed.codec, axis=1), np.max(summed.wire, axis=1)
    scatters = _by_rank(scattered.wire)
    both = gathers + scatters
    moved = _by_rank(parameters)
    slow_forward = _slowdown(problem, moved * states.gather, gathers)
    reduced = states.reduce * _wire_share(problem)
    slow_backward = _slowdown(problem, moved * (states.gather + reduced), both)
    once = last * never_gathered(problem, table) + copying
    return ShardedCosts(gathers, both, slow_forward, slow_backward, _by_rank(scattered.codec), once, last + copying)


def never_gathered(problem: Problem, table: StageTable) -> float:
    """Share of fully sharded gathers with nothing to hide behind: the first layer of each pass of a chunk."""
    return table.pipeline * table.virtual / float(problem.architecture.layers)

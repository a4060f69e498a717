"""The layer table: what one layer of each kind costs on one device, for every distinct combination of the axes that
change it. The ordered walk over operators happens here and only here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct_places
from cann_plan.cost.layer_time import Compute, OperatorTime, attention_time, gemm_time, grouped_time, vector_time
from cann_plan.cost.recompute import Policy
from cann_plan.workload.operators.operator import (
    Array,
    CoreAttention,
    Exchange,
    Gemm,
    GroupedGemm,
    Message,
    Operator,
    Vector,
)

Communicate = Callable[[str, Message], Array]
"""(axis, message) -> seconds, shape (R,), of all repeats of the message."""

AXES = ("tensor", "context", "expert")
PHASES = ("forward", "backward", "replay")


@dataclass(frozen=True, slots=True)
class Hiding:
    """Share of each axis's communication that runs behind compute, per row: arrays (R,) or (1,) in [0, 1]."""

    tensor: Array
    expert: Array


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """One pass over a layer, arrays of shape (R,). Seconds; exposed communication by axis; `hidden` the rest.

    `host`: time the device waits because the host cannot launch fast enough.
    """

    compute: Array
    tensor: Array
    context: Array
    expert: Array
    hidden_tensor: Array
    hidden_context: Array
    hidden_expert: Array
    host: Array
    flops: Array

    @property
    def seconds(self) -> Array:
        """Time the pass occupies the device, shape (R,)."""
        return self.compute + self.tensor + self.context + self.expert + self.host


@dataclass(frozen=True, slots=True)
class PolicyCost:
    """What a recompute policy does to a layer: replay pass, bytes kept, peaks above the kept bytes; shapes (R,)."""

    replay: PhaseCost
    kept: Array  # bytes alive from forward to backward of this layer, per micro-batch
    forward_extra: Array  # bytes above `kept` at the worst point of forward
    backward_extra: Array  # bytes above `kept` at the worst point of backward, replayed tensors included


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer kind: forward and backward pass, the weight-gradient part of backward [s], one entry per policy."""

    forward: PhaseCost
    backward: PhaseCost
    policies: tuple[PolicyCost, ...]
    weight: Array


@dataclass(slots=True)
class _Pass:
    rows: int
    launch_s: float
    gap_s: float

    def __post_init__(self) -> None:
        zero = np.zeros(self.rows)
        self.compute, self.attention, self.flops, self.launches = zero, zero, zero, 0.0
        self.exposed = dict.fromkeys(AXES, zero)
        self.behind = dict.fromkeys(AXES, zero)
        self.ring = zero

    compute: Array = None  # type: ignore[assignment]
    attention: Array = None  # type: ignore[assignment]
    flops: Array = None  # type: ignore[assignment]
    launches: float = 0.0
    exposed: dict[str, Array] = None  # type: ignore[assignment]
    behind: dict[str, Array] = None  # type: ignore[assignment]
    ring: Array = None  # type: ignore[assignment]

    def add_work(self, seconds: Array, flops: Array, launches: int, *, attention: bool) -> None:
        self.compute = self.compute + seconds
        self.flops = self.flops + flops
        self.launches += launches
        if attention:
            self.attention = self.attention + seconds

    def add_messages(self, axis: str, messages: Sequence[Message], communicate: Communicate) -> None:
        key = "expert" if axis == "expert_tensor" else axis
        for message in messages:
            seconds = communicate(axis, message)
            self.launches += 1
            if message.collective == "send":
                self.ring = self.ring + seconds
            else:
                self.exposed[key] = self.exposed[key] + seconds

    def add_hidden(self, axis: str, messages: Sequence[Message], communicate: Communicate) -> None:
        for message in messages:
            self.behind[axis] = self.behind[axis] + communicate(axis, message)

    def cost(self, hiding: Hiding) -> PhaseCost:
        """Close the pass: hide shares, ring steps behind attention, the host floor."""
        hidden_tensor = self.exposed["tensor"] * hiding.tensor
        hidden_expert = self.exposed["expert"] * hiding.expert
        ring_exposed = np.maximum(self.ring - self.attention, 0.0)
        tensor = self.exposed["tensor"] - hidden_tensor
        expert = self.exposed["expert"] - hidden_expert
        context = self.exposed["context"] + ring_exposed
        busy = self.compute + tensor + context + expert
        host = np.maximum(self.launches * self.launch_s - busy, 0.0) + self.launches * self.gap_s
        return PhaseCost(
            self.compute, tensor, context, expert, self.behind["tensor"] + hidden_tensor,
            self.behind["context"] + (self.ring - ring_exposed), self.behind["expert"] + hidden_expert, host,
            self.flops,
        )  # fmt: skip


def layer_cost(
    operators: Sequence[Operator],
    rows: int,
    compute: Compute,
    communicate: Communicate,
    hiding: Hiding,
    policies: Sequence[Policy],
) -> LayerCost:
    """Walk the operators of a layer once forward, once backward, and once per policy for the replay and the peaks."""
    launch_s, gap_s = compute.stack.launch_s, compute.stack.gap_s
    timed = [(operator, _operator_time(operator, compute)) for operator in operators]
    forward, backward = _Pass(rows, launch_s, gap_s), _Pass(rows, launch_s, gap_s)
    weight = np.zeros(rows)
    for operator, time in timed:
        attention = isinstance(operator.work, CoreAttention)
        if time is not None:
            forward.add_work(time.forward, time.forward_flops, time.forward_launches, attention=attention)
            backward.add_work(time.backward, time.backward_flops, time.backward_launches, attention=attention)
            weight = weight + time.weight
        elif isinstance(operator.work, Exchange):
            forward.add_messages(operator.work.axis, operator.work.forward, communicate)
            backward.add_messages(operator.work.axis, operator.work.backward, communicate)
            backward.add_hidden(operator.work.axis, operator.work.backward_hidden, communicate)
    results = []
    for policy in policies:
        replay = _Pass(rows, launch_s, gap_s)
        for operator, time in timed:
            if not policy.replays(operator):
                continue
            attention = isinstance(operator.work, CoreAttention)
            if time is not None:
                replay.add_work(time.forward, time.forward_flops, time.forward_launches, attention=attention)
            elif isinstance(operator.work, Exchange):
                replay.add_messages(operator.work.axis, operator.work.forward, communicate)
        results.append(_policy_cost(operators, rows, policy, replay.cost(hiding)))
    return LayerCost(forward.cost(hiding), backward.cost(hiding), tuple(results), weight)


def _operator_time(operator: Operator, compute: Compute) -> OperatorTime | None:
    work = operator.work
    if isinstance(work, Gemm):
        return gemm_time(work, compute)
    if isinstance(work, GroupedGemm):
        return grouped_time(work, compute)
    if isinstance(work, CoreAttention):
        return attention_time(work, compute)
    if isinstance(work, Vector):
        return vector_time(work, compute)
    return None


def _policy_cost(operators: Sequence[Operator], rows: int, policy: Policy, replay: PhaseCost) -> PolicyCost:
    """Kept bytes and peaks of the ordered walk.

    Forward: what is kept so far plus the running operator's temporaries. Backward at an operator: what its earlier
    operators keep, what the replay of its segment has rebuilt so far, and its temporaries; a fully recomputed layer
    is one segment, otherwise a segment is a run of operators that the policy replays.
    """
    zero = np.zeros(rows)
    kept, rebuilt, forward_peak, backward_peak = zero, zero, zero, zero
    replaying = False
    for operator in operators:
        if policy.replays(operator) != replaying:
            replaying = not replaying
            rebuilt = zero if not replaying else rebuilt
        for saved in policy.saved(operator):
            if policy.drops(saved):
                rebuilt = rebuilt + saved.size
            else:
                kept = kept + saved.size
        forward_peak = np.maximum(forward_peak, kept + operator.forward_temporary)
        backward_peak = np.maximum(backward_peak, kept + rebuilt + operator.backward_temporary)
        if not replaying:
            rebuilt = zero
    return PolicyCost(replay, kept, np.maximum(forward_peak - kept, 0.0), np.maximum(backward_peak - kept, 0.0))


def peak_operator(operators: Sequence[Operator], policy: Policy, phase: str) -> tuple[str, float]:
    """(name, bytes alive) of the operator of a one-row list at which a pass peaks; the walk of `_policy_cost`."""
    kept = rebuilt = 0.0
    replaying = False
    best = ("", -1.0)
    for operator in operators:
        if policy.replays(operator) != replaying:
            replaying = not replaying
            rebuilt = 0.0 if not replaying else rebuilt
        for saved in policy.saved(operator):
            if policy.drops(saved):
                rebuilt += float(np.sum(saved.size))
            else:
                kept += float(np.sum(saved.size))
        temporary = operator.forward_temporary if phase == "forward" else operator.backward_temporary
        alive = kept + (0.0 if phase == "forward" else rebuilt) + float(np.max(temporary))
        if alive > best[1]:
            best = (operator.name, alive)
        if not replaying:
            rebuilt = 0.0
    return best


def unique_rows(columns: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First index of every distinct combination and, per row, the number of its combination; shapes (R,), (N,).

    Combinations are packed into one integer by the ranges of their columns, renumbered where they outgrow it.
    """
    packed = np.zeros(columns[0].shape[0], dtype=np.int64)
    if packed.shape[0] == 0:
        return packed, packed
    span = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if low == high:
            continue
        if span * (high - low + 1) >= _LARGEST:
            first, packed = distinct_places(packed)
            span = first.shape[0]
        packed = packed * (high - low + 1) + (column - low)
        span *= high - low + 1
    return distinct_places(packed)


_LARGEST = 1 << 62

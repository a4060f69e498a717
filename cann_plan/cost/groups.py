"""Where each parallel axis's groups sit: size, stride and outer repetition of the communication groups of a strategy.

Dense order tensor-context-data-pipeline (Megatron's tp-cp-ep-dp-pp), pipeline outermost or inside data. Experts
either fold context in (current Megatron-Core: expert order etp-ep-edp-pp) or nest inside data (older stacks: stride
tensor x context). Trap: the two give different expert-data degrees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Communication
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array, Message

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks {base + i stride + j outer_stride}; arrays of shape (R,)."""

    size: Ints
    stride: Ints
    outer_size: Ints
    outer_stride: Ints

    @property
    def ranks(self) -> Ints:
        """Members of the group, shape (R,)."""
        return self.size * self.outer_size


def layer_groups(
    tensor: Ints, context: Ints, ulysses: Ints, expert: Ints, expert_tensor: Ints, *, nested: bool
) -> dict[str, Group]:
    """Groups of the exchanges inside a layer, by axis name."""
    one = np.ones_like(tensor)
    expert_stride = tensor * context if nested else expert_tensor
    return {
        "tensor": Group(tensor, one, one, one),
        "context": Group(context, tensor, one, one),
        "context_ring": Group(context // ulysses, tensor * ulysses, one, one),
        "context_ulysses": Group(ulysses, tensor, one, one),
        "expert_tensor": Group(expert_tensor, one, one, one),
        "expert": Group(expert, expert_stride, one, one),
    }


def data_groups(
    tensor: Ints, context: Ints, data: Ints, pipeline: Ints, expert: Ints, expert_tensor: Ints, rank_order: Ints, *,
    nested: bool,
) -> tuple[Group, Group]:  # fmt: skip
    """Gradient groups of dense parameters and of expert parameters, by `RANK_ORDERS`."""
    one = np.ones_like(tensor)
    outermost = rank_order == 0
    over_pipeline = tensor * context * pipeline
    dense = _either(outermost, (context * data, tensor, one, one), (context, tensor, data, over_pipeline))
    if nested:
        copies = np.maximum(data // expert, 1)
        outer = tensor * context * expert * np.where(outermost, one, pipeline)
        return dense, Group(context, tensor, copies, outer)
    copies = np.maximum(data * context * tensor // (expert * expert_tensor), 1)
    stride = expert_tensor * expert
    inside = np.maximum(tensor * context // stride, 1)
    whole = (copies, stride, one, one)
    return dense, _either(outermost, whole, (inside, stride, copies // inside, over_pipeline))


def _either(first: NDArray[np.bool_], one: tuple[Ints, ...], other: tuple[Ints, ...]) -> Group:
    return Group(*(np.where(first, x, y) for x, y in zip(one, other, strict=True)))


def interned(communication: Communication, group: Group) -> Ints:
    """Integers that stand for the groups in `seconds_on`, (R,)."""
    return communication.groups(
        group.size, group.stride, outer_size=group.outer_size, outer_stride=group.outer_stride
    )  # fmt: skip


def seconds_on(communication: Communication, groups: Ints, operation: str, size: Array) -> Array:
    """Seconds of one collective per row, zero where the message is empty; `size` (R,), or (R, J): J messages a row."""
    if size.ndim == 2:
        flat = communication.seconds_of(operation, size.reshape(-1), np.repeat(groups, size.shape[1]))
        return np.where(size > 0.0, flat.reshape(size.shape), 0.0)
    return np.where(size > 0.0, communication.seconds_of(operation, size, groups), 0.0)


def exchange_seconds(communication: Communication, group: Group, operation: str, size: Array) -> Array:
    """Seconds of one collective per row; see `seconds_on`."""
    return seconds_on(communication, interned(communication, group), operation, size)


def message_seconds(communication: Communication, groups: dict[str, Group], axis: str, message: Message) -> Array:
    """Seconds of all repeats of a message of one axis, shape (R,)."""
    name, operation = axis, message.collective
    if operation == "send":
        name, operation = "context_ring", "send_recv"
    elif axis == "context" and operation == "all_to_all":
        name = "context_ulysses"
    group = groups[name]
    size = np.broadcast_to(message.size, group.size.shape)
    return exchange_seconds(communication, group, operation, size) * message.repeats

"""Which ranks form the groups of each parallel axis, for arrays of strategies.

Ranks are numbered with the first axis of the order fastest: rank = sum coord_i prod_{j<i} size_j. Source: Megatron-LM
megatron/core/parallel_state.py, RankGenerator (default order tp-cp-ep-dp-pp; --use-tp-pp-dp-mapping gives
tp-cp-ep-pp-dp). It keeps two generators over one world: the dense one with expert size 1, and the expert one with
context size 1, tensor size expert-tensor and expert-data = world/(expert-tensor x expert x pipeline) ("folded").
Older stacks place the expert groups inside the data-parallel groups ("nested").
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_plan.network.groups import GroupIndex, IntArray
from cann_plan.network.layout import group_layout
from cann_plan.network.levels import Network
from cann_plan.records import dataclass

AXES = ("tp", "cp", "ep", "dp", "pp")
DEFAULT_ORDER = "tp-cp-ep-dp-pp"
PIPELINE_BEFORE_DATA = "tp-cp-ep-pp-dp"
GENERATORS = ("folded", "nested")


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Groups of one axis per strategy: {base + i stride + j outer_stride}; arrays of shape (N,).

    `outer_size` is 1 unless the axis joins two that are not contiguous.
    """

    size: IntArray
    stride: IntArray
    outer_size: IntArray
    outer_stride: IntArray

    @property
    def ranks(self) -> IntArray:
        """Members of one group, shape (N,)."""
        return self.size * self.outer_size


@dataclass(frozen=True, slots=True)
class Degrees:
    """Parallel degrees of N strategies, arrays of shape (N,).

    `data` is the dense data-parallel degree: world = tensor x context x data x pipeline.
    """

    tensor: IntArray
    context: IntArray
    data: IntArray
    pipeline: IntArray
    expert: IntArray
    expert_tensor: IntArray

    @classmethod
    def of(
        cls,
        tensor: npt.ArrayLike = 1,
        context: npt.ArrayLike = 1,
        data: npt.ArrayLike = 1,
        pipeline: npt.ArrayLike = 1,
        expert: npt.ArrayLike = 1,
        expert_tensor: npt.ArrayLike | None = None,
    ) -> Degrees:
        """From anything array-like; expert_tensor defaults to tensor (Megatron's default)."""
        values = (tensor, context, data, pipeline, expert, tensor if expert_tensor is None else expert_tensor)
        return cls(*np.broadcast_arrays(*(np.atleast_1d(np.asarray(value, dtype=np.int64)) for value in values)))

    @property
    def world(self) -> IntArray:
        """Ranks in all, shape (N,)."""
        return self.tensor * self.context * self.data * self.pipeline


@dataclass(frozen=True, slots=True)
class Placement:
    """Groups of every axis, and whether the world can be cut that way.

    Attributes:
        tensor, context, data, pipeline: the dense axes.
        data_context: data and context together, the ranks that share dense gradients.
        expert, expert_tensor, expert_data: the expert axes; expert_data shares expert gradients.
        expert_model: expert and expert-tensor together (the token dispatcher's all-gather).
        valid: shape (N,), false where the degrees do not divide the world or both generators disagree on stages.
    """

    tensor: AxisGroup
    context: AxisGroup
    data: AxisGroup
    pipeline: AxisGroup
    data_context: AxisGroup
    expert: AxisGroup
    expert_tensor: AxisGroup
    expert_data: AxisGroup
    expert_model: AxisGroup
    valid: npt.NDArray[np.bool_]


def parse_order(order: str) -> tuple[str, ...]:
    """Axis names of an order such as "tp-cp-ep-dp-pp", first fastest; axes left out are appended.

    Raises ValueError for unknown or repeated names.
    """
    names = tuple(order.split("-"))
    unknown = [name for name in names if name not in AXES]
    if unknown:
        raise ValueError(f"unknown axis {unknown[0]!r} in rank order {order!r}; allowed: {', '.join(AXES)}")
    if len(set(names)) != len(names):
        raise ValueError(f"rank order {order!r} repeats an axis")
    return names + tuple(name for name in AXES if name not in names)


def place(degrees: Degrees, order: str = DEFAULT_ORDER, generator: str = "folded") -> Placement:
    """Groups of N strategies.

    Raises ValueError for an unknown order or generator.
    """
    names = parse_order(order)
    if generator not in GENERATORS:
        raise ValueError(f"unknown group generator {generator!r}; allowed: {', '.join(GENERATORS)}")
    one = np.ones_like(degrees.tensor)
    dense = {"tp": degrees.tensor, "cp": degrees.context, "ep": one, "dp": degrees.data, "pp": degrees.pipeline}
    strides = _strides(dense, names)
    axes = {name: AxisGroup(dense[name], strides[name], one, one) for name in AXES}
    if generator == "folded":
        shard = degrees.expert_tensor * degrees.expert * degrees.pipeline
        data = np.maximum(degrees.world // np.maximum(shard, 1), 1)
        sizes = {"tp": degrees.expert_tensor, "cp": one, "ep": degrees.expert, "dp": data, "pp": degrees.pipeline}
        steps = _strides(sizes, names)
        valid = degrees.world % np.maximum(shard, 1) == 0
        valid = valid & (steps["pp"] == strides["pp"])
        experts = {name: AxisGroup(sizes[name], steps[name], one, one) for name in AXES}
        expert_tensor, expert, expert_data = experts["tp"], experts["ep"], experts["dp"]
    else:
        valid = (degrees.data % degrees.expert == 0) & (degrees.expert_tensor == degrees.tensor)
        inside = np.maximum(degrees.data // degrees.expert, 1)
        expert_tensor = axes["tp"]
        expert = AxisGroup(degrees.expert, strides["dp"], one, one)
        expert_data = _join(axes["cp"], AxisGroup(inside, strides["dp"] * degrees.expert, one, one))
    return Placement(
        tensor=axes["tp"],
        context=axes["cp"],
        data=axes["dp"],
        pipeline=axes["pp"],
        data_context=_join(axes["cp"], axes["dp"]),
        expert=expert,
        expert_tensor=expert_tensor,
        expert_data=expert_data,
        expert_model=_join(expert_tensor, expert),
        valid=valid,
    )


def _strides(sizes: dict[str, IntArray], names: tuple[str, ...]) -> dict[str, IntArray]:
    strides: dict[str, IntArray] = {}
    total = np.ones_like(sizes["tp"])
    for name in names:
        strides[name] = total
        total = total * sizes[name]
    return strides


def _join(inner: AxisGroup, outer: AxisGroup) -> AxisGroup:
    """Both axes as one group, the inner faster; one plain (size, stride) where they are contiguous."""
    swap = outer.stride < inner.stride
    fast_size, fast_stride = np.where(swap, outer.size, inner.size), np.where(swap, outer.stride, inner.stride)
    slow_size, slow_stride = np.where(swap, inner.size, outer.size), np.where(swap, inner.stride, outer.stride)
    plain = (fast_size * fast_stride == slow_stride) | (slow_size == 1) | (fast_size == 1)
    stride = np.where(fast_size == 1, slow_stride, fast_stride)
    size = np.where(plain, fast_size * slow_size, fast_size)
    one = np.ones_like(size)
    return AxisGroup(size, stride, np.where(plain, one, slow_size), np.where(plain, one, slow_stride))


def rank_groups(group: AxisGroup, world: int, strategy: int = 0) -> IntArray:
    """Every group of one strategy as explicit ranks, shape (groups, members), ordered by first member."""
    size, stride = int(group.size[strategy]), int(group.stride[strategy])
    outer, leap = int(group.outer_size[strategy]), int(group.outer_stride[strategy])
    ranks = np.arange(world)
    first = ((ranks // stride) % size == 0) & ((ranks // leap) % outer == 0)
    offsets = (np.arange(outer)[:, None] * leap + np.arange(size)[None, :] * stride).reshape(-1)
    members: IntArray = ranks[first][:, None] + offsets[None, :]
    return members


@dataclass(frozen=True, slots=True)
class Membership:
    """How the worst placed group meets each level, arrays of shape (N, levels), innermost level first.

    Attributes:
        fan: children of one unit that hold members.
        below: fewest members that share a child.
        siblings: equal groups that use the same child, and so its links, at once.
    """

    fan: IntArray
    below: IntArray
    siblings: IntArray


def membership(network: Network, group: AxisGroup) -> Membership:
    """Level membership of N groups; groups that straddle units are counted and the worst is taken.

    Raises ValueError for a group wider than the network.
    """
    index = GroupIndex()
    ids = index.intern(group.size, group.stride, group.outer_size, group.outer_stride)
    layouts = [group_layout(network, g.size, g.stride, g.outer_size, g.outer_stride) for g in index.groups]
    fan = np.array([layout.fan for layout in layouts], dtype=np.int64)
    below = np.array([layout.below for layout in layouts], dtype=np.int64)
    siblings = np.array([layout.siblings for layout in layouts], dtype=np.int64)
    return Membership(fan[ids], below[ids], siblings[ids])

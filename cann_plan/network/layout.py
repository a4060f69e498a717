"""Where the members of a communication group sit on the levels of a network."""

from __future__ import annotations

import math

import numpy as np

from cann_plan.arrays import distinct_counts
from cann_plan.network.levels import Network
from cann_plan.records import dataclass

_MOST_ENUMERATED = 1 << 20  # ranks looked at when a group straddles units; groups repeat long before


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """The worst placed group of a family of equal groups, level by level.

    Attributes:
        ranks: members of the group.
        fan: per level, the most children of one unit that hold members (1 = the level is not crossed).
        below: per level, the fewest members that share one child of the level (the adapters that work together).
        widest: per level, the most members that share one child of the level.
        hop: per level, distance between neighbouring members in children of the level (1 = adjacent).
        siblings: per level, how many equal groups use the same child at once, all groups active.
        even: all parts are equal, so that the product of the fans is `ranks`.
    """

    ranks: int
    fan: tuple[int, ...]
    below: tuple[int, ...]
    widest: tuple[int, ...]
    hop: tuple[int, ...]
    siblings: tuple[int, ...]
    even: bool

    @property
    def crossed(self) -> tuple[int, ...]:
        """Indices of the levels the group crosses, innermost first."""
        return tuple(level for level, children in enumerate(self.fan) if children > 1)


def group_layout(network: Network, size: int, stride: int, outer_size: int = 1, outer_stride: int = 1) -> GroupLayout:
    """Lay out the group {base + i stride + j outer_stride : i < size, j < outer_size} on the levels.

    Groups that straddle units are counted member by member and the worst is taken: first by the outermost level
    crossed, then by the number of its children, then by the fewest members in a child.
    Raises ValueError for a size or stride below 1 or a group wider than the network.
    """
    if min(size, stride, outer_size, outer_stride) < 1:
        raise ValueError("group sizes and strides must be at least 1")
    span = (size - 1) * stride + (outer_size - 1) * outer_stride + 1
    if span > network.devices:
        raise ValueError(
            f"a group of {size * outer_size} ranks at stride {stride} spans {span} devices; the network has "
            f"{network.devices}"
        )
    children = (1, *network.unit_sizes[:-1])
    shares = _even_shares(network, size, stride, outer_size, outer_stride)
    ranks = size * outer_size
    if shares is None:
        fan, below, widest = _count_members(network, size, stride, outer_size, outer_stride)
        even = False
    else:
        before = (1, *shares[:-1])
        fan = tuple(now // last for now, last in zip(shares, before, strict=True))
        below = widest = before
        even = True
    hop = tuple(_hop(size, stride, outer_size, outer_stride, unit) for unit in children)
    siblings = tuple(max(1, unit // members) for unit, members in zip(children, widest, strict=True))
    return GroupLayout(ranks, fan, below, widest, hop, siblings, even)


def _hop(size: int, stride: int, outer_size: int, outer_stride: int, unit: int) -> int:
    if size > 1 and stride * size > unit:
        return max(1, stride // unit)
    if outer_size > 1:
        return max(1, outer_stride // unit)
    return max(1, stride // unit)


def _even_shares(
    network: Network, size: int, stride: int, outer_size: int, outer_stride: int
) -> tuple[int, ...] | None:
    """Members in one unit of each level where every group is cut into equal parts, else None."""
    shares: list[int] = []
    for unit in network.unit_sizes:
        inner = _even_share(size, stride, unit)
        outer = _even_share(outer_size, outer_stride, unit)
        if inner is None or outer is None or (inner < size and outer > 1):
            return None
        shares.append(inner * outer)
    if shares[-1] != size * outer_size:
        return None
    if any(now % last for now, last in zip(shares[1:], shares, strict=False)):
        return None
    return tuple(shares)


def _even_share(size: int, stride: int, unit: int) -> int | None:
    if size == 1 or stride % unit == 0:
        return 1
    if unit % (size * stride) == 0:
        return size
    if unit % stride == 0 and (size * stride) % unit == 0:
        return unit // stride
    return None


def _count_members(
    network: Network, size: int, stride: int, outer_size: int, outer_stride: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    ranks = size * outer_size
    offsets = (np.arange(size)[None, :] * stride + np.arange(outer_size)[:, None] * outer_stride).reshape(-1)
    span = int(offsets[-1]) + 1
    period = math.lcm(size * stride, outer_size * outer_stride, *network.unit_sizes)
    reach = min(period + span, max(network.devices, span), _MOST_ENUMERATED + span)
    bases = np.arange(max(1, reach - span + 1))
    first = (bases // stride) % size == 0
    if outer_size > 1:
        first &= (bases // outer_stride) % outer_size == 0
    bases = bases[first]
    bases = bases[: max(1, _MOST_ENUMERATED // ranks)]
    members = bases[:, None] + offsets[None, :]
    groups = np.repeat(np.arange(len(bases)), ranks)
    width = int(members.max()) + 1  # above every child's number, so that (group, child) is one integer
    fan, fewest, most = [], [], []
    child = 1
    for unit in network.unit_sizes:
        children, per_child = distinct_counts(groups * width + members.reshape(-1) // child)
        owner = children // width
        parents, per_parent = distinct_counts(owner * width + children % width * child // unit)
        fan.append(_per_group(np.maximum, parents // width, per_parent, len(bases)))
        fewest.append(_per_group(np.minimum, owner, per_child, len(bases)))
        most.append(_per_group(np.maximum, owner, per_child, len(bases)))
        child = unit
    keys: list[np.ndarray] = []
    for children_of, below in zip(fan, fewest, strict=True):
        keys.extend([-below, children_of, children_of > 1])
    worst = int(np.lexsort(keys)[-1])
    return (
        tuple(int(row[worst]) for row in fan),
        tuple(int(row[worst]) for row in fewest),
        tuple(int(row[worst]) for row in most),
    )


def _per_group(reduce: np.ufunc, owner: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    starts = np.searchsorted(owner, np.arange(groups))
    result: np.ndarray = reduce.reduceat(values, starts)
    return result

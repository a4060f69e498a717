"""Shapes of each family for a number of servers: levels of a tree, groups of a dragonfly, axes of a torus."""

from __future__ import annotations

import math
from dataclasses import replace

from cann_plan.network.topology.components import COPPER, OPTICAL, Components
from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.dragonfly_plus import DragonflyPlus
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.hyperx import HyperX

MOST_UNEVEN = 2
"""Longest over shortest axis of a torus or HyperX before a few spare endpoints are preferred."""


def fat_tree(
    nodes: int, lanes: int, radix: int, taper: float = 1.0, access: str = COPPER, levels: int | None = None
) -> FatTree:
    """The fat tree of fewest levels (or of `levels`) for `nodes` endpoints of `lanes` ports each.

    Leaves have radix t/(1+t) ports down for a taper t:1 at the leaf; the levels above are non-blocking.
    Raises ValueError where the radix does not reach that many endpoints.
    """
    if nodes * lanes <= radix and levels in (None, 1):
        return FatTree((nodes,), lanes=lanes, link=1.0 / lanes, access=access)
    hosts = math.floor(radix * taper / (1.0 + taper) / lanes + 1e-9)
    if hosts < 1:
        raise ValueError(f"a switch of {radix} ports cannot hold an endpoint of {lanes} ports and its uplinks")
    uplinks = max(1, math.ceil(hosts * lanes / taper - 1e-9))
    leaves = -(-nodes // hosts)
    if leaves <= radix and levels in (None, 2):
        spines = -(-leaves * uplinks // radix)
        hosts = -(-nodes // leaves)
        return FatTree((hosts, leaves), (uplinks,), (spines,), lanes, 1.0 / lanes, access)
    half = radix // 2
    down, up, counts = [hosts], [uplinks], list[int]()
    units, ports = leaves, uplinks
    while True:
        # `half` units of the level below form one unit of the next, whose switches have half of their ports up
        group = -(-units // -(-units // half))
        counts.append(-(-group * ports // half))
        down.append(group)
        ports = group * ports
        units = -(-units // group)
        up.append(ports)
        if units <= radix:
            break
        if len(down) > 4:
            raise ValueError(f"{nodes} endpoints are too many for fat trees of radix {radix}")
    if levels not in (None, len(down) + 1):
        raise ValueError(f"{nodes} endpoints do not fit a fat tree of {levels} levels of radix {radix}")
    counts.append(-(-units * ports // radix))
    down.append(units)
    return FatTree(tuple(down), tuple(up), tuple(counts), lanes, 1.0 / lanes, access)


def rail_tree(nodes: int, rails: int, radix: int) -> tuple[FatTree, Components]:
    """(one rail as the traffic of that rail sees it, parts of the whole network) of a rail-optimised fat tree.

    Adapter i of each server goes to leaf i of its segment of radix/2 servers; the levels above join all rails.
    """
    half = radix // 2
    whole = fat_tree(nodes * rails, 1, radix, access=OPTICAL).components().times(1, 1.0 / rails)
    whole = replace(whole, endpoints=nodes)
    segments = -(-nodes // half)
    if segments == 1:
        return FatTree((nodes,), access=OPTICAL), whole
    if segments * rails <= radix:
        return FatTree((half, segments), (half,), (max(1, half // rails),), access=OPTICAL), whole
    per_pod = max(1, half // rails)
    pods = -(-segments // per_pod)
    tree = FatTree(
        (half, per_pod, pods), (half, half * per_pod), (half, max(1, half * per_pod // rails)), access=OPTICAL
    )
    return tree, whole


def dragonfly(nodes: int, lanes: int, radix: int) -> Dragonfly:
    """Balanced dragonfly (a = 2p = 2h, p + a - 1 + h <= radix) with as many groups as needed.

    Where one endpoint has more ports than p, a = 2h of what the radix leaves. Raises ValueError where it leaves none.
    """
    ports = max(lanes, (radix + 1) // 4 // lanes * lanes)
    terminals = ports // lanes
    outward = min(ports, (radix - ports + 1) // 3)  # h
    routers = 2 * outward
    if outward < 1:
        raise ValueError(f"a switch of {radix} ports cannot hold an endpoint of {lanes} ports and links to others")
    if nodes <= terminals * routers:
        routers = -(-nodes // terminals)
        return Dragonfly(terminals, routers, 0, 1, lanes, 1.0 / lanes)
    groups = -(-nodes // (terminals * routers))
    return Dragonfly(terminals, routers, outward, groups, lanes, 1.0 / lanes)


def dragonfly_plus(nodes: int, lanes: int, radix: int) -> DragonflyPlus:
    """Dragonfly+ of leaves with half of their ports down and spines with half of theirs to other groups."""
    half = max(lanes, radix // 2 // lanes * lanes)
    terminals = half // lanes
    groups = max(1, -(-nodes // (terminals * half)))
    leaves = half if groups > 1 else -(-nodes // terminals)
    return DragonflyPlus(terminals, leaves, half, half if groups > 1 else 0, groups, lanes, 1.0 / lanes)


def hyperx(nodes: int, lanes: int, radix: int) -> HyperX:
    """The HyperX of fewest switches with one to three axes, trunks of ceil(p/L) links for full uniform bandwidth."""
    best: HyperX | None = None
    for terminals in range(max(1, radix // 2 // lanes), 0, -1):
        points = -(-nodes // terminals)
        for axes in (1, 2, 3):
            shape = even_axes(points, axes)
            if axes > 1 and min(shape) < 2:
                continue
            ports = terminals * lanes
            trunk = tuple(-(-ports // length) for length in shape)
            used = ports + sum((length - 1) * links for length, links in zip(shape, trunk, strict=True))
            if used <= radix and (best is None or math.prod(shape) < best.points):
                best = HyperX(shape, terminals, trunk, lanes, 1.0 / lanes)
    if best is None:
        raise ValueError(f"no HyperX of up to three axes joins {nodes} endpoints with switches of {radix} ports")
    return best


def even_axes(count: int, axes: int) -> tuple[int, ...]:
    """Lengths, ascending, whose product is at least `count`: the fewest endpoints with axes within `MOST_UNEVEN`."""
    if axes == 1:
        return (count,)
    size = max(count, 1)
    while True:
        found = _most_even(size, axes)
        if found is not None:
            return found
        size += 1


def _most_even(size: int, axes: int) -> tuple[int, ...] | None:
    """The most even factorisation of `size`, None where its axes differ more than `MOST_UNEVEN` times."""
    lengths: list[int] = []
    left = size
    for remaining in range(axes, 1, -1):
        limit = math.floor(left ** (1.0 / remaining) + 1e-9)
        length = next(d for d in range(max(1, limit), 0, -1) if left % d == 0)
        lengths.append(length)
        left //= length
    lengths.append(left)
    lengths.sort()
    if lengths[-1] > MOST_UNEVEN * lengths[0] and lengths[-1] > MOST_UNEVEN * 2:
        return None
    return tuple(lengths)

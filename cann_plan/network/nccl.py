"""NCCL: rows of ring, tree, NVLS and pairwise collectives per protocol, as its tuner counts them.

Latency of a ring = base + (steps - network steps) x inside step + network steps x network step; bandwidth from the
adapters of all members of a node. Source: NVIDIA/nccl @5067397 src/graph/tuning.cc; constants in nccl_constants.
The tuner takes the fastest row, and so does the table. A tree between two nodes could send half of what a ring sends
(SimAI counts twice the adapters); measured all-reduce of two nodes does not show it (16 x H20 343 of 400 GB/s, 12 x
A100 100 of 100 GB/s), so trees get the ring's rate.
"""

from __future__ import annotations

import itertools
import math

from cann_plan.network.algorithms import Row, direct_all_to_all, ring_rate
from cann_plan.network.collectives.affine import ZERO, ceil_log2
from cann_plan.network.layout import GroupLayout
from cann_plan.network.links import LinkUse
from cann_plan.network.nccl_constants import PCIE, PCIE_BANDWIDTH, PROTOCOLS, US, NcclConstants

NODE_CLASS_BANDWIDTH = 100e9
"""Bytes/s per device above which a level is taken for NVLink or UB rather than adapters (fastest adapter: 800 Gbit/s,
ConnectX-8)."""

FITTED_RANKS = 8
"""Ranks up to which single-node constants were fitted; larger NVLink domains keep the value of eight ranks."""

_TURNS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def split_levels(uses: tuple[LinkUse, ...], node_levels: int) -> tuple[tuple[LinkUse, ...], tuple[LinkUse, ...]]:
    """(levels inside a node or NVLink domain, levels of the network between them)."""
    inside = tuple(u for u in uses if u.index < node_levels or u.level.bandwidth > NODE_CLASS_BANDWIDTH)
    return inside, tuple(u for u in uses if u not in inside)


def nccl_rows(
    uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, constants: NcclConstants, node_levels: int
) -> list[Row]:
    """Every (algorithm, protocol) NCCL may take for one group of at least two ranks."""
    inside, outside = split_levels(uses, node_levels)
    if any(
        not use.is_ring and use.level.bandwidth <= PCIE_BANDWIDTH and use.level.kind != "full-mesh" for use in inside
    ):
        constants = PCIE
    if operation in _TURNS:
        if not outside:
            return _node_rows(inside, layout, operation, constants)
        return _network_rows(inside, outside, layout, operation, constants)
    if operation == "all_to_all":
        return _exchange_rows(inside, outside, layout, constants)
    if operation == "send_recv":
        return _send_rows(inside, outside, constants)
    return _rooted_rows(inside, outside, layout, constants)


def _node_port(inside: tuple[LinkUse, ...]) -> tuple[float, int]:
    """Bytes/s of one rank inside a node (its slowest level) and that level: presets state measured bus bandwidths."""
    slowest = min(inside, key=lambda use: use.rate)
    return slowest.rate, slowest.index


def _latency(uses: tuple[LinkUse, ...]) -> float:
    return max((use.step for use in uses), default=0.0)


def _node_rows(uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, constants: NcclConstants) -> list[Row]:
    p, turns = layout.ranks, _TURNS[operation]
    rate, bottleneck = _node_port(uses)
    own = 1.0 + constants.own / (min(p, FITTED_RANKS) - 1)
    most = min(use.nominal for use in uses)
    rows = []
    for index, protocol in enumerate(PROTOCOLS):
        fraction = constants.gather[index]
        if protocol == "Simple" and operation == "all_reduce":
            fraction = constants.reduce_simple
        seconds = constants.base[index] + turns * (p - 1) * (_latency(uses) + constants.step[index])
        per_byte = turns * (p - 1) / p / min(rate * fraction / own, most)
        rows.append(Row("ring", seconds, per_byte, bottleneck, protocol))
    in_switch = all(use.level.in_network_reduction for use in uses)
    if operation == "all_reduce" and constants.nvls and in_switch and p >= constants.nvls_ranks:
        seconds, fraction = constants.nvls
        rows.append(Row("in_network", seconds, 2.0 * (p - 1) / p / (rate * fraction), bottleneck, "NVLS"))
    return rows


def _network_rows(
    inside: tuple[LinkUse, ...],
    outside: tuple[LinkUse, ...],
    layout: GroupLayout,
    operation: str,
    constants: NcclConstants,
) -> list[Row]:
    p, turns = layout.ranks, _TURNS[operation]
    local = outside[0].below
    nodes = max(2, p // local)
    node_rate = _node_rate(inside, constants, turns)
    wire, slow = ring_rate(outside)
    rate, bottleneck = (wire, slow) if wire <= node_rate else (node_rate, inside[-1].index)
    tier = 1 if nodes <= 2 else 2
    network = _latency(outside)
    hops = turns * (nodes - 1)
    rows = []
    for index, protocol in enumerate(PROTOCOLS):
        step = max(_inside_step(inside, constants.node_step[index]), constants.host_post[index])
        if protocol == "LL":
            step = max(step, constants.ll_spread * (_latency(inside) + constants.step[0]))
        latency = (turns * (p - 1) - hops) * step + hops * (network + constants.network_extra[index])
        bus = rate * constants.network_fraction[index]
        if protocol == "LL":
            bus = min(bus, constants.ll_most[tier])
        per_byte = turns * (p - 1) / p / bus
        base = constants.network_base[index]
        if protocol == "Simple":  # concave through the plateau at 0 and the bulk at bulk_bytes per rank
            rise = (constants.bulk - constants.plateau) * latency / (constants.bulk_bytes * p)
            rows.append(Row("ring", base + constants.plateau * latency, per_byte + rise, bottleneck, protocol))
            rows.append(Row("ring", base + constants.bulk * latency, per_byte, bottleneck, protocol))
        else:
            limit = constants.short_bytes * p + 1.0
            rows.append(Row("ring", base + latency, per_byte, bottleneck, protocol, 0.0, limit))
        if operation == "all_reduce":
            seconds = constants.tree_base[index] + 2.0 * (
                (local - 1) * _inside_step(inside, constants.tree_step[index])
                + float(ceil_log2(nodes)) * (network + constants.network_tree_extra[index])
            )
            bus = rate * constants.tree_fraction[index]
            if protocol == "LL":
                bus = min(bus, constants.ll_most[tier])
            rows.extend(_tree_rows(seconds, 2.0 / bus, constants.tree_correction[index], bottleneck, protocol))
    if operation == "all_reduce":
        rows.extend(_switch_rows(inside, outside, local, nodes, wire, constants))
    return rows


def _inside_step(inside: tuple[LinkUse, ...], step: float) -> float:
    """Seconds per step inside a node; the tuner's own value unless the level is slower (0.6 us is its LL step)."""
    return max(step, step - 0.6 * US + _latency(inside))


def _node_rate(inside: tuple[LinkUse, ...], constants: NcclConstants, turns: int) -> float:
    if not inside:
        return math.inf
    rate, _ = _node_port(inside)
    return rate * (constants.reduce_simple if turns == 2 else constants.gather[2])


def _switch_rows(
    inside: tuple[LinkUse, ...],
    outside: tuple[LinkUse, ...],
    local: int,
    nodes: int,
    wire: float,
    constants: NcclConstants,
) -> list[Row]:
    """NVLSTree (NVLink switches reduce, tree between nodes) and CollNet (network switches reduce)."""
    rows = []
    node_switch = bool(inside) and all(use.level.in_network_reduction for use in inside)
    extra = max(0.0, _latency(outside) - 2.7 * US)  # the tuner's figures hold for a 2.7 us network step
    index = outside[-1].index
    if constants.nvls_tree and node_switch and local >= constants.nvls_ranks:
        base, per_level, fraction, small, fill = constants.nvls_tree
        levels = 2.0 * float(ceil_log2(nodes))
        seconds = base + levels * (per_level + extra)
        between = 2.0 / wire
        local_part = 2.0 * (local - 1) / local / (_node_port(inside)[0] * constants.nvls[1]) if constants.nvls else 0.0
        large = max(between / fraction, local_part)
        rows.append(Row("in_network", seconds, max(between / small, local_part), index, "NVLSTree"))
        rows.append(Row("in_network", seconds + levels * fill, large, index, "NVLSTree"))
    if all(use.level.in_network_reduction for use in outside):
        base, per_rank, latency, fraction = constants.collnet
        seconds = base + 2.0 * (_latency(inside) + (local - 1) * per_rank) + latency + extra
        if rows:  # measured no faster than NVLSTree at small sizes (275 against 266 us at 1 MB on 512 B200)
            seconds = max(seconds, rows[0].seconds)
        node_rate = _node_rate(inside, constants, 2)
        local_part = 2.0 * (local - 1) / local / node_rate if local > 1 else 0.0
        rows.append(Row("in_network", seconds, max(1.0 / (wire * fraction), local_part), index, "CollNet"))
    return rows


def _tree_rows(
    seconds: float, per_byte: float, correction: tuple[float, ...], bottleneck: int, protocol: str
) -> list[Row]:
    """Rows whose minimum passes through the tuner's tree times at 64 B x 2^i, where those are concave.

    The tuner divides the tree bandwidth by a size-dependent correction; between its sizes time is interpolated, and
    convex dips are replaced by the chord (the concave hull), at most a few rows.
    """
    points = [(64.0 * 2.0**i, 64.0 * 2.0**i * per_byte / factor) for i, factor in enumerate(correction)]
    hull: list[tuple[float, float]] = [(0.0, 0.0)]
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    last = hull[-1]
    lines = [(_slope(a, b), a) for a, b in itertools.pairwise(hull)]
    lines.append((per_byte / correction[-1], last))
    rows = []
    for slope, (size, time) in lines:
        rows.append(Row("double_tree", seconds + max(0.0, time - slope * size), slope, bottleneck, protocol))
    return rows


def _slope(first: tuple[float, float], second: tuple[float, float]) -> float:
    return (second[1] - first[1]) / (second[0] - first[0])


def _exchange_rows(
    inside: tuple[LinkUse, ...], outside: tuple[LinkUse, ...], layout: GroupLayout, constants: NcclConstants
) -> list[Row]:
    p = layout.ranks
    own = 1.0 + constants.exchange_own / (min(p, FITTED_RANKS) - 1)
    local = outside[0].below if outside else p
    between, slow = direct_all_to_all(outside, p) if outside else (ZERO, 0)
    post = (p - local) * constants.host_post[0] + _latency(outside)
    rows = []
    for index, (base, per_peer, fraction) in enumerate(constants.exchange):
        seconds = base + (local - 1) * per_peer + post
        per_byte, bottleneck = float(between.per_byte), slow
        if inside:
            within, where = direct_all_to_all(inside, p)
            node = float(within.per_byte) / fraction * own
            if node >= per_byte:
                per_byte, bottleneck = node, where
        rows.append(Row("pairwise", seconds, per_byte, bottleneck, ("LL", "Simple")[index]))
    return rows


def _send_rows(inside: tuple[LinkUse, ...], outside: tuple[LinkUse, ...], constants: NcclConstants) -> list[Row]:
    use = (inside + outside)[-1]
    rows = []
    for index, (base, _, fraction) in enumerate(constants.exchange):
        share = 1.0 if outside else fraction
        rows.append(Row("send", base + use.step, 1.0 / (use.link * share), use.index, ("LL", "Simple")[index]))
    return rows


def _rooted_rows(
    inside: tuple[LinkUse, ...], outside: tuple[LinkUse, ...], layout: GroupLayout, constants: NcclConstants
) -> list[Row]:
    p = layout.ranks
    rate, bottleneck = ring_rate(outside) if outside else _node_port(inside)
    if inside and _node_port(inside)[0] < rate:
        rate, bottleneck = _node_port(inside)
    nodes = max(1, p // outside[0].below) if outside else 1
    rows = []
    for index, protocol in enumerate(PROTOCOLS):
        step = _inside_step(inside, constants.node_step[index])
        hop = _latency(outside) + constants.network_extra[index]
        seconds = constants.network_base[index] + (p - nodes) * step + (nodes - 1) * hop
        per_byte = 1.0 / (rate * constants.network_fraction[index])
        rows.append(Row("ring", seconds, per_byte, bottleneck, protocol))
    return rows

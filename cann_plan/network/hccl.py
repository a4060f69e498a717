"""HCCL: rows of collectives and the library's own choice between them.

Order of levels: all-reduce is reduce-scatter inside the server, all-reduce between servers, all-gather inside;
all-to-all goes inside first, then between. Inside a server the algorithm follows from the hardware (mesh, double
ring); between servers it is chosen by product, size and number of servers. Sources: see hccl_constants.
"""

from __future__ import annotations

import math

from cann_plan.network.algorithms import Row, phase, row
from cann_plan.network.collectives import all_gather, all_reduce, rooted
from cann_plan.network.collectives.affine import ZERO, Affine, ceil_log2, floor_log2
from cann_plan.network.hccl_constants import SELECTOR_RATE, SELECTOR_STEP, HcclConstants, SmallKernel
from cann_plan.network.layout import GroupLayout
from cann_plan.network.links import LinkUse
from cann_plan.network.nccl import split_levels

_TURNS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}


def hccl_rows(
    uses: tuple[LinkUse, ...],
    layout: GroupLayout,
    operation: str,
    constants: HcclConstants,
    node_levels: int,
    algorithm: str,
) -> list[Row]:
    """Rows of one group of at least two ranks.

    `algorithm` is "library" (HCCL's own choice, with its size thresholds), "best" (all that the product offers) or the
    name of an algorithm between servers; where the product does not offer it, the library's choice stands, as in HCCL.
    """
    inside, outside = split_levels(uses, node_levels)
    if operation == "send_recv":
        use = uses[-1]
        launch = constants.exchange[0] if constants.exchange else constants.launch
        seconds = launch + use.step + (constants.network_step if outside else 0.0)
        return [Row("send", seconds, 1.0 / use.link, use.index)]
    if operation == "all_to_all":
        return [_all_to_all(inside, outside, layout, constants)]
    if operation in ("broadcast", "reduce"):
        return [_rooted(inside, outside, operation, constants)]
    if not outside:
        return _inside_rows(inside, layout, operation, constants, node_levels, algorithm)
    return _between_rows(inside, outside, layout, operation, constants, node_levels, algorithm)


def between_choice(constants: HcclConstants, servers: int, all_reduce_bytes: float = 0.0) -> str:
    """Algorithm between servers by HCCL's estimate: 60 us per step and 20 GB/s, ties ring, NHR, then H-D.

    Products without NHR in first place (910A) take ring where the number of servers is no power of two, else H-D.
    """
    power = servers & (servers - 1) == 0
    if constants.between[:2] == ("ring", "halving_doubling"):
        return "halving_doubling" if power else "ring"
    if len(constants.between) == 1:
        return constants.between[0]
    steps = {
        "ring": 2.0 * (servers - 1),
        "nhr": 2.0 * float(ceil_log2(servers)),
        "halving_doubling": 2.0 * float(floor_log2(servers)) + (0.0 if power else 2.0),
    }
    volume = dict.fromkeys(steps, 2.0 * (servers - 1) / servers)
    if not power:
        volume["halving_doubling"] = 2.0 * (2.0 * servers - 1.0) / servers
    offered = [name for name in ("ring", "nhr", "halving_doubling") if name in constants.between]
    return min(offered, key=lambda n: steps[n] * SELECTOR_STEP + volume[n] * all_reduce_bytes / SELECTOR_RATE)


def _inside_rows(
    inside: tuple[LinkUse, ...],
    layout: GroupLayout,
    operation: str,
    constants: HcclConstants,
    node_levels: int,
    algorithm: str,
) -> list[Row]:
    if not constants.flat:
        cost, bottleneck = _level_by_level(inside, operation, constants)
        name = "mesh" if all(use.is_mesh for use in inside) else "hierarchical"
        return [row(name, Affine(cost.seconds + constants.launch, cost.per_byte), bottleneck)]
    large, bottleneck = _flat(inside, layout.ranks, operation, constants, node_levels)
    large = Affine(large.seconds + constants.launch, large.per_byte)
    if constants.small is None:
        return [row("double_ring", large, bottleneck, "SDMA")]
    crossing = inside[-1].index >= node_levels
    kernel = constants.small
    limit = (kernel.crossing_limit if crossing else kernel.limit)[operation] * layout.ranks + 1.0
    small = _small(inside, layout.ranks, operation, kernel, crossing)
    if algorithm == "best":
        limit, start = math.inf, 0.0
    else:
        start = limit
    return [
        row("mesh", small, bottleneck, "AIV", 0.0, limit),
        row("double_ring", large, bottleneck, "SDMA", start),
    ]


def _memory_rate(inside: tuple[LinkUse, ...]) -> tuple[float, int]:
    """Port of one rank on memory-semantic levels; a die pair counts only where the group is the pair."""
    wide = tuple(use for use in inside if use.level.kind != "pair") or inside
    slowest = min(wide, key=lambda use: use.rate)
    return slowest.rate, slowest.index


def _flat(
    inside: tuple[LinkUse, ...], ranks: int, operation: str, constants: HcclConstants, node_levels: int
) -> tuple[Affine, int]:
    """Ring inside each server and log steps between servers, bandwidth of one port per rank."""
    rate, bottleneck = _memory_rate(inside)
    rate *= constants.fraction.get(operation, 1.0) * (constants.pair_fraction if ranks == 2 else 1.0)
    whole_pairs = inside[0].level.kind == "pair" and math.prod(use.fan for use in inside) == ranks
    if not whole_pairs:
        # The measured fractions include what a die pair exchanges by itself; no more than the port without pairs.
        rate = min(rate, min(use.nominal for use in inside))
    servers = 1
    for use in inside:
        if use.index >= node_levels:
            servers *= use.fan
    local = max(1, ranks // servers)
    turns = _TURNS[operation]
    steps = float(ceil_log2(servers))
    crossing = constants.crossing if servers > 1 else 0.0
    seconds = turns * ((local - 1) * constants.ring_step + crossing + steps * constants.fabric_step)
    return Affine(seconds, turns * (ranks - 1) / ranks / rate), bottleneck


def _small(inside: tuple[LinkUse, ...], ranks: int, operation: str, kernel: SmallKernel, crossing: bool) -> Affine:
    rate, _ = _memory_rate(inside)
    seconds = kernel.base + kernel.per_rank * (ranks - 1) + (kernel.crossing if crossing else 0.0)
    traffic = _TURNS[operation] * (ranks - 1) / ranks * (1.0 + kernel.own / (ranks - 1))
    return Affine(seconds, traffic / (rate * kernel.fraction[operation]))


def _level_by_level(inside: tuple[LinkUse, ...], operation: str, constants: HcclConstants) -> tuple[Affine, int]:
    total, worst, bottleneck = ZERO, -1.0, inside[-1].index
    for use in inside:
        part = phase(use, operation).of_share(use.share(operation))
        extra = constants.per_peer * (use.fan - 2) if use.is_mesh else constants.ring_step * (use.fan - 1)
        total = total.then(Affine(part.seconds + extra, part.per_byte))
        if float(part.per_byte) > worst:
            worst, bottleneck = float(part.per_byte), use.index
    return total, bottleneck


def _inside_part(
    inside: tuple[LinkUse, ...],
    layout: GroupLayout,
    operation: str,
    constants: HcclConstants,
    node_levels: int,
    local: int,
) -> tuple[Affine, int]:
    if not inside:
        return ZERO, -1
    if constants.flat:
        return _flat(inside, local, operation, constants, node_levels)
    return _level_by_level(inside, operation, constants)


def _between(use: LinkUse, operation: str, name: str, constants: HcclConstants) -> Affine:
    """One phase between servers by name, RDMA costs included; full vector of one rank."""
    alpha, beta = use.step + constants.network_step, 1.0 / use.rate
    fan = use.fan
    if use.is_mesh:
        cost = phase(use, operation)
        return Affine(cost.seconds + constants.network_step, cost.per_byte)
    if name == "halving_doubling":
        half = all_gather.halving_reduce_scatter(fan, alpha, beta)
        if operation == "all_reduce":
            return all_reduce.halving_doubling_all_reduce(fan, alpha, beta)
        return half
    if name == "ring" or use.is_ring:
        half = all_gather.ring_all_gather(fan, alpha, beta)
    else:
        half = all_gather.nhr_all_gather(fan, alpha, beta)
    return half.times(2.0) if operation == "all_reduce" else half


def _between_rows(
    inside: tuple[LinkUse, ...],
    outside: tuple[LinkUse, ...],
    layout: GroupLayout,
    operation: str,
    constants: HcclConstants,
    node_levels: int,
    algorithm: str,
) -> list[Row]:
    local = outside[0].below
    part, _ = _inside_part(inside, layout, operation, constants, node_levels, local)
    servers = math.prod(use.fan for use in outside)
    names = list(constants.between) if algorithm == "best" else [between_choice(constants, servers)]
    if algorithm in constants.between:
        names = [algorithm]
    rows = []
    for name in names:
        fixed = constants.launch + _TURNS[operation] * constants.crossing
        total = Affine(fixed + part.seconds, part.per_byte)
        for use in outside:
            total = total.then(_between(use, operation, name, constants).of_share(use.share(operation)))
        rows.append(row(name, total, outside[0].index))
    threshold = constants.pipeline_all_reduce if operation == "all_reduce" else constants.pipeline_gather
    meshed = bool(inside) and all(use.is_mesh for use in inside) and local > 1 and layout.even
    if threshold is None or not meshed or algorithm in constants.between:
        return rows
    pipeline = _pipeline(inside[-1], outside, layout.ranks, servers, operation, constants)
    if algorithm in ("best", "pipeline"):
        return (
            [*rows, row("pipeline", pipeline, outside[0].index)]
            if algorithm == "best"
            else [row("pipeline", pipeline, outside[0].index)]
        )
    start = threshold * layout.ranks
    limited = [Row(r.algorithm, r.seconds, r.per_byte, r.bottleneck, r.protocol, 0.0, start) for r in rows]
    return [*limited, row("pipeline", pipeline, outside[0].index, "", start)]


def _pipeline(
    mesh: LinkUse,
    outside: tuple[LinkUse, ...],
    ranks: int,
    servers: int,
    operation: str,
    constants: HcclConstants,
) -> Affine:
    """HCCL pipeline: a ring between servers overlapped with the mesh inside; the slower of both sets each step."""
    slowest = min(outside, key=lambda use: use.rate)
    alpha_inside = mesh.step + constants.per_peer * max(0, mesh.fan - 2)
    alpha_between = max(use.step for use in outside) + constants.network_step
    between, within = all_gather.pipeline_all_gather(
        ranks, servers, alpha_inside, 1.0 / mesh.link, alpha_between, 1.0 / slowest.rate
    )
    # Larger of two affine functions, from above: exact where one is larger in both terms.
    cost = Affine(max(between.seconds, within.seconds), max(between.per_byte, within.per_byte))
    turned = cost.times(_TURNS[operation])
    fixed = constants.launch + _TURNS[operation] * constants.crossing
    return Affine(turned.seconds + fixed, turned.per_byte)


def _all_to_all(
    inside: tuple[LinkUse, ...], outside: tuple[LinkUse, ...], layout: GroupLayout, constants: HcclConstants
) -> Row:
    seconds, per_byte, bottleneck = constants.launch, 0.0, (inside + outside)[-1].index
    worst = -1.0
    if inside and constants.exchange is not None:
        base, per_doubling, fraction, pair = constants.exchange
        local = outside[0].below if outside else layout.ranks
        rate, index = _memory_rate(inside)
        seconds = base + per_doubling * float(ceil_log2(local))
        per_byte = (local - 1) / local / (rate * (pair if local == 2 else fraction))
        worst, bottleneck = per_byte, index
    elif inside:
        cost, bottleneck = _level_by_level(inside, "all_to_all", constants)
        seconds += float(cost.seconds)
        per_byte = worst = float(cost.per_byte)
    for use in outside:
        cost = phase(use, "all_to_all")
        seconds += (use.step + constants.network_step) * (1 if use.is_mesh else use.fan - 1) + use.fixed
        per_byte += float(cost.per_byte) * use.skew
        if float(cost.per_byte) > worst:
            worst, bottleneck = float(cost.per_byte), use.index
    return Row("pairwise", seconds, per_byte, bottleneck)


def _rooted(inside: tuple[LinkUse, ...], outside: tuple[LinkUse, ...], operation: str, constants: HcclConstants) -> Row:
    total = Affine(constants.launch, 0.0)
    worst, bottleneck = -1.0, (inside + outside)[-1].index
    for use in inside + outside:
        alpha = use.step + (constants.network_step if use in outside else constants.ring_step)
        beta = 1.0 / use.rate
        if use.is_mesh:
            cost = phase(use, operation)
        elif operation == "reduce" and use in outside and "halving_doubling" not in constants.between:
            cost = rooted.ring_broadcast(use.fan, alpha, beta)
        else:
            cost = rooted.nhr_broadcast(use.fan, alpha, beta)
        cost = cost.of_share(use.share(operation))
        total = total.then(cost)
        if float(cost.per_byte) > worst:
            worst, bottleneck = float(cost.per_byte), use.index
    return row("nhr", total, bottleneck)

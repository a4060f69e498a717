"""Rows (algorithm, protocol, alpha, beta) of a collective on the levels a group crosses."""

from __future__ import annotations

import math
from collections.abc import Callable

from cann_plan.network.collectives import all_gather, all_reduce, all_to_all, rooted
from cann_plan.network.collectives.affine import ZERO, Affine
from cann_plan.network.layout import GroupLayout
from cann_plan.network.links import LinkUse
from cann_plan.records import dataclass

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run a collective: `seconds` + `per_byte` n, allowed for low <= n < high bytes.

    `bottleneck` is the index of the level that carries most of the bandwidth term.
    """

    algorithm: str
    seconds: float
    per_byte: float
    bottleneck: int
    protocol: str = ""
    low: float = 0.0
    high: float = math.inf


def row(name: str, cost: Affine, bottleneck: int, protocol: str = "", low: float = 0.0, high: float = math.inf) -> Row:
    """A row from an affine cost."""
    return Row(name, float(cost.seconds), float(cost.per_byte), bottleneck, protocol, low, high)


def phase(use: LinkUse, operation: str, stepwise: str = "ring") -> Affine:
    """Reduce-scatter, all-gather, all-reduce, broadcast or all-to-all among the children of one level.

    n is the vector each participating rank holds at this level. `stepwise` is ring, nhr or halving_doubling and
    matters on switches only: a mesh runs in one step, a ring in its own order, all-to-all sends everything at once.
    """
    alpha, beta = use.step, use.relays / use.rate
    fan = use.fan
    if operation == "all_reduce":
        if stepwise == "halving_doubling" and not (use.is_mesh or use.is_ring):
            cost = all_reduce.halving_doubling_all_reduce(fan, alpha, beta)
            return Affine(cost.seconds + use.fixed, cost.per_byte)
        return phase(use, "reduce_scatter", stepwise).then(phase(use, "all_gather", stepwise))
    if operation in ("reduce_scatter", "all_gather"):
        if use.is_mesh:
            cost = all_gather.mesh_all_gather(fan, alpha, 1.0 / use.link)
        elif stepwise == "halving_doubling" and not use.is_ring:
            cost = all_gather.halving_reduce_scatter(fan, alpha, beta)
        elif stepwise == "nhr" and not use.is_ring:
            cost = all_gather.nhr_all_gather(fan, alpha, beta)
        else:
            cost = all_gather.ring_all_gather(fan, alpha, beta)
    elif operation in ("broadcast", "reduce"):
        if use.is_mesh:  # scatter over all links, then all-gather
            cost = all_gather.mesh_all_gather(fan, alpha, 1.0 / use.link).times(2.0)
        elif use.is_ring:
            cost = rooted.pipelined_ring_broadcast(fan, alpha, beta)
        else:
            cost = rooted.nhr_broadcast(fan, alpha, beta)
    elif use.is_mesh:
        cost = all_to_all.mesh_all_to_all(fan, alpha, 1.0 / use.link)
    elif use.is_ring:
        cost = _around(use, alpha)
    else:
        cost = Affine(alpha, ((fan - 1) + (use.relays - 1.0)) / fan / use.rate)
    return Affine(cost.seconds + use.fixed, cost.per_byte)


def _around(use: LinkUse, alpha: float) -> Affine:
    """All-to-all on a ring level: both ways round a closed ring, along the line otherwise."""
    if use.closed:
        return all_to_all.ring_all_to_all(use.fan, alpha, 1.0 / use.rate, use.level.split_ties)
    return all_to_all.line_all_to_all(use.fan, alpha, 1.0 / use.rate)


def hierarchical(uses: tuple[LinkUse, ...], operation: str, stepwise: str = "ring") -> tuple[Affine, int]:
    """Level by level: each level works on the vector divided by the members below it. Returns (cost, bottleneck).

    All-reduce is reduce-scatter inwards out and all-gather back (HCCL: in-server reduce-scatter, between-server
    all-reduce, in-server all-gather); all-to-all moves the whole vector once per level.
    """
    total, worst, bottleneck = ZERO, -1.0, uses[-1].index
    for use in uses:
        part = phase(use, operation, stepwise).of_share(use.share(operation))
        total = total.then(part)
        if float(part.per_byte) > worst:
            worst, bottleneck = float(part.per_byte), use.index
    return total, bottleneck


def ring_rate(uses: tuple[LinkUse, ...]) -> tuple[float, int]:
    """Bytes/s of one flat multi-channel ring over all ranks: adapters of the members in a child work together."""
    rate, bottleneck = math.inf, uses[-1].index
    for use in uses:
        through = use.rate * use.below / use.relays
        if through < rate:
            rate, bottleneck = through, use.index
    return rate, bottleneck


def ring_steps(uses: tuple[LinkUse, ...], ranks: int) -> float:
    """Seconds of one turn of a flat ring: ranks - 1 messages, of which one per unit boundary uses the slower level."""
    total, left = 0.0, ranks - 1
    for use in reversed(uses):
        if left <= 0:
            break
        crossing = min(left, max(1, ranks // use.below - 1) - (ranks - 1 - left))
        total += crossing * use.step
        left -= crossing
    return total


def flat_ring(uses: tuple[LinkUse, ...], ranks: int, turns: int) -> tuple[Affine, int]:
    """Ring over all ranks: `turns` (2 for all-reduce) times (p-1) messages, (p-1)/p n over the aggregated rate."""
    rate, bottleneck = ring_rate(uses)
    fixed = sum(use.fixed for use in uses)
    return Affine(turns * ring_steps(uses, ranks) + fixed, turns * (ranks - 1) / ranks / rate), bottleneck


def direct_all_to_all(uses: tuple[LinkUse, ...], ranks: int, pairwise: bool = True) -> tuple[Affine, int]:
    """Every pair exchanges its block; levels work at the same time, the busiest one sets the bandwidth term.

    `pairwise` synchronises after each peer, so that every peer costs a step; otherwise all messages start at once.
    """
    seconds, worst, bottleneck = 0.0, 0.0, uses[-1].index
    for position, use in enumerate(uses):
        outside = uses[position + 1 :]
        inside = use.below * use.fan
        dimension_order = any(other.is_mesh or other.is_ring for other in outside)
        if use.is_ring:
            per_byte = float(_around(use, 0.0).per_byte) * use.skew
        elif use.is_mesh:
            share = (use.fan - 1) / use.fan if dimension_order else (inside - use.below) / ranks
            per_byte = share / use.rate * use.skew
        else:
            per_byte = (ranks - use.below + use.relays - 1.0) / ranks / use.rate
        if pairwise:
            seconds += use.step if use.is_mesh else (inside - use.below) * use.step
        else:
            seconds = max(seconds, use.step * (use.fan // 2 if use.is_ring else 1))
        seconds += use.fixed
        if per_byte > worst:
            worst, bottleneck = per_byte, use.index
    return Affine(seconds, worst), bottleneck


def ideal_rows(uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str) -> list[Row]:
    """Every algorithm that runs on these levels, without library constants."""
    build: dict[str, Callable[[], list[Row]]] = {
        "all_reduce": lambda: _reductions(uses, layout, operation, 2),
        "all_gather": lambda: _reductions(uses, layout, operation, 1),
        "reduce_scatter": lambda: _reductions(uses, layout, operation, 1),
        "all_to_all": lambda: _all_to_alls(uses, layout),
        "broadcast": lambda: _rooted(uses, layout, operation),
        "reduce": lambda: _rooted(uses, layout, operation),
        "send_recv": lambda: [send_row(uses)],
    }
    return build[operation]()


def send_row(uses: tuple[LinkUse, ...]) -> Row:
    """One message over the outermost crossed level."""
    use = uses[-1]
    return row("send", Affine(use.step + use.fixed, 1.0 / use.link), use.index)


def _reductions(uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, turns: int) -> list[Row]:
    rows = [row("ring", *flat_ring(uses, layout.ranks, turns))]
    single_mesh = len(uses) == 1 and uses[0].is_mesh
    rows.append(row("mesh" if single_mesh else "hierarchical", *hierarchical(uses, operation, "ring")))
    if single_mesh and operation == "all_reduce":
        rows.append(row("one_shot", all_reduce.one_shot_all_reduce(2, uses[0].step, 1.0 / uses[0].link), uses[0].index))
    if not all(use.is_mesh or use.is_ring for use in uses):
        rows.extend(row(name, *hierarchical(uses, operation, name)) for name in ("nhr", "halving_doubling"))
    if layout.even and all(use.closed for use in uses):
        rows.append(_torus_row(uses, layout, turns))
    only_switches = not any(use.is_mesh or use.is_ring for use in uses)
    if operation == "all_reduce" and only_switches:
        rate, bottleneck = ring_rate(uses)
        step = max(use.step for use in uses)
        rows.append(row("double_tree", all_reduce.double_tree_all_reduce(layout.ranks, step, 1.0 / rate), bottleneck))
        slowest = min(use.rate for use in uses)
        rows.append(
            row("recursive_doubling", all_reduce.doubling_all_reduce(layout.ranks, step, 1.0 / slowest), bottleneck)
        )
    if operation == "all_reduce" and all(use.level.in_network_reduction for use in uses):
        total = ZERO
        for use in uses:
            part = all_reduce.in_network_all_reduce(use.fan, use.step, 1.0 / use.rate)
            total = total.then(part.of_share(use.share(operation)))
        rows.append(row("in_network", total, uses[-1].index))
    return rows


def _torus_row(uses: tuple[LinkUse, ...], layout: GroupLayout, turns: int) -> Row:
    """Multi-dimensional ring: the vector split over D axes and two directions, axes visited in rotated order.

    turns ((p-1)/p) n /(2 D W) with W one direction of the slowest axis, alpha turns sum(d - 1).
    """
    slowest = min(uses, key=lambda use: use.rate)
    seconds = turns * sum((use.fan - 1) * use.step for use in uses)
    per_byte = turns * (layout.ranks - 1) / layout.ranks / (2.0 * len(uses) * slowest.rate)
    return row("torus_ring", Affine(seconds, per_byte), slowest.index)


def _all_to_alls(uses: tuple[LinkUse, ...], layout: GroupLayout) -> list[Row]:
    rows = [
        row("direct", *direct_all_to_all(uses, layout.ranks, pairwise=False)),
        row("pairwise", *direct_all_to_all(uses, layout.ranks)),
        row("hierarchical", *hierarchical(uses, "all_to_all")),
    ]
    if not any(use.is_mesh or use.is_ring for use in uses):
        step = max(use.step for use in uses)
        slowest = min(uses, key=lambda use: use.rate)
        cost = all_to_all.bruck_all_to_all(layout.ranks, step, 1.0 / slowest.rate)
        rows.append(row("bruck", cost, slowest.index))
    return rows


def _rooted(uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str) -> list[Row]:
    rate, bottleneck = ring_rate(uses)
    steps = ring_steps(uses, layout.ranks)
    chain = Affine(steps + sum(use.fixed for use in uses), 1.0 / rate)
    rows = [row("ring", chain, bottleneck), row("hierarchical", *hierarchical(uses, operation))]
    slowest = min(uses, key=lambda use: use.link)
    step = max(use.step for use in uses)
    cost = rooted.binomial_broadcast(layout.ranks, step, 1.0 / slowest.link)
    rows.append(row("tree", cost, slowest.index))
    return rows

"""Lower bounds of a collective on the levels it crosses."""

from __future__ import annotations

import math

from cann_plan.network.collectives.all_to_all import ring_all_to_all
from cann_plan.network.links import LinkUse


def lower_bounds(uses: tuple[LinkUse, ...], ranks: int, operation: str) -> list[tuple[float, float]]:
    """(seconds, seconds per byte) of one bound per crossed level; the collective takes at least the largest.

    At each level the ranks fall into K children. One message must cross the level, and each child exchanges over the
    nominal links its members have at this level and further out: 2(K-1)/K n for all-reduce (Patarasuk, Yuan 2009; n
    where switches reduce), (K-1)/K n for all-gather and reduce-scatter, n for broadcast and reduce, all blocks for
    other children for all-to-all. At the innermost level K is the number of ranks; for unequal children the smallest
    counts, and all-reduce brings it at least n.
    """
    if operation == "send_recv":
        use = uses[-1]
        return [(use.level.latency, use.rate / (use.nominal * use.link))]
    bounds = []
    even = math.prod(use.fan for use in uses) == ranks
    for position, use in enumerate(uses):
        outer = uses[position:]
        share = max(0, ranks - use.below) / ranks
        rate = use.below * sum(other.ingress for other in outer)
        if operation == "all_reduce":
            reduced = any(other.level.in_network_reduction for other in outer)
            sent = 1.0 if reduced or not even else 2.0 * share
        elif operation in ("all_gather", "reduce_scatter"):
            sent = share
        elif operation == "all_to_all":
            sent = share * use.below
        else:
            sent = 1.0
        latency = use.level.latency
        bounds.append((latency, sent / rate))
        if operation == "all_to_all" and use.is_ring:
            bounds.append((latency, _ring_load(use, outer, ranks)))
    return bounds


def _ring_load(use: LinkUse, outer: tuple[LinkUse, ...], ranks: int) -> float:
    """Seconds per byte of the average ring link: blocks travel their distance round the ring, spread both ways.

    All blocks do where the levels outside are joined member by member; else only those that stay in the ring's unit.
    """
    inside = 1.0 if all(other.is_ring for other in outer) else use.below * use.fan / ranks
    if not use.closed:
        return 0.0
    return float(ring_all_to_all(use.fan, 0.0, 1.0 / use.nominal).per_byte) * inside

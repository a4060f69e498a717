"""Lower bounds of a collective on the levels it crosses."""

from __future__ import annotations

from cann_plan.network.collectives.all_to_all import ring_all_to_all
from cann_plan.network.links import LinkUse


def lower_bounds(uses: tuple[LinkUse, ...], ranks: int, operation: str) -> list[tuple[float, float]]:
    """(seconds, seconds per byte) of one bound per crossed level; the collective takes at least the largest.

    One message must cross each level, and each child of a level must send what the others lack: 2(k-1)/k n for
    all-reduce (Patarasuk, Yuan 2009; n where switches reduce), (k-1)/k n for all-gather and reduce-scatter, n for
    broadcast and reduce, its outgoing blocks for all-to-all, over the nominal ports of all members in the child.
    """
    bounds = []
    for use in uses:
        rate = 2.0 * use.nominal if use.is_ring else use.nominal
        share = (use.fan - 1) / use.fan
        if operation == "all_reduce":
            sent = 1.0 if use.level.in_network_reduction else 2.0 * share
        elif operation in ("all_gather", "reduce_scatter"):
            sent = share
        elif operation == "all_to_all":
            if use.is_ring:
                sent = 2.0 * float(ring_all_to_all(use.fan, 0.0, 1.0).per_byte) * use.below * use.fan / ranks
            else:
                sent = (use.fan - 1) * use.below / ranks
            sent *= use.below
        elif operation == "send_recv":
            sent, rate = float(use.below), use.nominal * use.link / use.rate
        else:
            sent = share if use.is_mesh else 1.0
        bounds.append((use.level.latency, sent / (rate * use.below)))
    return bounds

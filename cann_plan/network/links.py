"""What one group gets from each level it crosses: rate per rank, time per message."""

from __future__ import annotations

from dataclasses import dataclass

from cann_plan.network.layout import GroupLayout
from cann_plan.network.levels import Level, Network


@dataclass(frozen=True, slots=True)
class LinkUse:
    """One crossed level as a group sees it.

    Attributes:
        index: position of the level in the network.
        level: the level itself.
        fan: children that take part.
        below: members that share one child, each driving its own port.
        link: bytes/s of one link or port for this group, after efficiency, oversubscription and sharing.
        rate: bytes/s one rank can send in a ring-like collective: the port (switch), fan - 1 links (full mesh), one
            direction of the ring.
        step: seconds per message, software included.
        nominal: `rate` without the efficiency factor, the most the links can carry.
        fixed: seconds once per collective until the bandwidth saturates, half_size/bandwidth.
        closed: the group covers a whole ring, so that both directions can be used.
    """

    index: int
    level: Level
    fan: int
    below: int
    link: float
    rate: float
    step: float
    nominal: float
    fixed: float
    closed: bool

    @property
    def is_mesh(self) -> bool:
        """Whether every pair of children has its own link."""
        return self.level.kind in ("full-mesh", "pair")

    @property
    def is_ring(self) -> bool:
        """Whether children are joined in a ring or line."""
        return self.level.kind == "ring"


def link_uses(
    network: Network,
    layout: GroupLayout,
    efficiency: tuple[float, ...],
    overhead: tuple[float, ...],
    concurrent: bool = True,
) -> tuple[LinkUse, ...]:
    """The crossed levels of `layout`, innermost first.

    `efficiency` and `overhead` (seconds of software per message) have one entry per level. With `concurrent` all
    sibling groups communicate at the same time and share oversubscribed tiers and interleaved ring links; without it
    the group is alone.
    """
    uses = []
    for index in layout.crossed:
        level = network.levels[index]
        fan, hop = layout.fan[index], layout.hop[index]
        link = level.bandwidth * efficiency[index]
        closed = False
        hops = 1
        if level.kind == "switch":
            shared = level.oversubscription if concurrent else level.oversubscription / layout.siblings[index]
            link = link / max(1.0, shared)
            rate = link
        elif level.kind == "ring":
            hops = hop
            link = link / (hop if concurrent else 1)
            rate = link
            closed = level.wrap and fan * hop == level.size and fan > 2
        else:
            rate = (fan - 1) * link
        # A switch that stores whole messages repeats each of them once (two serialisations instead of one).
        if level.store_and_forward and level.kind == "switch":
            rate = rate / 2.0
        uses.append(
            LinkUse(
                index=index,
                level=level,
                fan=fan,
                below=layout.below[index],
                link=link,
                rate=rate,
                step=level.latency * hops + overhead[index],
                nominal=rate / efficiency[index],
                fixed=level.half_size / level.bandwidth,
                closed=closed,
            )
        )
    return tuple(uses)

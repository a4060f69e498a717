"""What one group gets from each level it crosses: rate per rank, time per message."""

from __future__ import annotations

from cann_plan.network.layout import GroupLayout
from cann_plan.network.levels import Level, Network
from cann_plan.records import dataclass


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
        skew: 1, or for unequal children how much more than (fan-1)/fan of the vector the smallest one lacks.
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
    skew: float
    closed: bool

    def share(self, operation: str) -> float:
        """Part of the whole vector a rank handles at this level, relative to the closed form of `fan` ranks."""
        return self.skew if operation == "all_to_all" else self.skew / self.below

    @property
    def relays(self) -> float:
        """How often a stepwise message is sent on this level: twice where the switch stores it whole, else once."""
        return 2.0 if self.level.store_and_forward and self.level.kind == "switch" else 1.0

    @property
    def ingress(self) -> float:
        """Nominal bytes/s that reach a rank over this level, at the rank with the fewest links."""
        if not self.is_ring:
            return self.nominal
        ends = self.fan == 2 or (not self.level.wrap and self.fan == self.level.size)
        return self.nominal if ends else 2.0 * self.nominal

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
                skew=_skew(layout, index),
                closed=closed,
            )
        )
    return tuple(uses)


def _skew(layout: GroupLayout, index: int) -> float:
    if layout.even:
        return 1.0
    members = layout.widest[index + 1] if index + 1 < len(layout.widest) else layout.ranks
    fan = layout.fan[index]
    lacking = (members - layout.below[index]) / members
    return max(1.0, lacking / ((fan - 1) / fan))

"""Fat trees of any number of levels, tapered or not; a single switch is the tree of one level."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import COPPER, OPTICAL, Cables, Components
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import IntArray, Traffic

_TIERS = ("leaf", "pod", "zone", "region")


@dataclass(frozen=True)
class FatTree(Topology):
    """Leaves of `down[0]` endpoints, pods of `down[1]` leaves, ... up to one root of `down[-1]` units.

    Traffic that leaves a unit spreads evenly over all its uplinks (up/down routing); Leiserson 1985, Al-Fares et al.
    2008.

    Attributes:
        down: children per unit, leaf level first.
        up: uplinks of a whole unit of every level but the root: leaves first.
        spines: switches in one unit of every level above the leaves.
        lanes: ports of one endpoint, all on its leaf.
        link: capacity of one link between switches.
        access: kind of cable between endpoint and leaf.
    """

    down: tuple[int, ...]
    up: tuple[int, ...] = ()
    spines: tuple[int, ...] = ()
    lanes: int = 1
    link: float = 1.0
    access: str = COPPER

    def __post_init__(self) -> None:
        """Raise ValueError where the levels do not fit each other."""
        if not self.down or min(self.down) < 1 or any(links < 1 for links in (*self.up, *self.spines)):
            raise ValueError("a fat tree needs at least one endpoint, uplink and switch per unit")
        if len(self.up) != len(self.down) - 1 or len(self.spines) != len(self.down) - 1:
            raise ValueError(f"a fat tree of {len(self.down)} levels has {len(self.down) - 1} uplink counts")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return math.prod(self.down)

    @property
    def unit_sizes(self) -> tuple[int, ...]:
        """Endpoints in one unit of each level, leaf first."""
        return tuple(math.prod(self.down[: level + 1]) for level in range(len(self.down)))

    @property
    def summary(self) -> str:
        """Levels, units and taper."""
        if len(self.down) == 1:
            return f"one switch of {self.endpoints * self.lanes} ports"
        tapers = [self._taper(level) for level in range(len(self.up))]
        words = "non-blocking" if max(tapers) <= 1 else "taper " + " and ".join(f"{t:g}:1" for t in tapers)
        units = " x ".join(str(count) for count in reversed(self.down))
        return f"{len(self.down)} levels ({units}), {words}"

    def _taper(self, level: int) -> float:
        return self.unit_sizes[level] / (self.up[level] * self.link)

    @property
    def non_blocking(self) -> bool:
        """Whether no level is tapered."""
        return all(self._taper(level) <= 1.0 + 1e-9 for level in range(len(self.up)))

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Even spread over the uplinks of each unit; downlinks carry what the unit receives."""
        everyone = np.arange(self.endpoints)
        sent = traffic.sent(everyone, self.endpoints)
        received = traffic.received(everyone, self.endpoints)
        classes = [ClassLoad("adapter", np.maximum(sent, received), 1.0, links_each=2)]
        for level, (size, links) in enumerate(zip(self.unit_sizes, self.up, strict=False)):
            units = self.endpoints // size
            zone = everyone // size
            stay = traffic.within(zone, units)
            upward = sent.reshape(units, size).sum(axis=1) - stay
            downward = received.reshape(units, size).sum(axis=1) - stay
            pool = self.up[0] if level == 0 else max(1, links // self.spines[level - 1])
            name = _TIERS[min(level, 3)]
            classes.append(ClassLoad(f"{name} uplink", upward / links, self.link, pool, links))
            classes.append(ClassLoad(f"{name} downlink", downward / links, self.link, pool, links))
        return LinkLoads(tuple(classes))

    def valiant(self, sent: float, received: float) -> LinkLoads:
        """Everything up to the root and down: spread over all uplinks, whatever the pattern."""
        classes = [ClassLoad("adapter", np.array([max(sent, received)]), 1.0, links_each=2)]
        for level, (size, links) in enumerate(zip(self.unit_sizes, self.up, strict=False)):
            for word, units in (("uplink", sent), ("downlink", received)):
                load = np.array([units * size / links])
                classes.append(ClassLoad(f"{_TIERS[min(level, 3)]} {word}", load, self.link))
        return LinkLoads(tuple(classes))

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """Two links inside a leaf, two more for every level above."""
        steps = np.where(source == destination, 0, 2)
        for size in self.unit_sizes[:-1]:
            steps = steps + np.where(source // size != destination // size, 2, 0)
        return steps

    @property
    def diameter(self) -> int:
        """Twice the levels."""
        return 2 * sum(1 for children in self.down if children > 1) if self.endpoints > 1 else 0

    @property
    def bisection(self) -> float:
        """Half of the endpoints, less where the top level or one below is tapered."""
        half = self.endpoints / 2.0
        through = [
            self.endpoints // size * links * self.link / 2.0
            for size, links in zip(self.unit_sizes, self.up, strict=False)
        ]
        return min([half, *through])

    def components(self) -> Components:
        """Leaves, spines and cores; cables between switches are optical."""
        radix = self.down[0] * self.lanes + (self.up[0] if self.up else 0)
        switches = {radix: self.endpoints // self.down[0]}
        cables = [Cables("endpoint", self.access, self.endpoints * self.lanes, 1.0 / self.lanes, access=True)]
        for level, links in enumerate(self.up):
            units = self.endpoints // self.unit_sizes[level]
            above = self.endpoints // self.unit_sizes[level + 1]
            ports = units * links + (above * self.up[level + 1] if level + 1 < len(self.up) else 0)
            count = above * self.spines[level]
            radix = -(-ports // count)
            switches[radix] = switches.get(radix, 0) + count
            cables.append(Cables(f"{_TIERS[min(level, 3)]} uplink", OPTICAL, units * links, self.link))
        return Components(switches, self.link if self.up else 1.0 / self.lanes, tuple(cables), self.endpoints)

    def graph(self) -> Graph:
        """Every switch; spine j of a unit reaches plane j of the level above.

        Raises ValueError for more than three levels or uplinks that do not divide evenly among switches.
        """
        everyone = np.arange(self.endpoints)
        leaves = self.endpoints // self.down[0]
        base = self.endpoints
        bundles = [("adapter", everyone, base + everyone // self.down[0], 1.0)]
        below, count = np.arange(leaves)[:, None] + base, 1  # switches of each unit, (units, count)
        base += leaves
        for level, links in enumerate(self.up):
            units = below.shape[0] // self.down[level + 1]
            spines = self.spines[level]
            per_switch = links // count
            if links % count or (per_switch * count) % spines:
                raise ValueError("uplinks do not divide evenly among the switches above")
            above = base + np.arange(units * spines).reshape(units, spines)
            base += units * spines
            targets = np.arange(count * per_switch) % spines if count == 1 else None
            if targets is None:
                targets = (np.arange(count)[:, None] * per_switch + np.arange(per_switch)[None, :]).reshape(-1) % spines
            origin = np.repeat(np.arange(count), per_switch)
            unit = np.repeat(np.arange(units), self.down[level + 1])
            one = below[:, origin]
            other = above[unit][:, targets]
            bundles.append((f"{_TIERS[min(level, 3)]} link", one.reshape(-1), other.reshape(-1), self.link))
            below, count = above, spines
        return join(self.endpoints, base, bundles)

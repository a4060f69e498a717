"""Dragonfly+: groups of leaves and spines, joined pairwise by global links of the spines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import COPPER, OPTICAL, Cables, Components
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import Traffic


@dataclass(frozen=True)
class DragonflyPlus(Topology):
    """Shpiner et al. 2017 (HiPINEB'17): every leaf of a group reaches every spine, spines hold the global links.

    Minimal routing is up to the spine with a link to the group wanted, global, down; k = floor(s h / (g - 1)) links per
    pair share evenly. Inside a group all spines share evenly.

    Attributes:
        terminals, leaves, spines, global_ports, groups: endpoints per leaf, leaves and spines per group, global ports
            per spine, groups.
        lanes: ports of one endpoint.
        link: capacity of a link between switches.
    """

    terminals: int
    leaves: int
    spines: int
    global_ports: int
    groups: int
    lanes: int = 1
    link: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError where groups cannot all be joined."""
        if min(self.terminals, self.leaves, self.spines, self.groups) < 1:
            raise ValueError("a dragonfly+ needs at least one endpoint, leaf, spine and group")
        if self.groups > 1 and self.parallel < 1:
            raise ValueError(f"{self.groups} groups, but {self.spines * self.global_ports + 1} can be joined pairwise")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return self.terminals * self.leaves * self.groups

    @property
    def parallel(self) -> int:
        """Global links between each pair of groups, k."""
        return self.spines * self.global_ports // (self.groups - 1) if self.groups > 1 else 0

    @property
    def summary(self) -> str:
        """Groups, switches and links per pair."""
        return (
            f"{self.groups} groups of {self.leaves} leaves and {self.spines} spines, {self.parallel} global links per "
            "pair of groups"
        )

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Up, global, down; the links between two groups share their traffic evenly."""
        g, a, s, k = self.groups, self.leaves, self.spines, self.parallel
        everyone = np.arange(self.endpoints)
        leaf, group = everyone // self.terminals, everyone // (self.terminals * a)
        peak = np.maximum(traffic.sent(everyone, self.endpoints), traffic.received(everyone, self.endpoints))
        classes = [ClassLoad("adapter", peak, 1.0, links_each=2)]
        stay = traffic.inside(group, g)
        local = stay.within(leaf, g * a)
        up = ((stay.sent(leaf, g * a) - local) / s).reshape(g, a, 1) * np.ones((1, 1, s))
        down = ((stay.received(leaf, g * a) - local) / s).reshape(g, a, 1) * np.ones((1, 1, s))
        if g > 1:
            port = np.arange((g - 1) * k)
            gates = np.zeros((g - 1, s))
            np.add.at(gates, (port % (g - 1), port // self.global_ports), 1.0 / k)
            turn = (np.arange(g)[:, None] + np.arange(1, g)[None, :]) % g
            leaving = traffic.count(leaf, g * a, group, g).reshape(g, a, g)
            up = up + np.take_along_axis(leaving, np.broadcast_to(turn[:, None, :], (g, a, g - 1)), axis=2) @ gates
            back = (np.arange(g)[:, None] - np.arange(1, g)[None, :]) % g
            arriving = traffic.count(group, g, leaf, g * a).reshape(g, g, a)[back, np.arange(g)[:, None]]
            down = down + np.swapaxes(np.matmul(gates[::-1].T, arriving), 1, 2)
            between = np.take_along_axis(traffic.count(group, g, group, g), turn, axis=1)
            classes.append(ClassLoad("global link", between.reshape(-1) / k, self.link, k, k))
        classes.append(ClassLoad("leaf uplink", up.reshape(-1), self.link))
        classes.append(ClassLoad("leaf downlink", down.reshape(-1), self.link))
        return LinkLoads(tuple(classes))

    def valiant(self, sent: float, received: float) -> LinkLoads:
        """Through a random other group, turning round at its spines."""
        g = self.groups
        if g < 3:
            return super().valiant(sent, received)
        group = self.terminals * self.leaves
        twice = (sent + received) * group / (g - 1) / self.parallel
        return LinkLoads(
            (
                ClassLoad("adapter", np.array([max(sent, received)]), 1.0, links_each=2),
                ClassLoad("global link", np.array([twice]), self.link, self.parallel),
                ClassLoad("leaf uplink", np.array([(sent + received / 2) * self.terminals / self.spines]), self.link),
                ClassLoad("leaf downlink", np.array([(received + sent / 2) * self.terminals / self.spines]), self.link),
            )
        )

    def hops(self, source: np.ndarray, destination: np.ndarray) -> np.ndarray:
        """2 on one leaf, 4 in a group, 5 between groups."""
        one, other = source // self.terminals, destination // self.terminals
        steps = np.where(source == destination, 0, 2) + 2 * (one != other)
        return np.where(one // self.leaves != other // self.leaves, 5, steps)

    @property
    def diameter(self) -> int:
        """Endpoint, up, global, down, endpoint."""
        return 5 if self.groups > 1 else (4 if self.leaves > 1 else 2)

    @property
    def bisection(self) -> float:
        """Global links between two halves of the groups, at most half of the endpoints."""
        half = self.endpoints / 2.0
        if self.groups == 1:
            return min(half, self.leaves * self.spines * self.link / 2.0)
        return min(half, (self.groups // 2) * (self.groups - self.groups // 2) * self.parallel * self.link)

    def components(self) -> Components:
        """Leaves of p + s ports, spines of l + h ports; all global ports are cabled."""
        g, a, s = self.groups, self.leaves, self.spines
        ports = self.global_ports if g > 1 else 0
        switches = {self.terminals * self.lanes + s: g * a}
        switches[a + ports] = switches.get(a + ports, 0) + g * s
        cables = [
            Cables("endpoint", COPPER, self.endpoints * self.lanes, 1.0 / self.lanes, access=True),
            Cables("leaf uplink", COPPER, g * a * s, self.link),
        ]
        if ports:
            cables.append(Cables("global", OPTICAL, g * s * ports // 2, self.link))
        return Components(switches, self.link, tuple(cables), self.endpoints)

    def graph(self) -> Graph:
        """Every link that routing uses."""
        g, a, s, k, base = self.groups, self.leaves, self.spines, self.parallel, self.endpoints
        everyone = np.arange(self.endpoints)
        spine = base + g * a
        bundles = [("adapter", everyone, base + everyone // self.terminals, 1.0)]
        one = np.repeat(np.arange(g * a), s)
        bundles.append(("leaf link", base + one, spine + one // a * s + np.tile(np.arange(s), g * a), self.link))
        first, second = np.triu_indices(g, 1)
        lane = np.arange(k)[None, :]
        ahead = (second - first)[:, None]
        from_ = first[:, None] * s + (lane * (g - 1) + ahead - 1) // max(1, self.global_ports)
        to = second[:, None] * s + (lane * (g - 1) + g - ahead - 1) // max(1, self.global_ports)
        bundles.append(("global link", spine + from_.reshape(-1), spine + to.reshape(-1), self.link))
        return join(self.endpoints, spine + g * s, bundles)

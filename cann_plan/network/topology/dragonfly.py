"""Dragonfly: groups of fully joined routers, groups joined pairwise by global links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import COPPER, OPTICAL, Cables, Components
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import FloatArray, Flows, IntArray, Traffic


@dataclass(frozen=True)
class Dragonfly(Topology):
    """Kim et al. 2008 (ISCA'08): p endpoints per router, a routers per group, h global ports per router, g groups.

    Every pair of groups has k = floor(a h / (g - 1)) global links; minimal routing is local, global, local, spread
    evenly over the k links. Global port i of a group leads to the group i mod (g - 1) + 1 further round,
    so that the k links of a pair are on different routers.

    Attributes:
        terminals, routers, global_ports, groups: p, a, h, g.
        lanes: ports of one endpoint.
        link: capacity of a local or global link.
    """

    terminals: int
    routers: int
    global_ports: int
    groups: int
    lanes: int = 1
    link: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError where groups cannot all be joined."""
        if min(self.terminals, self.routers, self.groups) < 1 or self.global_ports < 0:
            raise ValueError("a dragonfly needs at least one endpoint per router, router per group and group")
        if self.groups > 1 and self.parallel < 1:
            most = self.routers * self.global_ports + 1
            raise ValueError(f"{self.groups} groups, but a x h + 1 = {most} can be joined pairwise")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """p a g."""
        return self.terminals * self.routers * self.groups

    @property
    def parallel(self) -> int:
        """Global links between each pair of groups, k."""
        return self.routers * self.global_ports // (self.groups - 1) if self.groups > 1 else 0

    @property
    def summary(self) -> str:
        """Groups, routers and links per pair."""
        return f"{self.groups} groups of {self.routers} routers, {self.parallel} global links per pair of groups"

    def gateways(self) -> FloatArray:
        """Share of the links to the group d+1 further round that each router holds, (g-1, a)."""
        pairs, k = self.groups - 1, self.parallel
        share = np.zeros((pairs, self.routers))
        port = np.arange(pairs * k)
        np.add.at(share, (port % pairs, port // self.global_ports), 1.0 / k)
        return share

    def _other_end(self) -> FloatArray:
        """Share of the links from the group d+1 further round that each router of that group holds, (g-1, a)."""
        return self.gateways()[::-1]

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Local, global, local; the links between two groups share their traffic evenly."""
        g, a, k = self.groups, self.routers, self.parallel
        everyone = np.arange(self.endpoints)
        router, group = everyone // self.terminals, everyone // (self.terminals * a)
        peak = np.maximum(traffic.sent(everyone, self.endpoints), traffic.received(everyone, self.endpoints))
        classes = [ClassLoad("adapter", peak, 1.0, links_each=2)]
        if isinstance(traffic, Flows) and traffic.source.shape[0] * max(1, k) <= g * a * g:
            local, between = self._one_by_one(traffic)
        else:
            local, between = self._counted(traffic, router, group)
        if g > 1:
            classes.append(ClassLoad("global link", between.reshape(-1) / k, self.link, k, k))
        if a > 1:
            apart = ~np.eye(a, dtype=bool)
            classes.append(ClassLoad("local link", local[:, apart].reshape(-1), self.link))
        return LinkLoads(tuple(classes))

    def _one_by_one(self, flows: Flows) -> tuple[FloatArray, FloatArray]:
        """Units between routers of a group (g, a, a) and between groups (g, g), flow by flow and link by link."""
        g, a, k = self.groups, self.routers, self.parallel
        one, other = flows.source // self.terminals, flows.destination // self.terminals
        near = one // a == other // a
        cell = [one[near] * a + other[near] % a]
        units = [flows.weight[near]]
        one, other, weight = one[~near], other[~near], flows.weight[~near]
        ahead = (other // a - one // a - 1) % g
        if g > 1:
            lane = np.arange(k)[None, :] * (g - 1)
            leave = (lane + ahead[:, None]) // self.global_ports
            enter = (lane + (g - 2 - ahead)[:, None]) // self.global_ports
            cell += [(one[:, None] * a + leave).reshape(-1), ((other // a * a)[:, None] + enter).reshape(-1) * a]
            cell[2] = cell[2] + np.repeat(other % a, k)
            units += [np.repeat(weight / k, k)] * 2
        local = np.bincount(np.concatenate(cell), np.concatenate(units), g * a * a).reshape(g, a, a)
        between = np.bincount(one // a * g + other // a, weight, g * g).reshape(g, g)
        return local.astype(np.float64), between.astype(np.float64)

    def _counted(self, traffic: Traffic, router: IntArray, group: IntArray) -> tuple[FloatArray, FloatArray]:
        """The same from counts between routers and groups."""
        g, a = self.groups, self.routers
        local = self._inside_groups(traffic, router)
        if g == 1:
            return local, np.zeros((1, 1))
        gates, far = self.gateways(), self._other_end()
        turn = (np.arange(g)[:, None] + np.arange(1, g)[None, :]) % g  # group reached, (g, g-1)
        leaving = traffic.count(router, g * a, group, g).reshape(g, a, g)
        arriving = traffic.count(group, g, router, g * a).reshape(g, g, a)  # from group, to group, to router
        between = np.take_along_axis(traffic.count(group, g, group, g), turn, axis=1)
        # from router s towards gateway t of every other group
        out = np.take_along_axis(leaving, np.broadcast_to(turn[:, None, :], (g, a, g - 1)), axis=2)
        # from entry router s towards router t, over the groups they come from
        back = (np.arange(g)[:, None] - np.arange(1, g)[None, :]) % g
        incoming = arriving[back, np.arange(g)[:, None]]  # (g, g-1, a)
        return local + out @ gates + np.matmul(far.T, incoming), between

    def _inside_groups(self, traffic: Traffic, router: IntArray) -> FloatArray:
        """Units between routers of the same group, (g, a, a)."""
        g, a = self.groups, self.routers
        group = np.arange(self.endpoints) // (self.terminals * a)
        stay = traffic.inside(group, g)
        # zone pairs (group, router) x router: the destination's group is the source's
        matrix = stay.count(router, g * a, router % a, a)
        return matrix.reshape(g, a, a)

    def valiant(self, sent: float, received: float) -> LinkLoads:
        """Through a random other group: global links carry (sent + received) a p / (k (g-1)); Kim et al. 2008."""
        g, a, p = self.groups, self.routers, self.terminals
        if g < 3:
            return super().valiant(sent, received)
        classes = [ClassLoad("adapter", np.array([max(sent, received)]), 1.0, links_each=2)]
        twice = (sent + received) * a * p / (g - 1)
        classes.append(ClassLoad("global link", np.array([twice / self.parallel]), self.link, self.parallel))
        if a > 1:
            # to the gateway, from entry to exit in the group between, from entry to the destination
            turns = (sent + (sent + received) / 2.0 + received) * p / a
            classes.append(ClassLoad("local link", np.array([turns]), self.link))
        return LinkLoads(tuple(classes))

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """2 on one router, 3 in a group, up to 5 between groups."""
        per = self.terminals
        one, other = source // per, destination // per
        apart = source // (per * self.routers) != destination // (per * self.routers)
        steps = np.where(source == destination, 0, 2) + (one != other)
        return np.where(apart, 3 + 2 * min(1, self.routers - 1), steps)

    @property
    def diameter(self) -> int:
        """Endpoint, local, global, local, endpoint."""
        local = 1 if self.routers > 1 else 0
        return 2 + (local if self.groups == 1 else 1 + 2 * local)

    @property
    def bisection(self) -> float:
        """Global links between two halves of the groups, at most half of the endpoints."""
        half = self.endpoints / 2.0
        if self.groups == 1:
            across = (self.routers // 2) * (self.routers - self.routers // 2) * self.link
            return min(half, across) if self.routers > 1 else half
        return min(half, (self.groups // 2) * (self.groups - self.groups // 2) * self.parallel * self.link)

    def components(self) -> Components:
        """Radix p + a - 1 + h; g a (a-1)/2 local (copper) and g a h/2 global (optical) cables.

        All global ports are cabled, also those that a whole number of links per pair leaves over.
        """
        g, a = self.groups, self.routers
        ports = self.global_ports if g > 1 else 0
        cables = [Cables("endpoint", COPPER, self.endpoints * self.lanes, 1.0 / self.lanes, access=True)]
        if a > 1:
            cables.append(Cables("local", COPPER, g * a * (a - 1) // 2, self.link))
        if ports:
            cables.append(Cables("global", OPTICAL, g * a * ports // 2, self.link))
        radix = self.terminals * self.lanes + a - 1 + ports
        return Components({radix: g * a}, self.link, tuple(cables), self.endpoints)

    def graph(self) -> Graph:
        """Every link that routing uses."""
        g, a, base = self.groups, self.routers, self.endpoints
        everyone = np.arange(self.endpoints)
        bundles = [("adapter", everyone, base + everyone // self.terminals, 1.0)]
        one, other = np.triu_indices(a, 1)
        start = base + np.arange(g)[:, None] * a
        bundles.append(("local link", (start + one).reshape(-1), (start + other).reshape(-1), self.link))
        one, other = self.global_links()
        bundles.append(("global link", base + one, base + other, self.link))
        return join(self.endpoints, base + g * a, bundles)

    def global_links(self) -> tuple[IntArray, IntArray]:
        """Router at either end of every global link, numbered through all groups."""
        g, a, h, k = self.groups, self.routers, self.global_ports, self.parallel
        first, second = np.triu_indices(g, 1)
        lane = np.arange(k)[None, :]
        ahead = (second - first)[:, None]
        one = first[:, None] * a + (lane * (g - 1) + ahead - 1) // h
        other = second[:, None] * a + (lane * (g - 1) + g - ahead - 1) // h
        return one.reshape(-1), other.reshape(-1)

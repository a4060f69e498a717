"""HyperX: switches at the points of a grid, all switches of a line joined pairwise; full meshes of any dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.axes import Axis
from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.boxes import box
from cann_plan.network.topology.components import COPPER, OPTICAL, Cables, Components
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.lines import line_hops
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import Flows, Groups, IntArray, Traffic


@dataclass(frozen=True)
class HyperX(Topology):
    """Ahn et al. 2009 (SC'09). Minimal routing goes dimension by dimension, one link per dimension.

    Attributes:
        shape: switches along each axis, first axis fastest.
        terminals: endpoints on each switch; 0 makes the points themselves endpoints (n-dimensional full mesh).
        trunk: parallel links between two switches of a line, per axis (empty: one each).
        lanes: ports of one endpoint.
        link: capacity of one link; for a full mesh the capacity follows from `axis_shares`.
        axis_shares: full mesh only: share of an endpoint's injection given to each axis (empty: equal shares).
        copper_axes: leading axes whose links are copper.
    """

    shape: tuple[int, ...]
    terminals: int = 0
    trunk: tuple[int, ...] = ()
    lanes: int = 1
    link: float = 1.0
    axis_shares: tuple[float, ...] = ()
    copper_axes: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError where figures do not fit the shape."""
        if not self.shape or min(self.shape) < 1 or self.terminals < 0:
            raise ValueError("a HyperX needs at least one axis of at least one switch")
        for name in ("trunk", "axis_shares"):
            if getattr(self, name) and len(getattr(self, name)) != len(self.shape):
                raise ValueError(f"{name} needs one entry per axis")

    @property
    def direct(self) -> bool:  # type: ignore[override]
        """Whether the points are endpoints."""
        return self.terminals == 0

    @property
    def points(self) -> int:
        """Switches, or endpoints of a full mesh."""
        return math.prod(self.shape)

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return self.points * max(1, self.terminals)

    @property
    def summary(self) -> str:
        """Axes and endpoints per switch."""
        axes = " x ".join(str(length) for length in self.shape)
        if self.direct:
            return f"{axes} full mesh"
        return f"{axes} switches of {self.terminals * self.lanes} endpoint ports"

    def _trunk(self, axis: int) -> int:
        return self.trunk[axis] if self.trunk else 1

    def link_capacity(self, axis: int) -> float:
        """Capacity of one link along an axis."""
        if not self.direct:
            return self.link
        used = [index for index, length in enumerate(self.shape) if length > 1]
        shares = self.axis_shares or tuple(1.0 for _ in self.shape)
        part = shares[axis] / sum(shares[index] for index in used)
        return part / ((self.shape[axis] - 1) * self._trunk(axis))

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Dimension order; traffic between two switches of a line uses their direct links."""
        everyone = np.arange(self.endpoints)
        classes = []
        between = traffic
        if not self.direct:
            peak = np.maximum(traffic.sent(everyone, self.endpoints), traffic.received(everyone, self.endpoints))
            classes.append(ClassLoad("adapter", peak, 1.0, links_each=2))
            between = self._between_switches(traffic)
        for axis, line, one, other, units in line_hops(self.shape, between):
            trunk, length = self._trunk(axis), self.shape[axis]
            cells = self.points * length
            load = np.bincount((line * length + one) * length + other, weights=units, minlength=cells) / trunk
            links = load.reshape(-1, length, length)[:, ~np.eye(length, dtype=bool)].reshape(-1)
            classes.append(ClassLoad(f"axis {axis} link", links, self.link_capacity(axis), trunk, trunk))
        if not classes:
            classes.append(ClassLoad("axis 0 link", np.zeros(1), 1.0))
        return LinkLoads(tuple(classes))

    def _between_switches(self, traffic: Traffic) -> Traffic:
        """The same traffic with switches as endpoints."""
        if self.terminals == 1:
            if isinstance(traffic, Groups):
                return Groups(self.points, traffic.group, traffic.count_of_groups, traffic.weight)
            flows = traffic.flows()
            return Flows(self.points, flows.source, flows.destination, flows.weight)
        return Terminals(traffic, self.points, self.terminals)

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """One link per axis on which the switches differ, and the two of the endpoints."""
        per = max(1, self.terminals)
        a, b = source // per, destination // per
        steps = np.where(source == destination, 0, 0 if self.direct else 2)
        for length in self.shape:
            steps = steps + (a % length != b % length)
            a, b = a // length, b // length
        return steps

    @property
    def diameter(self) -> int:
        """One link per axis longer than one, and two to the endpoints."""
        return sum(1 for length in self.shape if length > 1) + (0 if self.direct else 2)

    @property
    def bisection(self) -> float:
        """Least over the axes of R/L floor(L/2) ceil(L/2) links across the middle."""
        cuts = [
            self.points / length * (length // 2) * (length - length // 2) * self._trunk(axis) * self.link_capacity(axis)
            for axis, length in enumerate(self.shape)
            if length > 1
        ]
        return min([self.endpoints / 2.0, *cuts]) if not self.direct else min(cuts, default=0.5)

    def components(self) -> Components:
        """Switches of p + sum (L-1) K ports; R (L-1) K / 2 cables per axis."""
        cables = []
        ports = self.terminals * self.lanes
        for axis, length in enumerate(self.shape):
            trunk = self._trunk(axis)
            ports += (length - 1) * trunk
            if length > 1:
                kind = COPPER if axis < self.copper_axes else OPTICAL
                count = self.points * (length - 1) * trunk // 2
                cables.append(Cables(f"axis {axis}", kind, count, self.link_capacity(axis)))
        if self.direct:
            return Components({}, 1.0, tuple(cables), self.endpoints)
        count = self.endpoints * self.lanes
        access = Cables("endpoint", COPPER, count, 1.0 / self.lanes, access=True)
        return Components({ports: self.points}, self.link, (access, *cables), self.endpoints)

    def graph(self) -> Graph:
        """Every link, trunks as parallel links."""
        base = 0 if self.direct else self.endpoints
        points = np.arange(self.points)
        bundles = []
        if not self.direct:
            everyone = np.arange(self.endpoints)
            bundles.append(("adapter", everyone, base + everyone // self.terminals, 1.0))
        stride = 1
        for axis, length in enumerate(self.shape):
            place = points // stride % length
            for ahead in range(1, length):
                start = points[place + ahead < length]
                for _ in range(self._trunk(axis)):
                    capacity = self.link_capacity(axis)
                    bundles.append((f"axis {axis} link", base + start, base + start + ahead * stride, capacity))
            stride *= length
        return join(self.endpoints, base + self.points, bundles)

    def axes(self, positions: IntArray) -> tuple[Axis, ...] | None:
        """Full mesh: direct exchange along every axis a group extends over, all axes at once."""
        spans = box(positions, self.shape) if self.direct else None
        if spans is None:
            return None
        return tuple(
            Axis(extent, (extent - 1) * self._trunk(axis) * self.link_capacity(axis), 1, 1)
            for axis, (extent, _) in enumerate(spans)
            if extent > 1
        )


@dataclass(frozen=True, slots=True)
class Terminals:
    """Traffic of endpoints seen from the switches that hold `per` of them each; zones are arrays over switches."""

    traffic: Traffic
    endpoints: int
    per: int

    def sent(self, zone: IntArray, zones: int) -> np.ndarray:
        """See `Traffic.sent`."""
        return self.traffic.sent(np.repeat(zone, self.per), zones)

    def received(self, zone: IntArray, zones: int) -> np.ndarray:
        """See `Traffic.received`."""
        return self.traffic.received(np.repeat(zone, self.per), zones)

    def within(self, zone: IntArray, zones: int) -> np.ndarray:
        """See `Traffic.within`."""
        return self.traffic.within(np.repeat(zone, self.per), zones)

    def count(self, source: IntArray, sources: int, destination: IntArray, destinations: int) -> np.ndarray:
        """See `Traffic.count`."""
        return self.traffic.count(np.repeat(source, self.per), sources, np.repeat(destination, self.per), destinations)

    def flows(self) -> Flows:
        """See `Traffic.flows`."""
        flows = self.traffic.flows()
        return Flows.of(self.endpoints, flows.source // self.per, flows.destination // self.per, flows.weight)

    def inside(self, zone: IntArray, zones: int) -> Traffic:
        """See `Traffic.inside`."""
        return Terminals(self.traffic.inside(np.repeat(zone, self.per), zones), self.endpoints, self.per)

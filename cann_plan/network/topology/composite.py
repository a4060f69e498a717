"""Compositions: pods of one topology joined by another (super-pods, pods behind an oversubscribed core)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cann_plan.network.topology.axes import Axis
from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import OPTICAL, Cables, Components, merged
from cann_plan.network.topology.graph import Graph
from cann_plan.network.topology.loads import LinkLoads
from cann_plan.network.topology.traffic import Flows, IntArray, Traffic


@dataclass(frozen=True)
class Composite(Topology):
    """Traffic inside a pod stays on `inner`; traffic between pods leaves by links of its own and crosses `outer`.

    An endpoint of `outer` is a whole pod. The pod's links to it carry what its endpoints inject, divided by `taper`.

    Attributes:
        inner: topology of one pod.
        outer: topology that joins the pods; may be a composition itself.
        taper: injection of a pod's endpoints over capacity of its links outward.
        radix: ports of the switches that join pods, to count them (0: as many as the outer topology's own switches).
        lanes: ports of one endpoint; cables outward carry 1/lanes of its injection each.
    """

    inner: Topology
    outer: Topology
    taper: float = 1.0
    radix: int = 0
    lanes: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for a taper that is not positive."""
        if self.taper <= 0:
            raise ValueError("the taper must be positive")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return self.inner.endpoints * self.outer.endpoints

    @property
    def direct(self) -> bool:  # type: ignore[override]
        """Whether neighbours inside a pod are joined directly."""
        return self.inner.direct

    @property
    def exit(self) -> float:
        """Capacity of one pod's links outward, in units of one endpoint's injection."""
        return self.inner.endpoints / self.taper

    @property
    def summary(self) -> str:
        """Both topologies."""
        return f"{self.outer.endpoints} pods ({self.inner.summary}) joined {self.taper:g}:1 by {self.outer.summary}"

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Pods one by one with what stays inside, the outer topology with what leaves."""
        size, pods = self.inner.endpoints, self.outer.endpoints
        everyone = np.arange(self.endpoints)
        pod = everyone // size
        return LinkLoads((*self._inside(traffic, pod).classes, *self._outside(traffic, pod, pods).classes))

    def _inside(self, traffic: Traffic, pod: IntArray) -> LinkLoads:
        """Loads inside pods, each different pattern of a pod once."""
        size, pods = self.inner.endpoints, self.outer.endpoints
        flows = traffic.inside(pod, pods).flows()
        home = flows.source // size
        held = np.bincount(home, minlength=pods)
        order = np.argsort(home, kind="stable")
        ends = np.cumsum(held)
        patterns: dict[bytes, Flows] = {}
        for each in np.flatnonzero(held) if flows.source.size else np.zeros(1, dtype=np.int64):
            mine = order[ends[each] - held[each] : ends[each]]
            source, destination, units = flows.source[mine] % size, flows.destination[mine] % size, flows.weight[mine]
            key = source.tobytes() + destination.tobytes() + units.tobytes()
            patterns.setdefault(key, Flows(size, source, destination, units))
        loads = [self.inner.minimal(part) for part in patterns.values()]
        joined = []
        for index, first in enumerate(loads[0].classes):
            units = np.concatenate([item.classes[index].units for item in loads])
            joined.append(replace(first, name=f"pod {first.name}", units=units))
        return LinkLoads(tuple(joined))

    def _outside(self, traffic: Traffic, pod: IntArray, pods: int) -> LinkLoads:
        matrix = traffic.count(pod, pods, pod, pods)
        source, destination = np.nonzero(matrix * ~np.eye(pods, dtype=bool))
        flows = Flows.of(pods, source, destination, matrix[source, destination])
        between = self.outer.minimal(flows)
        return LinkLoads(
            tuple(
                replace(
                    c, name="pod uplink" if c.name == "adapter" else f"core {c.name}", capacity=c.capacity * self.exit
                )
                for c in between.classes
            )
        )

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """Inside a pod as there; between pods out, across and in."""
        size = self.inner.endpoints
        one, other = source // size, destination // size
        inside = self.inner.hops(source % size, destination % size)
        return np.where(one == other, inside, 2 + self.outer.hops(one, other))

    @property
    def diameter(self) -> int:
        """The longer of a pod's own and the way between pods."""
        return max(self.inner.diameter, 2 + self.outer.diameter) if self.outer.endpoints > 1 else self.inner.diameter

    @property
    def bisection(self) -> float:
        """The outer topology's, in units of an endpoint's injection."""
        if self.outer.endpoints == 1:
            return self.inner.bisection
        return self.outer.bisection * self.exit

    def phases(self, positions: IntArray) -> tuple[tuple[Axis, ...], ...]:
        """Inside pods that are products of axes as there, then a ring over the pods, every endpoint with its part."""
        size = self.inner.endpoints
        members = np.sort(positions, axis=1)
        pods = members // size
        reached = int(np.unique(pods[0]).shape[0])
        if not self.inner.direct or positions.shape[1] % reached:
            return ()
        blocks = members.reshape(members.shape[0], reached, -1)
        within = blocks % size
        alike = (blocks // size == blocks[:, :, :1] // size).all() and (within == within[:, :1]).all()
        if not alike:
            return ()
        inside: tuple[tuple[Axis, ...], ...] = ()
        if within.shape[2] > 1:
            inside = self.inner.phases(np.unique(within.reshape(-1, within.shape[2]), axis=0))
            if not inside:
                return ()
        if reached == 1:
            return inside
        chains = np.unique(blocks[:, :, 0] // size, axis=0)
        flows = Flows.of(self.outer.endpoints, chains.reshape(-1), np.roll(chains, -1, axis=1).reshape(-1))
        sent = flows.sent(np.arange(self.outer.endpoints), self.outer.endpoints)
        flows = Flows(flows.endpoints, flows.source, flows.destination, flows.weight / sent[flows.source])
        rate = 1.0 / self.taper / max(1.0, self.outer.minimal(flows).slowdown)
        return (*inside, (Axis(reached, rate, reached - 1, 2 + self.outer.diameter),))

    def components(self) -> Components:
        """All pods and the outer topology, once for every port of a pod's outward capacity."""
        pods = self.outer.endpoints
        planes = max(1, round(self.exit * self.lanes))
        inside = self.inner.components().times(pods)
        inside = replace(inside, cables=tuple(replace(c, name=f"pod {c.name}") for c in inside.cables))
        if pods == 1:
            return replace(inside, endpoints=self.endpoints)
        across = self.outer.components().times(planes, self.exit / planes)
        if self.radix and across.switches:
            ports = across.switch_ports
            across = replace(across, switches={self.radix: -(-ports // self.radix)})
        cables = tuple(
            Cables("pod uplink" if c.access else f"core {c.name}", OPTICAL, c.count, c.capacity) for c in across.cables
        )
        return merged([inside, replace(across, cables=cables)], self.endpoints)

    def graph(self) -> Graph:
        """Pods, a gateway per pod, and the outer topology between gateways."""
        size, pods = self.inner.endpoints, self.outer.endpoints
        pod, out = self.inner.graph(), self.outer.graph()
        switches = pod.vertices - size
        total = self.endpoints
        kinds = (*(f"pod {name}" for name in pod.kinds), "pod uplink", *(f"core {name}" for name in out.kinds))
        tails, heads, capacities, classes = [], [], [], []
        for index in range(pods):
            shift = np.where(np.arange(pod.vertices) < size, index * size, total + index * switches - size)
            place = np.arange(pod.vertices) + shift
            tails.append(place[pod.tail])
            heads.append(place[pod.head])
            capacities.append(pod.capacity)
            classes.append(pod.kind)
        gateway = total + pods * switches + np.arange(out.vertices)
        everyone = np.arange(total)
        for ends in ((everyone, gateway[everyone // size]), (gateway[everyone // size], everyone)):
            tails.append(ends[0])
            heads.append(ends[1])
            capacities.append(np.full(total, 1.0 / self.taper))
            classes.append(np.full(total, len(pod.kinds)))
        tails.append(gateway[out.tail])
        heads.append(gateway[out.head])
        capacities.append(out.capacity * self.exit)
        classes.append(out.kind + len(pod.kinds) + 1)
        vertices = total + pods * switches + out.vertices
        return Graph(
            total, vertices, np.concatenate(tails), np.concatenate(heads), np.concatenate(capacities),
            np.concatenate(classes), kinds,
        )  # fmt: skip

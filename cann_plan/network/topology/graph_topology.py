"""A topology given link by link, and twisted tori, routed by the generic engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import OPTICAL, Cables, Components
from cann_plan.network.topology.ecmp import class_loads, ecmp_loads
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import Flows, Groups, IntArray, Traffic


@dataclass(frozen=True)
class GraphTopology(Topology):
    """Any graph: shortest paths, split evenly at every hop.

    Attributes:
        links: the graph; capacities in units of what one endpoint injects.
        title: what it is called.
    """

    links: Graph
    title: str = "graph"

    def __post_init__(self) -> None:
        """Raise ValueError where endpoints cannot reach each other."""
        if self.links.endpoints < 2:
            raise ValueError("a topology needs at least two endpoints")
        if not self.links.connected():
            raise ValueError("some endpoints of the topology cannot reach each other")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return self.links.endpoints

    @property
    def direct(self) -> bool:  # type: ignore[override]
        """Whether there are no switches."""
        return self.links.vertices == self.links.endpoints

    @property
    def summary(self) -> str:
        """Sizes of the graph."""
        switches = self.links.vertices - self.links.endpoints
        return f"{self.title}: {self.endpoints} endpoints, {switches} switches, {self.links.links // 2} cables"

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Loads of the generic engine."""
        return class_loads(self.links, ecmp_loads(self.links, traffic.flows()))

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """Shortest paths."""
        return self.links.hops_between[source, destination]

    @property
    def diameter(self) -> int:
        """Longest shortest path."""
        return int(self.links.hops_between.max())

    @cached_property
    def _half_cut(self) -> float:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        graph, scale = self.links, 5040
        n, half = graph.vertices, graph.endpoints // 2
        ends = np.arange(graph.endpoints)
        first = ends < half
        source, sink = n, n + 1
        tail = np.concatenate([graph.tail, np.full(half, source), ends[~first]])
        head = np.concatenate([graph.head, ends[first], np.full(graph.endpoints - half, sink)])
        whole = np.round(np.concatenate([graph.capacity, np.full(graph.endpoints, 1e4)]) * scale).astype(np.int64)
        matrix = csr_array((np.minimum(whole, 2**31 - 1).astype(np.int32), (tail, head)), shape=(n + 2, n + 2))
        matrix.sum_duplicates()
        return float(maximum_flow(matrix, source, sink).flow_value) / scale

    @property
    def bisection(self) -> float:
        """Least cut between the first and the second half of the endpoints (one bisection, not the least of all)."""
        return self._half_cut

    def components(self) -> Components:
        """Switches by ports in use; kinds of cables are not known from a graph and count as optical."""
        graph = self.links
        degree = np.bincount(graph.tail, minlength=graph.vertices)[graph.endpoints :]
        radix, count = np.unique(degree, return_counts=True)
        switches = {int(r): int(c) for r, c in zip(radix, count, strict=True) if r}
        cables = []
        for index, name in enumerate(graph.kinds):
            mine = graph.kind == index
            end = (graph.tail < graph.endpoints) ^ (graph.head < graph.endpoints)
            for capacity in np.unique(graph.capacity[mine]):
                these = mine & (graph.capacity == capacity)
                access = bool(end[these].all())
                cables.append(Cables(name, OPTICAL, int(these.sum()) // 2, float(capacity), access))
        port = float(graph.capacity.max()) if graph.links else 1.0
        return Components(switches, port, tuple(cables), self.endpoints)

    def graph(self) -> Graph:
        """The graph itself."""
        return self.links


def twisted_torus(shape: tuple[int, ...]) -> GraphTopology:
    """Torus whose wrap-around links on every short axis also move half way along every long one.

    Shapes n x n x 2n and n x 2n x 2n (Camara et al. 2010, TPU v4 arXiv 2304.01433). Raises ValueError for a cube.
    """
    longest = max(shape)
    if min(shape) == longest:
        raise ValueError("twisting needs axes of different length")
    count = math.prod(shape)
    everyone = np.arange(count)
    strides = [math.prod(shape[:axis]) for axis in range(len(shape))]
    place = [everyone // stride % length for stride, length in zip(strides, shape, strict=True)]
    bundles = []
    link = 1.0 / (2 * len(shape))
    for axis, length in enumerate(shape):
        ahead = [p.copy() for p in place]
        ahead[axis] = (place[axis] + 1) % length
        wraps = place[axis] == length - 1
        if length < longest:
            for other, far in enumerate(shape):
                if far == longest:
                    ahead[other] = np.where(wraps, (place[other] + far // 2) % far, place[other])
        target = np.sum([p * stride for p, stride in zip(ahead, strides, strict=True)], axis=0)
        bundles.append((f"axis {axis} link", everyone, target, link))
    title = "twisted torus " + " x ".join(str(length) for length in shape)
    return TwistedTorus(join(count, count, bundles), title)


class TwistedTorus(GraphTopology):
    """A graph whose endpoints are all alike: uniform traffic is followed from one endpoint only."""

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Uniform traffic by one representative and symmetry, other traffic by the generic engine."""
        if not (isinstance(traffic, Groups) and traffic.count_of_groups == 1 and (traffic.group == 0).all()):
            return super().minimal(traffic)
        graph = self.links
        peers = np.arange(1, self.endpoints)
        one = ecmp_loads(graph, Flows.of(self.endpoints, np.zeros_like(peers), peers, traffic.weight))
        classes = []
        for index, name in enumerate(graph.kinds):
            mine = graph.kind == index
            # every link of a class is the image of every other: the mean over the class, times the senders
            units = np.array([one[mine].sum() * self.endpoints / int(mine.sum())])
            classes.append(ClassLoad(name, units, float(graph.capacity[mine][0]), links_each=int(mine.sum())))
        return LinkLoads(tuple(classes))

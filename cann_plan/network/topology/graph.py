"""A network link by link: for user-given topologies and as the oracle of the structural ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cann_plan.network.topology.traffic import FloatArray, IntArray

_UNREACHED = 1 << 30


@dataclass(frozen=True)
class Graph:
    """Directed links between vertices; the first `endpoints` vertices are endpoints, the others switches.

    Attributes:
        endpoints, vertices: numbers of vertices.
        tail, head: vertex at either end of each directed link, (E,).
        capacity: in units of what one endpoint injects, (E,).
        kind: index into `kinds` of each link, (E,).
        kinds: names of the link classes.
    """

    endpoints: int
    vertices: int
    tail: IntArray
    head: IntArray
    capacity: FloatArray
    kind: IntArray
    kinds: tuple[str, ...]

    @property
    def links(self) -> int:
        """Directed links."""
        return int(self.tail.shape[0])

    @cached_property
    def hops_between(self) -> npt.NDArray[np.int64]:
        """Links on a shortest path between endpoints, (endpoints, endpoints); unreachable: 2^30."""
        return self.distance_to(np.arange(self.endpoints))[: self.endpoints].T

    def distance_to(self, targets: IntArray) -> IntArray:
        """Links from every vertex to each target, (vertices, targets); unreachable: 2^30."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        ones = np.ones(self.links)
        backwards = csr_array((ones, (self.head, self.tail)), shape=(self.vertices, self.vertices))
        found = dijkstra(backwards, indices=np.asarray(targets), unweighted=True)
        steps: IntArray = np.where(np.isfinite(found), found, _UNREACHED).astype(np.int64).T
        return steps

    def connected(self) -> bool:
        """Whether every endpoint reaches every other."""
        return bool((self.distance_to(np.array([0]))[: self.endpoints] < _UNREACHED).all()) and bool(
            (self.distance_to(np.arange(self.endpoints))[0] < _UNREACHED).all()
        )


def join(
    endpoints: int,
    vertices: int,
    bundles: Iterable[tuple[str, Sequence[int] | IntArray, Sequence[int] | IntArray, float]],
) -> Graph:
    """A graph from bundles (class name, one end, other end, capacity) of links that run both ways."""
    tails, heads, capacities, kinds = [], [], [], []
    names: list[str] = []
    for name, one, other, capacity in bundles:
        if name not in names:
            names.append(name)
        ends = np.asarray(one, dtype=np.int64).reshape(-1), np.asarray(other, dtype=np.int64).reshape(-1)
        for tail, head in (ends, ends[::-1]):
            tails.append(tail)
            heads.append(head)
            capacities.append(np.full(tail.shape[0], capacity))
            kinds.append(np.full(tail.shape[0], names.index(name), dtype=np.int64))
    empty = np.zeros(0, dtype=np.int64)
    return Graph(
        endpoints,
        vertices,
        np.concatenate([empty, *tails]),
        np.concatenate([empty, *heads]),
        np.concatenate([np.zeros(0), *capacities]),
        np.concatenate([empty, *kinds]),
        tuple(names),
    )

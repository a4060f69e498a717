"""Shortest paths with an even split at every hop, on any graph: the engine of user-given topologies and the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.network.topology.graph import Graph
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import FloatArray, Flows, IntArray

_CELLS = 1 << 22  # (links x destinations) handled at once


def ecmp_loads(graph: Graph, flows: Flows) -> FloatArray:
    """Units on every directed link, (E,).

    At each vertex a flow splits evenly over all links that lead one hop closer to its destination (equal-cost
    multi-path, packet by packet). Raises ValueError where a destination cannot be reached.
    """
    from scipy.sparse import csr_array

    targets = np.unique(flows.destination)
    links = np.arange(graph.links)
    ones = np.ones(graph.links)
    leave = csr_array((ones, (graph.tail, links)), shape=(graph.vertices, graph.links))
    enter = csr_array((ones, (graph.head, links)), shape=(graph.vertices, graph.links))
    total = np.zeros(graph.links)
    place = np.searchsorted(targets, flows.destination)
    width = max(1, _CELLS // max(1, graph.links))
    for start in range(0, targets.shape[0], width):
        part = targets[start : start + width]
        mine = (place >= start) & (place < start + part.shape[0])
        cell = flows.source[mine] * part.shape[0] + place[mine] - start
        held = np.bincount(cell, flows.weight[mine], graph.vertices * part.shape[0]).astype(np.float64)
        total += _push(graph, held.reshape(graph.vertices, part.shape[0]), part, leave, enter)
    return total


def _push(graph: Graph, held: FloatArray, targets: IntArray, leave: Any, enter: Any) -> FloatArray:
    """Move all flow to the targets, farthest vertices first; `leave` and `enter` are (vertices, links) incidences."""
    distance = graph.distance_to(targets)
    if (held[distance >= 1 << 30] > 0).any():
        raise ValueError("some endpoints of the topology cannot reach each other")
    tail, head = distance[graph.tail], distance[graph.head]
    closer = tail == head + 1
    ways = np.maximum(leave @ closer.astype(np.float64), 1.0)
    total = np.zeros(graph.links)
    farthest = int(distance[held > 0].max(initial=0))
    for steps in range(farthest, 0, -1):
        now = closer & (tail == steps)
        moved = np.where(now, (held / ways)[graph.tail], 0.0)
        total += moved.sum(axis=1)
        held = np.where(distance == steps, 0.0, held) + enter @ moved
    return total


def class_loads(graph: Graph, units: FloatArray) -> LinkLoads:
    """Loads of a graph's links by class; links of one class and different capacity form classes of their own."""
    classes = []
    for index, name in enumerate(graph.kinds):
        of_kind = graph.kind == index
        for capacity in np.unique(graph.capacity[of_kind]):
            if np.isfinite(capacity):
                mine = of_kind & (graph.capacity == capacity)
                classes.append(ClassLoad(name, units[mine], float(capacity)))
    return LinkLoads(tuple(classes))

"""The least possible load of the worst link, over all ways to route: a linear program, for small graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.network.topology.graph import Graph
from cann_plan.network.topology.traffic import Flows

MOST_VARIABLES = 60_000
"""Sources times links that HiGHS solves within seconds."""


def least_worst_load(graph: Graph, flows: Flows) -> float:
    """Least pressure (units over capacity) of the worst link when flows may split in any way.

    Maximum concurrent flow with flows of one source added up (Shahrokhi, Matula 1990), solved by HiGHS. Endpoints on
    switches are folded into them, so that only links between switches count; a direct network keeps all links.

    Raises:
        ValueError: more than `MOST_VARIABLES` variables.
        RuntimeError: the solver did not finish.
    """
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, csr_array, hstack

    home = _homes(graph)
    tail, head = home[graph.tail], home[graph.head]
    inner = (tail != head) & np.isfinite(graph.capacity)
    tail, head, capacity = tail[inner], head[inner], graph.capacity[inner]
    names, place = np.unique(np.concatenate([tail, head]), return_inverse=True)
    tail, head = place[: tail.shape[0]], place[tail.shape[0] :]
    links, nodes = tail.shape[0], names.shape[0]
    ends = np.searchsorted(names, home[flows.source]), np.searchsorted(names, home[flows.destination])
    apart = ends[0] != ends[1]
    demand = np.bincount(
        ends[0][apart] * nodes + ends[1][apart], weights=flows.weight[apart], minlength=nodes * nodes
    ).reshape(nodes, nodes)
    sources = np.flatnonzero(demand.sum(axis=1))
    if sources.shape[0] * links > MOST_VARIABLES:
        raise ValueError(f"{sources.shape[0]} sources x {links} links are too many for the linear program")
    place_of = np.arange(links)
    ones = np.ones(links)
    incidence = csr_array((ones, (head, place_of)), shape=(nodes, links)) - csr_array(
        (ones, (tail, place_of)), shape=(nodes, links)
    )
    keep = [np.delete(np.arange(nodes), source) for source in sources]
    balance = block_diag([incidence[rows] for rows in keep], format="csr")
    arrives = np.concatenate([demand[source][rows] for source, rows in zip(sources, keep, strict=True)])
    width = sources.shape[0] * links
    equal: Any = hstack([balance, csr_array((balance.shape[0], 1))], format="csr")
    total = csr_array((np.ones(width), (np.tile(place_of, sources.shape[0]), np.arange(width))), shape=(links, width))
    below: Any = hstack([total, csr_array(-capacity[:, None])], format="csr")
    cost = np.zeros(width + 1)
    cost[-1] = 1.0
    solved: Any = linprog(
        cost, A_ub=below, b_ub=np.zeros(links), A_eq=equal, b_eq=arrives, bounds=(0, None), method="highs-ipm"
    )
    if not solved.success:
        raise RuntimeError(f"linear program: {solved.message}")
    return float(solved.fun)


def _homes(graph: Graph) -> np.ndarray:
    """Vertex that stands for each vertex: an endpoint with one neighbour is folded into it."""
    home = np.arange(graph.vertices)
    if graph.vertices == graph.endpoints:
        return home
    for vertex in range(graph.endpoints):
        near = np.unique(graph.head[graph.tail == vertex])
        if near.shape[0] == 1 and near[0] >= graph.endpoints:
            home[vertex] = near[0]
    return home

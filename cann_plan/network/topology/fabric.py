"""A topology fitted to a cluster: which endpoints, how many planes, what it is built of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import Components
from cann_plan.network.topology.traffic import IntArray

PLACEMENTS = ("compact", "random")


@dataclass(frozen=True)
class Fabric:
    """One scale-out network for `nodes` servers of `per_node` devices, each with one adapter.

    Servers are the endpoints of the topology. With `planes` > 1 every adapter (rail) or a share of it has a plane of
    its own, all alike; collectives keep to their rail, so that one plane stands for all.

    Attributes:
        name: name of the topology in the comparison.
        topology: one plane.
        nodes: servers in use; the topology may have more endpoints.
        per_node: devices, and adapters, per server.
        planes: equal planes side by side.
        parts: components of the whole network.
        joined: planes reach each other through switches; otherwise only inside servers (rails).
        routing: usual routing of the family.
        queue_pairs: flows per pair of communicating devices that ECMP hashes one by one.
        note: what a reader must know.
    """

    name: str
    topology: Topology
    nodes: int
    per_node: int
    planes: int
    parts: Components
    routing: str = "adaptive"
    queue_pairs: int = 1
    note: str = ""
    joined: bool = True

    @property
    def endpoints(self) -> int:
        """Device ports the network serves."""
        return self.topology.endpoints * self.per_node

    @property
    def summary(self) -> str:
        """Shape in words."""
        planes = f", {self.planes} planes" if self.planes > 1 else ""
        return self.topology.summary + planes

    @property
    def bisection(self) -> float:
        """Capacity between two halves, one direction, in units of what one device injects."""
        return self.topology.bisection * self.per_node

    def positions(self, placement: str, seed: int = 0) -> IntArray:
        """Endpoint of each server, (nodes,): in rank order from the first, or at random.

        Raises ValueError for an unknown placement.
        """
        if placement == "compact":
            return np.arange(self.nodes)
        if placement == "random":
            return np.random.default_rng(seed).permutation(self.topology.endpoints)[: self.nodes]
        raise ValueError(f"unknown placement {placement!r}; allowed: {', '.join(PLACEMENTS)}")

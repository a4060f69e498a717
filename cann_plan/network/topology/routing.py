"""Routing policies: loads of the same traffic under each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.collisions import hashed_load
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import Traffic

ROUTINGS = ("minimal", "ecmp", "valiant", "adaptive", "topology-aware")
ALIASES = {"ugal": "adaptive", "load-optimal": "topology-aware", "topology_aware": "topology-aware"}
DESCRIPTIONS = {
    "minimal": "minimal paths, packets spread evenly over parallel links",
    "ecmp": "minimal paths, every flow hashed to one of the parallel links",
    "valiant": "every message through a random endpoint in between",
    "adaptive": "minimal or Valiant, whichever loads links less for the pattern (UGAL)",
    "topology-aware": "the best mixture of minimal and Valiant paths for the pattern",
}


def routing_name(name: str) -> str:
    """The canonical name of a routing. Raises ValueError."""
    found = ALIASES.get(name, name)
    if found not in ROUTINGS:
        raise ValueError(f"unknown routing {name!r}; allowed: {', '.join(ROUTINGS)}")
    return found


def route(topology: Topology, traffic: Traffic, routing: str, flows_per_unit: float = 1.0) -> LinkLoads:
    """Loads of `traffic` under a routing policy.

    `flows_per_unit`: hashed flows that carry one unit (peers times queue pairs); matters for ecmp only. `adaptive`
    follows UGAL (Singh 2005): the better of minimal and Valiant; `topology-aware` splits every flow between both in
    the proportion that loads the worst link least. Raises ValueError for an unknown routing.
    """
    name = routing_name(routing)
    if name == "valiant":
        return _valiant(topology, traffic)
    minimal = topology.minimal(traffic)
    if name == "minimal":
        return minimal
    if name == "ecmp":
        return LinkLoads(tuple(_hashed(item, flows_per_unit) for item in minimal.classes))
    if minimal.slowdown <= _injected(topology, traffic):
        return minimal  # no link slows the endpoints down
    other = _valiant(topology, traffic)
    if name == "adaptive":
        return other if other.slowdown < minimal.slowdown else minimal
    return _mixture(minimal, other)


def _injected(topology: Topology, traffic: Traffic) -> float:
    everyone = np.arange(topology.endpoints)
    sent = traffic.sent(everyone, topology.endpoints)
    received = traffic.received(everyone, topology.endpoints)
    return float(max(sent.max(), received.max()))


def _valiant(topology: Topology, traffic: Traffic) -> LinkLoads:
    everyone = np.arange(topology.endpoints)
    sent = float(traffic.sent(everyone, topology.endpoints).max())
    received = float(traffic.received(everyone, topology.endpoints).max())
    return topology.valiant(sent, received)


def _hashed(item: ClassLoad, flows_per_unit: float) -> ClassLoad:
    """The class with its fullest link as hashing leaves it; means stay."""
    if item.pool == 1 or not item.units.size:
        return item
    load = hashed_load(item.worst * item.pool, item.pool, flows_per_unit)
    return replace(item, units=np.append(item.units, load), links_each=item.links_each)


def _mixture(one: LinkLoads, other: LinkLoads) -> LinkLoads:
    """Both patterns at once in the shares that load the worst link least.

    The worst pressure is the maximum of lines in the share, so that the least is at an end or where two lines cross.
    """
    names = [item.name for item in one.classes if any(item.name == o.name for o in other.classes)]
    left = np.array([one.named(name).pressure for name in names])
    right = np.array([other.named(name).pressure for name in names])
    slope = left - right
    shares = [0.0, 1.0]
    for i in range(len(names)):
        for j in range(i):
            if slope[i] != slope[j]:
                cross = (right[j] - right[i]) / (slope[i] - slope[j])
                if 0.0 < cross < 1.0:
                    shares.append(float(cross))
    best = min(shares, key=lambda x: (float(np.max(right + x * slope)), -x))
    classes = []
    for name in names:
        a, b = one.named(name), other.named(name)
        classes.append(replace(a, units=a.units * best + b.worst * (1.0 - best)))
    return LinkLoads(tuple(classes))

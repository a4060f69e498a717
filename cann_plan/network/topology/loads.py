"""Loads on the links of a topology, class by class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cann_plan.network.topology.traffic import FloatArray
from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """Loads of all directed links of one class.

    Attributes:
        name: what a message calls one link of the class, for example "leaf uplink".
        units: units of flow on each link (or on one representative link of each equally loaded set), shape (links,).
        capacity: what one link carries, in units of what one endpoint injects.
        pool: parallel links among which a flow is hashed (1: no choice); `units` is the even share of the pool.
        links_each: links that each entry of `units` stands for.
    """

    name: str
    units: FloatArray
    capacity: float
    pool: int = 1
    links_each: int = 1

    @property
    def worst(self) -> float:
        """Units on the most loaded link."""
        return float(self.units.max()) if self.units.size else 0.0

    @property
    def mean(self) -> float:
        """Mean units per link."""
        return float(self.units.mean()) if self.units.size else 0.0

    @property
    def pressure(self) -> float:
        """Units over capacity on the most loaded link: above 1 the link slows its flows down."""
        return self.worst / self.capacity

    @property
    def crossings(self) -> float:
        """Units added up over all links of the class."""
        return float(self.units.sum()) * self.links_each

    def scaled(self, factor: float) -> ClassLoad:
        """The same pattern with every flow `factor` times as heavy."""
        return replace(self, units=self.units * factor)


@dataclass(frozen=True, slots=True)
class LinkLoads:
    """Loads of every link class under one traffic pattern."""

    classes: tuple[ClassLoad, ...]

    @property
    def hottest(self) -> ClassLoad:
        """The class whose worst link is most loaded for its capacity."""
        return max(self.classes, key=lambda c: c.pressure)

    @property
    def slowdown(self) -> float:
        """How much slower than at full injection the pattern runs; at least 1 where endpoints send 1 unit."""
        return max(c.pressure for c in self.classes)

    @property
    def crossings(self) -> float:
        """Units times links crossed, all flows together."""
        return sum(c.crossings for c in self.classes)

    def named(self, name: str) -> ClassLoad:
        """The class of that name. Raises KeyError."""
        for item in self.classes:
            if item.name == name:
                return item
        raise KeyError(name)

    def scaled(self, factor: float) -> LinkLoads:
        """The same pattern with every flow `factor` times as heavy."""
        return LinkLoads(tuple(c.scaled(factor) for c in self.classes))


def combine(parts: Iterable[tuple[LinkLoads, float]]) -> LinkLoads:
    """Patterns one after the other or at once: worst link by worst link, weighted and added.

    Exact where the patterns load the same link most (symmetric topologies); otherwise an upper bound.
    """
    names: dict[str, list[tuple[ClassLoad, float]]] = {}
    for loads, weight in parts:
        for item in loads.classes:
            names.setdefault(item.name, []).append((item, weight))
    merged = []
    for items in names.values():
        first = items[0][0]
        same = all(item.units.shape == first.units.shape for item, _ in items)
        if same:
            units = items[0][0].units * items[0][1]
            for item, weight in items[1:]:
                units = units + item.units * weight
        else:
            units = np.array([sum(item.worst * weight for item, weight in items)])
        merged.append(ClassLoad(first.name, units, first.capacity, first.pool, first.links_each if same else 1))
    return LinkLoads(tuple(merged))

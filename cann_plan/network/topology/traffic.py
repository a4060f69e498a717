"""Traffic between endpoints: explicit flows, or all-to-all inside groups counted without listing the flows.

Topologies ask traffic only how much goes from one set of zones (leaves, pods, rows of a mesh, ...) to another. Explicit
flows answer by `bincount`; groups answer by multiplying membership counts, so that all-to-all among 1,024 groups of 64
never becomes a million flows. Counts are whole numbers held in floats, hence exact.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from cann_plan.records import dataclass

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_MOST_CELLS = 1 << 23  # cells of a membership table; beyond it the flows are listed (64 MiB of floats)


class Traffic(Protocol):
    """Units of flow between `endpoints` endpoints; a zone array (endpoints,) names the zone of each endpoint."""

    @property
    def endpoints(self) -> int:
        """Number of endpoints, senders or not."""
        ...

    def sent(self, zone: IntArray, zones: int) -> FloatArray:
        """Units that leave the endpoints of each zone, (zones,)."""
        ...

    def received(self, zone: IntArray, zones: int) -> FloatArray:
        """Units that arrive at the endpoints of each zone, (zones,)."""
        ...

    def within(self, zone: IntArray, zones: int) -> FloatArray:
        """Units that stay inside each zone, (zones,)."""
        ...

    def count(self, source: IntArray, sources: int, destination: IntArray, destinations: int) -> FloatArray:
        """Units from each source zone to each destination zone, (sources, destinations)."""
        ...

    def flows(self) -> Flows:
        """The same traffic as explicit flows."""
        ...

    def inside(self, zone: IntArray, zones: int) -> Traffic:
        """Only the traffic that stays inside its zone."""
        ...


@dataclass(frozen=True, slots=True)
class Flows:
    """Explicit flows: `weight[i]` units from endpoint `source[i]` to `destination[i]`; arrays of shape (F,)."""

    endpoints: int
    source: IntArray
    destination: IntArray
    weight: FloatArray

    @classmethod
    def of(
        cls, endpoints: int, source: npt.ArrayLike, destination: npt.ArrayLike, weight: npt.ArrayLike = 1.0
    ) -> Flows:
        """From anything array-like; flows from an endpoint to itself are dropped.

        Raises ValueError for endpoints that do not exist.
        """
        start, end, units = np.broadcast_arrays(
            np.atleast_1d(np.asarray(source, dtype=np.int64)),
            np.atleast_1d(np.asarray(destination, dtype=np.int64)),
            np.atleast_1d(np.asarray(weight, dtype=np.float64)),
        )
        if start.size and (min(start.min(), end.min()) < 0 or max(start.max(), end.max()) >= endpoints):
            raise ValueError(f"flows name endpoints outside 0..{endpoints - 1}")
        real = start != end
        return cls(endpoints, start[real], end[real], units[real])

    @property
    def total(self) -> float:
        """Units in all."""
        return float(self.weight.sum())

    def sent(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.sent`."""
        return _tally(zone[self.source], self.weight, zones)

    def received(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.received`."""
        return _tally(zone[self.destination], self.weight, zones)

    def within(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.within`."""
        start, end = zone[self.source], zone[self.destination]
        stay = start == end
        return _tally(start[stay], self.weight[stay], zones)

    def count(self, source: IntArray, sources: int, destination: IntArray, destinations: int) -> FloatArray:
        """See `Traffic.count`."""
        cell = source[self.source] * destinations + destination[self.destination]
        return _tally(cell, self.weight, sources * destinations).reshape(sources, destinations)

    def flows(self) -> Flows:
        """Itself."""
        return self

    def inside(self, zone: IntArray, zones: int) -> Flows:
        """See `Traffic.inside`."""
        stay = zone[self.source] == zone[self.destination]
        return Flows(self.endpoints, self.source[stay], self.destination[stay], self.weight[stay])


@dataclass(frozen=True, slots=True)
class Groups:
    """All-to-all inside groups: `weight` units between every ordered pair of different members.

    `group` (endpoints,): group of each endpoint, -1 for none. `count_of_groups` groups in all.
    """

    endpoints: int
    group: IntArray
    count_of_groups: int
    weight: float = 1.0

    @classmethod
    def of(cls, endpoints: int, members: npt.ArrayLike, weight: float = 1.0) -> Groups:
        """From explicit members (groups, size); every endpoint in at most one group, else ValueError."""
        table = np.atleast_2d(np.asarray(members, dtype=np.int64))
        group = np.full(endpoints, -1, dtype=np.int64)
        group[table.reshape(-1)] = np.repeat(np.arange(table.shape[0]), table.shape[1])
        if int((group >= 0).sum()) != table.size:
            raise ValueError("an endpoint is in more than one group")
        return cls(endpoints, group, table.shape[0], weight)

    @classmethod
    def everyone(cls, endpoints: int, weight: float = 1.0) -> Groups:
        """Uniform all-to-all among all endpoints."""
        return cls(endpoints, np.zeros(endpoints, dtype=np.int64), 1, weight)

    @property
    def total(self) -> float:
        """Units in all."""
        sizes = self._sizes()
        return self.weight * float((sizes * (sizes - 1.0)).sum())

    def sent(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.sent`."""
        member = self.group >= 0
        peers = self._sizes()[self.group[member]] - 1.0
        return _tally(zone[member], self.weight * peers, zones)

    def received(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.received`."""
        return self.sent(zone, zones)

    def within(self, zone: IntArray, zones: int) -> FloatArray:
        """See `Traffic.within`."""
        member = np.flatnonzero(self.group >= 0)
        cell = self.group[member] * zones + zone[member]
        if self.count_of_groups * zones <= _MOST_CELLS:
            held = np.bincount(cell, minlength=self.count_of_groups * zones).reshape(self.count_of_groups, zones)
            pairs: FloatArray = (held * (held - 1)).sum(axis=0).astype(np.float64)
            return self.weight * pairs
        cells, held = np.unique(cell, return_counts=True)
        return self.weight * _tally(cells % zones, (held * (held - 1)).astype(np.float64), zones)

    def count(self, source: IntArray, sources: int, destination: IntArray, destinations: int) -> FloatArray:
        """See `Traffic.count`; whole numbers below 2^53, so the product is exact."""
        if self.count_of_groups * max(sources, destinations) > _MOST_CELLS:
            return self.flows().count(source, sources, destination, destinations)
        member = np.flatnonzero(self.group >= 0)
        group, start, end = self.group[member], source[member], destination[member]
        ones = np.ones(member.shape[0])
        held_from = _tally(group * sources + start, ones, self.count_of_groups * sources)
        held_to = _tally(group * destinations + end, ones, self.count_of_groups * destinations)
        pairs = held_from.reshape(self.count_of_groups, sources).T @ held_to.reshape(self.count_of_groups, destinations)
        own = _tally(start * destinations + end, ones, sources * destinations).reshape(sources, destinations)
        result: FloatArray = self.weight * (pairs - own)
        return result

    def flows(self) -> Flows:
        """The pairs one by one."""
        member = np.flatnonzero(self.group >= 0)
        order = member[np.argsort(self.group[member], kind="stable")]
        sizes = self._sizes().astype(np.int64)
        size = sizes[self.group[order]]
        first = np.concatenate([[0], np.cumsum(sizes)])[self.group[order]]
        source = np.repeat(order, size)
        offset = np.arange(source.shape[0]) - np.repeat(np.cumsum(size) - size, size)
        destination = order[np.repeat(first, size) + offset]
        return Flows.of(self.endpoints, source, destination, self.weight)

    def inside(self, zone: IntArray, zones: int) -> Groups:
        """See `Traffic.inside`: the parts of each group in one zone are groups of their own."""
        cell = np.where(self.group >= 0, self.group * zones + zone, -1)
        member = cell >= 0
        names, renamed = np.unique(cell[member], return_inverse=True)
        group = np.full(self.endpoints, -1, dtype=np.int64)
        group[member] = renamed
        return Groups(self.endpoints, group, names.shape[0], self.weight)

    def _sizes(self) -> FloatArray:
        member = self.group >= 0
        return np.bincount(self.group[member], minlength=self.count_of_groups).astype(np.float64)


def _tally(cell: IntArray, weight: FloatArray, cells: int) -> FloatArray:
    counted: FloatArray = np.bincount(cell, weights=weight, minlength=cells).astype(np.float64)
    return counted

"""The communication table: seconds of any collective of any group on one network, array-valued."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cann_plan.network.algorithms import OPERATIONS, Row
from cann_plan.network.bounds import lower_bounds
from cann_plan.network.groups import Group, GroupIndex, IntArray
from cann_plan.network.layout import GroupLayout, group_layout
from cann_plan.network.levels import Network
from cann_plan.network.library import CommunicationOptions, collective_rows, default_efficiency
from cann_plan.network.links import LinkUse
from cann_plan.network.transport import with_transport
from cann_plan.records import dataclass

FloatArray = npt.NDArray[np.float64]

BUS_FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""Turns of (p-1)/p n that nccl-tests counts as bus traffic (NVIDIA/nccl-tests doc/PERFORMANCE.md); others 1 x n."""


@dataclass(frozen=True, slots=True)
class LinkDescription:
    """A level that a group uses: name, kind, children that take part, members that share one child, bytes/s."""

    name: str
    kind: str
    fan: int
    below: int
    bytes_per_second_per_rank: float


@dataclass(frozen=True, slots=True)
class CollectiveDescription:
    """How one collective runs: algorithm, protocol, seconds, bound, bottleneck level and all levels used."""

    operation: str
    algorithm: str
    protocol: str
    seconds: float
    lower_bound_seconds: float
    bus_bandwidth: float
    bottleneck: str
    links: tuple[LinkDescription, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    rows: tuple[Row, ...]
    uses: tuple[LinkUse, ...]
    bounds: tuple[tuple[float, float], ...]


class _Coefficients:
    """alpha, beta, low, high of every row of every known group: arrays (rows, groups)."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.alpha: FloatArray = np.zeros((0, 0))
        self.beta: FloatArray = np.zeros((0, 0))
        self.low: FloatArray = np.zeros((0, 0))
        self.high: FloatArray = np.zeros((0, 0))
        self.bound_alpha: FloatArray = np.zeros((0, 0))
        self.bound_beta: FloatArray = np.zeros((0, 0))
        self.limits: list[bool] = []

    def rebuild(self) -> None:
        """Arrays from `entries`; unused places cost infinity (rows) or nothing (bounds)."""
        count = len(self.entries)
        width = max((len(entry.rows) for entry in self.entries), default=0)
        depth = max((len(entry.bounds) for entry in self.entries), default=0)
        self.alpha = np.full((width, count), np.inf)
        self.beta = np.zeros((width, count))
        self.low = np.zeros((width, count))
        self.high = np.full((width, count), np.inf)
        self.bound_alpha = np.zeros((depth, count))
        self.bound_beta = np.zeros((depth, count))
        for place, entry in enumerate(self.entries):
            for number, row in enumerate(entry.rows):
                self.alpha[number, place] = row.seconds
                self.beta[number, place] = row.per_byte
                self.low[number, place] = row.low
                self.high[number, place] = row.high
            for number, (seconds, per_byte) in enumerate(entry.bounds):
                self.bound_alpha[number, place] = seconds
                self.bound_beta[number, place] = per_byte
        self.limits = [bool(row.any()) for row in (self.low > 0) | np.isfinite(self.high)]


class CommunicationTable:
    """Times of collectives on one network.

    Groups are interned once; per operation each group holds a few (algorithm, protocol) rows of alpha and beta and
    the time of n bytes is the least alpha + beta n of the rows that apply to n. Results do not depend on what else is
    in a batch. All arrays are of equal shape (N,) or broadcast to it. A group of one rank takes no time.
    """

    def __init__(self, network: Network, options: CommunicationOptions | None = None) -> None:
        self.options = options or CommunicationOptions()
        assumed = default_efficiency(network, len(network.levels) - 1)
        self.network = with_transport(network, self.options.transport, self.options.tcp_cores, assumed)
        self._index = GroupIndex()
        self._layouts: dict[int, GroupLayout] = {}
        self._tables: dict[str, _Coefficients] = {}

    def groups(
        self,
        group_size: npt.ArrayLike,
        stride: npt.ArrayLike = 1,
        *,
        outer_size: npt.ArrayLike | None = None,
        outer_stride: npt.ArrayLike | None = None,
        concurrent: bool = True,
    ) -> IntArray:
        """Integers that stand for the groups {base + i stride + j outer_stride}, for `seconds_of`.

        Shape (N,). `concurrent`: all sibling groups communicate at once. Raises ValueError for sizes below 1 or
        groups wider than the network (when their time is asked for).
        """
        size, step = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=np.int64)) for v in (group_size, stride)))
        if outer_size is None:
            return self._index.intern(size, step, concurrent=concurrent)
        arrays = (size, step, outer_size, 1 if outer_stride is None else outer_stride)
        size, step, outer, leap = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, dtype=np.int64)) for v in arrays))
        return self._index.intern(size, step, outer, leap, concurrent)

    def seconds_of(self, operation: str, nbytes: npt.ArrayLike, groups: IntArray) -> FloatArray:
        """Seconds of `operation` on `nbytes` bytes for interned groups. Shape (N,).

        Bytes: the full vector for all_reduce, broadcast and reduce; the total gathered vector for all_gather and
        reduce_scatter; the total sent vector of one rank for all_to_all; the message for send_recv.
        """
        table = self._coefficients(operation, groups)
        size = np.asarray(nbytes, dtype=np.float64)
        if not table.entries:
            return np.zeros(groups.shape)
        best: FloatArray = np.full(np.broadcast_shapes(size.shape, groups.shape), np.inf)
        for row in range(table.alpha.shape[0]):
            time = table.beta[row].take(groups) * size
            time += table.alpha[row].take(groups)
            if table.limits[row]:
                outside = (size < table.low[row].take(groups)) | (size >= table.high[row].take(groups))
                time[outside] = np.inf
            np.minimum(best, time, out=best)
        return best

    def seconds(
        self,
        operation: str,
        nbytes: npt.ArrayLike,
        group_size: npt.ArrayLike,
        stride: npt.ArrayLike = 1,
        *,
        outer_size: npt.ArrayLike | None = None,
        outer_stride: npt.ArrayLike | None = None,
        concurrent: bool = True,
    ) -> FloatArray:
        """Seconds of `operation`; see `groups` and `seconds_of` for the arguments. Shape (N,)."""
        groups = self.groups(
            group_size, stride, outer_size=outer_size, outer_stride=outer_stride, concurrent=concurrent
        )
        size = np.atleast_1d(np.asarray(nbytes, dtype=np.float64))
        shape = np.broadcast_shapes(size.shape, groups.shape)
        return self.seconds_of(operation, np.broadcast_to(size, shape), np.broadcast_to(groups, shape))

    def send_seconds(
        self, nbytes: npt.ArrayLike, distance_stride: npt.ArrayLike, group_size: npt.ArrayLike = 2
    ) -> FloatArray:
        """Seconds of one message between ranks `distance_stride` apart, over the slowest hop of a chain.

        `group_size` is the number of ranks in the chain. Shape (N,). A chain of one rank takes no time.
        """
        return self.seconds("send_recv", nbytes, group_size, distance_stride)

    def bus_bandwidth(
        self, operation: str, nbytes: npt.ArrayLike, group_size: npt.ArrayLike, stride: npt.ArrayLike = 1
    ) -> FloatArray:
        """Bus bandwidth as nccl-tests counts it, bytes/s; infinite for a group of one rank. Shape (N,)."""
        seconds = self.seconds(operation, nbytes, group_size, stride)
        ranks = np.asarray(group_size, dtype=np.float64)
        turns = BUS_FACTORS.get(operation)
        traffic = np.asarray(nbytes, dtype=np.float64)
        if turns is not None:
            traffic = turns * (ranks - 1.0) / ranks * traffic
        with np.errstate(divide="ignore", invalid="ignore"):
            result: FloatArray = np.where(seconds > 0, traffic / seconds, np.inf)
        return result

    def lower_bound_seconds(
        self, operation: str, nbytes: npt.ArrayLike, group_size: npt.ArrayLike, stride: npt.ArrayLike = 1
    ) -> FloatArray:
        """The least time any algorithm needs on the crossed levels (latency and cut bandwidth). Shape (N,)."""
        groups = self.groups(group_size, stride)
        table = self._coefficients(operation, groups)
        size = np.atleast_1d(np.asarray(nbytes, dtype=np.float64))
        best = np.zeros(np.broadcast_shapes(size.shape, groups.shape))
        for row in range(table.bound_alpha.shape[0]):
            best = np.maximum(best, table.bound_alpha[row].take(groups) + table.bound_beta[row].take(groups) * size)
        return best

    def links(self, group_size: int, stride: int = 1) -> tuple[LinkDescription, ...]:
        """The levels a group uses, innermost first."""
        if group_size == 1:
            return ()
        return _link_descriptions(self._entry("all_reduce", self.groups(group_size, stride)).uses)

    def describe(self, operation: str, nbytes: float, group_size: int, stride: int = 1) -> CollectiveDescription:
        """The algorithm chosen for one collective, its time and what limits it."""
        groups = self.groups(group_size, stride)
        seconds = float(self.seconds_of(operation, np.array([float(nbytes)]), groups)[0])
        bound = float(self.lower_bound_seconds(operation, nbytes, group_size, stride)[0])
        bus = float(self.bus_bandwidth(operation, nbytes, group_size, stride)[0])
        if group_size == 1:
            return CollectiveDescription(operation, "none", "", 0.0, 0.0, math.inf, "none", ())
        entry = self._entry(operation, groups)
        allowed = [row for row in entry.rows if row.low <= nbytes < row.high]
        chosen = min(allowed, key=lambda row: row.seconds + row.per_byte * nbytes)
        name = self.network.levels[chosen.bottleneck].name
        links = _link_descriptions(entry.uses)
        return CollectiveDescription(operation, chosen.algorithm, chosen.protocol, seconds, bound, bus, name, links)

    def layout(self, group: int) -> GroupLayout:
        """Layout of an interned group on the network."""
        if group not in self._layouts:
            size, stride, outer_size, outer_stride, _ = self._index.groups[group]
            self._layouts[group] = group_layout(self.network, size, stride, outer_size, outer_stride)
        return self._layouts[group]

    def _entry(self, operation: str, groups: IntArray) -> _Entry:
        return self._coefficients(operation, groups).entries[int(groups[0])]

    def _coefficients(self, operation: str, groups: IntArray) -> _Coefficients:
        if operation not in OPERATIONS:
            raise ValueError(f"unknown collective {operation!r}; allowed: {', '.join(OPERATIONS)}")
        table = self._tables.get(operation)
        if table is None:
            table = self._tables[operation] = _Coefficients()
        if groups.size and int(groups.max()) >= len(table.entries):
            for place in range(len(table.entries), len(self._index.groups)):
                table.entries.append(self._tabulate(operation, place, self._index.groups[place]))
            table.rebuild()
        return table

    def _tabulate(self, operation: str, place: int, group: Group) -> _Entry:
        if group.size * group.outer_size == 1:
            return _Entry((Row("none", 0.0, 0.0, 0),), (), ())
        layout = self.layout(place)
        rows, uses = collective_rows(self.network, layout, operation, self.options, group.concurrent)
        bounds = lower_bounds(uses, layout.ranks, operation)
        return _Entry(tuple(rows), uses, tuple(bounds))


def _link_descriptions(uses: tuple[LinkUse, ...]) -> tuple[LinkDescription, ...]:
    return tuple(LinkDescription(u.level.name, u.level.kind, u.fan, u.below, u.rate) for u in uses)

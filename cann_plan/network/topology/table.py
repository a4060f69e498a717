"""Times of collectives on a topology: the library's algorithms with the bandwidth each one's traffic finds."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cann_plan.network.algorithms import Row, ideal_rows, phase
from cann_plan.network.bounds import lower_bounds
from cann_plan.network.collectives.affine import ZERO
from cann_plan.network.groups import Group
from cann_plan.network.hccl import hccl_rows
from cann_plan.network.hccl_constants import hccl_constants
from cann_plan.network.layout import GroupLayout
from cann_plan.network.levels import Level, Network
from cann_plan.network.library import CommunicationOptions, default_efficiency, envelope
from cann_plan.network.links import LinkUse, link_uses
from cann_plan.network.nccl import NODE_CLASS_BANDWIDTH, nccl_rows
from cann_plan.network.nccl_constants import nccl_constants
from cann_plan.network.table import CommunicationTable, _Entry
from cann_plan.network.topology import patterns
from cann_plan.network.topology.axes import Axis
from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.loads import LinkLoads, combine
from cann_plan.network.topology.routing import route, routing_name
from cann_plan.network.topology.traffic import IntArray, Traffic
from cann_plan.records import dataclass

HOP_LATENCY = 0.5e-6
"""Seconds per further switch or forwarding endpoint: EDR 0.5, HDR 0.6 us (stas00/ml-engineering @744d01e
network/README.md)."""

_GATHERS = ("all_reduce", "all_gather", "reduce_scatter")
_RECURSIVE = (
    "nhr", "nb", "halving_doubling", "recursive_doubling", "double_tree", "tree", "bruck", "in_network",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PatternLoad:
    """What one traffic pattern of a group finds on the topology.

    Attributes:
        slowdown: at least 1: how much slower than at full injection its flows run.
        hops: most links a message crosses.
        loads: loads of the links; for recursive patterns the mean of the steps weighted by their bytes.
    """

    slowdown: float
    hops: int
    loads: LinkLoads


@dataclass(frozen=True, slots=True)
class Explained:
    """How one collective runs on the topology and which link holds it up.

    Attributes:
        algorithm: of the fastest row.
        seconds: time of the collective.
        slowdown: against links that carry full injection; 1 where nothing slows it.
        link: class of the most loaded link.
        pressure: load of that link over its capacity while every endpoint sends at full rate.
        hops: most links a message crosses.
    """

    algorithm: str
    seconds: float
    slowdown: float
    link: str
    pressure: float
    hops: int


class TopologyTable(CommunicationTable):
    """`CommunicationTable` of servers joined by a fabric instead of a plain switch.

    Inside a server the levels stay. Between servers every algorithm gets the bandwidth that the worst link leaves to
    its own traffic, all groups communicating at once; where that is less than full injection, the fastest algorithm is
    taken, among them direct exchange and, on tori and full meshes, rings or meshes along all axes
    at once (the vector divided in proportion to the bandwidth of the axes).
    """

    def __init__(
        self,
        inside: tuple[Level, ...],
        scale_out: Level,
        fabric: Fabric,
        library: str = "ideal",
        generation: str = "",
        options: CommunicationOptions | None = None,
        *,
        routing: str | None = None,
        placement: str = "compact",
        hop_latency: float = HOP_LATENCY,
        seed: int = 0,
    ) -> None:
        """`scale_out`: bandwidth, efficiency and latency of one device between servers; its size is set here.

        Raises ValueError for an unknown routing or placement.
        """
        level = replace(
            scale_out, name=fabric.name, kind="switch", size=max(2, fabric.nodes), oversubscription=1.0, dimensions=()
        )
        super().__init__(Network((*inside, level), library, generation, len(inside)), options)
        self.fabric = fabric
        self.routing = routing_name(routing or fabric.routing)
        self.placement = placement
        self.hop_latency = hop_latency
        self._place = fabric.positions(placement, seed)
        self._loads: dict[tuple[Group, str], PatternLoad] = {}
        self._servers: dict[Group, patterns.ServerGroups | None] = {}
        self._phases: dict[Group, tuple[tuple[Axis, ...], ...]] = {}

    def group(self, index: int) -> Group:
        """The group that an integer of `groups` stands for."""
        return self._index.groups[index]

    def leaves_server(self, group: Group) -> bool:
        """Whether the group has members on several servers."""
        return self._server_groups(group) is not None

    def pattern(self, group: Group, pattern: str) -> PatternLoad | None:
        """Load of one pattern (ring, doubling, all_to_all, chain) of a group; None where it leaves no server."""
        servers = self._server_groups(group)
        if servers is None:
            return None
        key = (group, pattern)
        if key not in self._loads:
            self._loads[key] = self._load(servers, pattern)
        return self._loads[key]

    def phases(self, group: Group) -> tuple[tuple[Axis, ...], ...]:
        """Axes along which the group can run its own rings or meshes, phase by phase; empty where it cannot."""
        if group not in self._phases:
            servers = self._server_groups(group)
            direct = servers is not None and self.fabric.topology.direct
            found = self.fabric.topology.phases(self._place[servers.members]) if servers is not None and direct else ()
            self._phases[group] = found
        return self._phases[group]

    def at_bandwidth(self, bandwidth: float) -> TopologyTable:
        """The same fabric with every device injecting `bandwidth` bytes/s; loads are shared, they do not change."""
        other = copy.copy(self)
        levels = self.network.levels
        network = self.network.with_levels((*levels[:-1], replace(levels[-1], bandwidth=bandwidth)))
        CommunicationTable.__init__(other, network, self.options)
        return other

    def explain(self, operation: str, nbytes: float, group: Group) -> Explained | None:
        """What one collective of a group finds; None where it leaves no server."""
        if self._server_groups(group) is None:
            return None
        found = self.groups(
            group.size, group.stride, outer_size=group.outer_size, outer_stride=group.outer_stride,
            concurrent=group.concurrent,
        )  # fmt: skip
        seconds = float(self.seconds_of(operation, np.array([float(nbytes)]), found)[0])
        rows = [row for row in self._entry(operation, found).rows if row.low <= nbytes < row.high]
        chosen = min(rows, key=lambda row: row.seconds + row.per_byte * nbytes)
        if chosen.algorithm in ("axis_rings", "axis_meshes"):
            phases = self.phases(group)
            slowdown = _needed(phases) / (_members(phases) - 1) * _members(phases)
            hops = max(axis.hops for phase in phases for axis in phase)
            return Explained(chosen.algorithm, seconds, max(1.0, slowdown), "axis links", slowdown, hops)
        name = "chain" if operation == "send_recv" else _pattern_of(chosen)
        if operation == "all_to_all" or chosen.algorithm == "direct":
            name = "all_to_all"
        load = self.pattern(group, name)
        assert load is not None  # the group leaves a server
        hottest = load.loads.hottest
        return Explained(chosen.algorithm, seconds, load.slowdown, hottest.name, hottest.pressure, load.hops)

    def _server_groups(self, group: Group) -> patterns.ServerGroups | None:
        if group not in self._servers:
            servers = patterns.server_groups(group, self.fabric.nodes, self.fabric.per_node)
            if servers is not None and not group.concurrent:
                servers = patterns.ServerGroups(servers.members[:1], servers.weight[:1] / self.fabric.per_node)
            self._servers[group] = servers
        return self._servers[group]

    def _found(self, group: Group, pattern: str) -> tuple[float, int] | None:
        """(slowdown, hops) of a pattern; None where the group leaves no server."""
        servers = self._server_groups(group)
        if servers is None:
            return None
        if self.fabric.topology.non_blocking and self.routing not in ("ecmp", "valiant"):
            return 1.0, self._hops(servers, pattern)
        load = self.pattern(group, pattern)
        return None if load is None else (load.slowdown, load.hops)

    def _hops(self, servers: patterns.ServerGroups, pattern: str) -> int:
        """Most links a message of a pattern crosses."""
        members = self._place[servers.members]
        if pattern == "doubling":
            return self._farthest(members[:, 0], members[:, -1])
        if pattern == "all_to_all":
            return self._farthest(members[:, :1], members)
        return self._farthest(members[:, :-1], members[:, 1:])

    def _load(self, servers: patterns.ServerGroups, pattern: str) -> PatternLoad:
        endpoints = self.fabric.topology.endpoints
        place = self._place
        if pattern == "doubling":
            parts = [(self._routed(flows, 1), share) for flows, share in patterns.doubling(servers, place, endpoints)]
            slowdown = sum(max(1.0, loads.slowdown) * share for loads, share in parts)
            return PatternLoad(slowdown, self._hops(servers, pattern), combine(parts))
        builders: dict[str, Callable[[], Traffic]] = {
            "ring": lambda: patterns.ring(servers, place, endpoints),
            "chain": lambda: patterns.chain(servers, place, endpoints),
            "all_to_all": lambda: patterns.all_to_all(servers, place, endpoints),
        }
        peers = servers.size - 1 if pattern == "all_to_all" else 1
        loads = self._routed(builders[pattern](), peers)
        return PatternLoad(max(1.0, loads.slowdown), self._hops(servers, pattern), loads)

    def _routed(self, traffic: Traffic, peers: int) -> LinkLoads:
        """`peers`: flows into which the unit that an adapter sends is divided, before queue pairs."""
        ports = int(getattr(self.fabric.topology, "lanes", 1))  # of a server on one plane, each with flows of its own
        return route(self.fabric.topology, traffic, self.routing, peers * ports * self.fabric.queue_pairs)

    def _farthest(self, source: IntArray, destination: IntArray) -> int:
        one, other = np.broadcast_arrays(source, destination)
        return int(self.fabric.topology.hops(one.reshape(-1), other.reshape(-1)).max(initial=0))

    def _tabulate(self, operation: str, place: int, group: Group) -> _Entry:
        outer = len(self.network.levels) - 1
        if group.size * group.outer_size == 1 or outer not in self.layout(place).crossed:
            return super()._tabulate(operation, place, group)
        layout = self.layout(place)
        efficiency = tuple(
            default_efficiency(self.network, index) if level.efficiency is None else level.efficiency
            for index, level in enumerate(self.network.levels)
        )
        overhead = tuple(0.0 for _ in self.network.levels)
        uses = link_uses(self.network, layout, efficiency, overhead, group.concurrent)
        rows = self._rows(uses, layout, operation, group)
        return _Entry(tuple(envelope(rows)), uses, tuple(lower_bounds(uses, layout.ranks, operation)))

    def _rows(self, uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, group: Group) -> list[Row]:
        algorithm = "library" if self.options.algorithm == "auto" else self.options.algorithm
        free = algorithm == "library"  # no algorithm was asked for
        if free and operation in _GATHERS and self.phases(group):
            return self._axis_rows(uses, layout, operation, group)
        names = {"all_to_all": ("all_to_all",), "send_recv": ("chain",)}.get(operation, ("ring", "doubling"))
        found = {name: found for name in names if (found := self._found(group, name)) is not None}
        if not found:
            return self._library(uses, layout, operation, algorithm)
        slowed = any(slowdown > 1.0 for slowdown, _ in found.values())
        if free and slowed and operation in _GATHERS:
            algorithm = "best"
        rows = []
        for name, (slowdown, hops) in found.items():
            changed = self._changed(uses, slowdown, hops)
            offered = self._library(changed, layout, operation, algorithm)
            rows += [row for row in offered if len(found) == 1 or _pattern_of(row) == name]
        if operation == "all_to_all" and not self.fabric.joined and self.network.library != "hccl":
            rows = [_forwarded(row, uses) for row in rows]
        if free and slowed and operation in _GATHERS:
            rows += self._direct_rows(uses, layout, operation, group)
        return rows

    def _changed(self, uses: tuple[LinkUse, ...], slowdown: float, hops: int) -> tuple[LinkUse, ...]:
        """The levels with what a pattern leaves of the outermost one."""
        last = uses[-1]
        further = max(0, hops - self.fabric.topology.shortest) * self.hop_latency
        if self.routing == "valiant":
            further *= 2.0
        changed = replace(
            last,
            link=last.link / slowdown,
            rate=last.rate / slowdown,
            nominal=last.nominal / slowdown,
            step=last.step + further,
        )
        return (*uses[:-1], changed)

    def _direct_rows(self, uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, group: Group) -> list[Row]:
        """Every rank sends its part to every other, message after message."""
        found = self._found(group, "all_to_all")
        if found is None:
            return []
        rows = self._library(self._changed(uses, *found), layout, operation, "best")
        return [replace(row, algorithm="direct") for row in rows if _pattern_of(row) == "ring"]

    def _axis_rows(self, uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, group: Group) -> list[Row]:
        """Rings or meshes along all axes at once, phase after phase where pods are joined."""
        phases = self.phases(group)
        if not phases:
            return []
        last = uses[-1]
        axes = [axis for phase in phases for axis in phase]
        steps = sum(axis.steps for axis in axes)
        fan = steps + 1  # a ring of as many steps; its share (fan-1)/fan is put right in the rate
        rate = last.rate * (last.fan - 1) / last.fan / _needed(phases)
        ranks = layout.below[last.index] * fan
        if self.network.library == "hccl" and last.level.bandwidth <= NODE_CLASS_BANDWIDTH:
            rate *= steps / fan / ((last.fan - 1) / last.fan)
        else:
            rate *= (ranks - 1) / ranks / ((layout.ranks - 1) / layout.ranks)
        further = max(axis.hops - 1 for axis in axes) * self.hop_latency
        changed = replace(last, fan=fan, link=rate, rate=rate, nominal=rate, step=last.step + further)
        rows = self._library((*uses[:-1], changed), replace(layout, ranks=ranks), operation, "best")
        meshes = any(axis.steps == 1 and axis.extent > 2 for axis in axes)
        name = "axis_meshes" if meshes else "axis_rings"
        return [replace(row, algorithm=name) for row in rows if _pattern_of(row) == "ring"]

    def _library(self, uses: tuple[LinkUse, ...], layout: GroupLayout, operation: str, algorithm: str) -> list[Row]:
        """The library's rows on given levels; `algorithm` as in `CommunicationOptions`."""
        network = self.network
        if network.library == "hccl":
            constants = hccl_constants(network.generation)
            rows = hccl_rows(uses, layout, operation, constants, network.node_levels, algorithm)
        elif network.library in ("nccl", "rccl"):
            generation = "mi300" if network.library == "rccl" else network.generation
            rows = nccl_rows(uses, layout, operation, nccl_constants(generation), network.node_levels)
        else:
            rows = ideal_rows(uses, layout, operation)
        if algorithm in ("library", "best"):
            return rows
        wanted = {"tree": "double_tree"}.get(algorithm, algorithm)
        named = [row for row in rows if row.algorithm == wanted]
        return [replace(row, low=0.0, high=float("inf")) for row in named] or rows


def _forwarded(row: Row, uses: tuple[LinkUse, ...]) -> Row:
    """An all-to-all whose blocks first go to the device on their rail; HCCL's own goes level by level anyway."""
    inside = ZERO
    for use in uses[:-1]:
        inside = inside.then(phase(use, "all_to_all"))
    return replace(row, seconds=row.seconds + float(inside.seconds), per_byte=row.per_byte + float(inside.per_byte))


def _pattern_of(row: Row) -> str:
    return "doubling" if row.algorithm in _RECURSIVE else "ring"


def _members(phases: tuple[tuple[Axis, ...], ...]) -> int:
    return math.prod(axis.extent for phase in phases for axis in phase)


def _needed(phases: tuple[tuple[Axis, ...], ...]) -> float:
    """Time to gather one unit per endpoint, phase after phase, in units of one endpoint's full rate."""
    needed, before = 0.0, 1
    for axes in phases:
        members = math.prod(axis.extent for axis in axes)
        needed += (members - 1) / members / before / sum(axis.rate for axis in axes)
        before *= members
    return needed

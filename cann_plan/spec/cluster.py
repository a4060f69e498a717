"""A cluster: servers, the levels between them, how devices are counted; resolved to one list of link levels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field, model_validator

from cann_plan.records import dataclass
from cann_plan.spec.base import Section, key
from cann_plan.spec.device import CountUnit, DeviceSpec, Price, expand_sources, unstated
from cann_plan.spec.quantity import AtLeastOne, Figure, Name, PositiveInt, refuse
from cann_plan.spec.server import Host, LevelSpec, ServerPower, ServerSpec

CLUSTER_SCHEMA: Final = "cann-plan/cluster/1"
Library = Literal["hccl", "nccl", "rccl", "ideal"]


class Assumed(NamedTuple):
    """One assumption of a resolved document."""

    path: str
    value: str
    source: str


class ClusterSpec(Section):
    """Equal servers joined by `scale_out` levels; `nodes` or `devices` may be left to the planner."""

    schema_id: Literal["cann-plan/cluster/1"] = Field(CLUSTER_SCHEMA, alias="schema")
    name: Name = "cluster"
    aliases: tuple[Name, ...] = ()
    server: Name | ServerSpec = Field(description="server preset or a mapping")
    device: Name | DeviceSpec | None = key("device preset or a mapping, where it is not the server's own")
    nodes: PositiveInt | None = key("servers")
    devices: PositiveInt | None = key("devices, counted in `count_unit`")
    devices_per_node: PositiveInt | None = key("devices used per server, counted in `count_unit`")
    count_unit: CountUnit | None = key("what `devices` counts; default: what frameworks count")
    scale_out: tuple[LevelSpec, ...] = Field((), description="links between servers, innermost first")
    library: Library = Field("ideal", description="collective library")
    network: Name | None = key("the network in words")
    topology: Name | Mapping[str, Any] | None = key("scale-out topology that replaces `scale_out`")
    profile: Name | None = key("software profile")
    host: Host | None = key("host of one server, where it is not the server's own")
    power: ServerPower | None = key("power of one server, where it is not the server's own")
    price_per_hour: Price | None = key("price of one device for an hour, where it is not the device's own")
    pue: Figure[AtLeastOne] = unstated(Figure[AtLeastOne], "power usage effectiveness of the data centre")
    assumptions: tuple[Name, ...] = Field((), description="what the output must say about this cluster")
    note: Name | None = key("remark")
    sources: Mapping[str, Name] = Field({}, description="short keys used in `source` and what they stand for")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        return expand_sources(data)

    @model_validator(mode="after")
    def _rest_is_last(self) -> ClusterSpec:
        if any(level.size == "rest" for level in self.scale_out[:-1]):
            raise refuse("only the outermost level can have size rest")
        return self


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster with every name resolved; all counts are in framework ranks.

    `levels` runs from innermost to outermost and holds only levels that join at least two groups. The collective
    library treats the first `node_levels` of them as one node: those inside a server and a scale-up domain of servers.
    """

    spec: ClusterSpec
    device: DeviceSpec
    server: ServerSpec
    nodes: int
    devices_per_node: int
    levels: tuple[LevelSpec, ...]
    node_levels: int
    nodes_stated: bool
    assumptions: tuple[Assumed, ...]

    @property
    def name(self) -> str:
        """Name of the cluster preset or document."""
        return self.spec.name

    @property
    def devices(self) -> int:
        """Framework ranks."""
        return self.nodes * self.devices_per_node

    @property
    def packages(self) -> float:
        """Packages: half the ranks where a device is one of two dies."""
        dies = self.device.dies_per_package if self.device.count_unit == "die" else 1
        return self.devices / dies

    @property
    def library(self) -> str:
        """Collective library."""
        return self.spec.library

    @property
    def generation(self) -> str:
        """Product generation whose collective-library constants apply."""
        return self.device.network_generation

    @property
    def host(self) -> Host:
        """Host of one server: what the cluster states, else the server's own."""
        own = self.server.host
        stated = self.spec.host
        if stated is None:
            return own
        return own.model_copy(update={name: getattr(stated, name) for name in stated.model_fields_set})

    @property
    def power(self) -> ServerPower:
        """Power of one server."""
        return self.spec.power or self.server.power

    @property
    def price_per_hour(self) -> Price | None:
        """Price of one device for an hour, None where nobody states it."""
        return self.spec.price_per_hour or self.device.price_per_hour

    @property
    def most_nodes(self) -> int | None:
        """Servers the scale-out levels can join; None without limit."""
        return _most_nodes(self.server, self.spec.scale_out)

    def network_levels(self) -> list[dict[str, Any]]:
        """Levels as plain SI numbers for the network model. Raises UnknownFigureError for a figure nobody states.

        A single device gets one level of size 1.
        """
        if not self.levels:
            return [{"name": "one device", "kind": "switch", "size": 1, "bandwidth": 1e12, "latency": 0.0}]
        return [level.as_mapping(f"cluster {self.name}") for level in self.levels]

    def with_nodes(self, nodes: int) -> Cluster:
        """The same cluster with another number of whole servers. Raises ClusterError beyond `most_nodes`."""
        inside, outside = _levels(self.server, self.spec, nodes, self.devices_per_node)
        return replace(
            self, nodes=nodes, levels=(*inside, *outside), node_levels=_node_levels(inside, outside), nodes_stated=True
        )


class ClusterError(ValueError):
    """The cluster section asks for something that does not exist; `path` is the key at fault."""

    def __init__(self, path: str, message: str, allowed: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.allowed = allowed


def resolve(
    spec: ClusterSpec, server: ServerSpec, device: DeviceSpec, extra_assumptions: Iterable[Assumed] = ()
) -> Cluster:
    """Count devices and lay out the levels of `spec` on `server` and `device`.

    Without `nodes` and `devices` one server is taken and `nodes_stated` is false. Raises ClusterError.
    """
    unit: CountUnit = spec.count_unit or device.count_unit
    dies = device.dies_per_package
    if unit == "die" and device.count_unit == "package":
        if dies > 1:
            raise ClusterError("count_unit", f"frameworks count packages of {device.name}, not dies", "package")
        unit = "package"
    factor = dies if unit == "package" and device.count_unit == "die" else 1
    per_node = spec.devices_per_node * factor if spec.devices_per_node else server.devices_per_node
    if per_node > server.devices_per_node:
        raise ClusterError(
            "devices_per_node",
            f"{spec.devices_per_node} per node, but {server.name} has {server.devices_per_node // factor}",
            f"at most {server.devices_per_node // factor}",
        )
    nodes, per_node = _count(spec, per_node, factor)
    inside, outside = _levels(server, spec, nodes, per_node)
    assumed = [Assumed(f"cluster.{spec.name}", text, "cluster preset") for text in spec.assumptions]
    assumed += [Assumed(f"server.{server.name}", text, "server preset") for text in server.assumptions]
    assumed += [Assumed(f"device.{device.name}", text, "device preset") for text in device.assumed()]
    if spec.devices is not None and spec.count_unit is None and dies > 1 and device.count_unit == "die":
        assumed.append(
            Assumed("cluster.count_unit", "die", f"frameworks count the {dies} dies of a package as devices")
        )
    return Cluster(
        spec=spec,
        device=device,
        server=server,
        nodes=nodes,
        devices_per_node=per_node,
        levels=(*inside, *outside),
        node_levels=_node_levels(inside, outside),
        nodes_stated=spec.nodes is not None or spec.devices is not None,
        assumptions=(*assumed, *extra_assumptions),
    )


def _count(spec: ClusterSpec, per_node: int, factor: int) -> tuple[int, int]:
    """(nodes, devices per node) in framework ranks."""
    if spec.devices is None:
        return spec.nodes or 1, per_node
    ranks = spec.devices * factor
    if spec.nodes is not None:
        if ranks % spec.nodes or ranks // spec.nodes > per_node:
            raise ClusterError(
                "devices", f"{ranks} devices do not fill {spec.nodes} nodes of {per_node}", str(spec.nodes * per_node)
            )
        return spec.nodes, ranks // spec.nodes
    if ranks <= per_node:
        return 1, ranks
    if ranks % per_node:
        whole = math.ceil(ranks / per_node)
        raise ClusterError(
            "devices",
            f"{ranks} devices are not whole nodes of {per_node}",
            f"a multiple of {per_node}, for example {whole * per_node}, or devices_per_node",
        )
    return ranks // per_node, per_node


def _most_nodes(server: ServerSpec, scale_out: tuple[LevelSpec, ...]) -> int | None:
    if any(level.size == "rest" for level in scale_out):
        return None
    groups = math.prod(level.count for level in scale_out)
    return groups if server.levels or not scale_out else groups // server.devices_per_node


def _levels(
    server: ServerSpec, spec: ClusterSpec, nodes: int, per_node: int
) -> tuple[tuple[LevelSpec, ...], tuple[LevelSpec, ...]]:
    """Levels inside and between servers that `nodes` x `per_node` devices use."""
    most = _most_nodes(server, spec.scale_out)
    if most is not None and nodes > most:
        reach = "no network between servers is stated" if not spec.scale_out else f"its network joins {most} servers"
        raise ClusterError("nodes", f"{nodes} servers, but of {spec.name} {reach}", f"at most {most}")
    inside, left = _fill(server.levels, per_node)
    if left > 1 and not spec.scale_out:
        raise ClusterError("server", f"{server.name} states no links between its devices")
    outside, _ = _fill(spec.scale_out, nodes * left, unit=left)
    return inside, outside


def _node_levels(inside: tuple[LevelSpec, ...], outside: tuple[LevelSpec, ...]) -> int:
    """Levels the collective library treats as one node."""
    count = len(inside)
    for level in outside:
        if not level.scale_up:
            break
        count += 1
    return count


def _fill(levels: tuple[LevelSpec, ...], groups: int, unit: int = 1) -> tuple[tuple[LevelSpec, ...], int]:
    """The levels `groups` groups use, resized to what is there, and how many groups are left above them.

    More groups than one unit of a level holds are spread over units as schedulers place them, see `_share`.
    """
    used: list[LevelSpec] = []
    left = groups
    for level in levels:
        if left <= 1:
            break
        most = left if level.size == "rest" else min(level.count, left)
        size = _share(left, most, unit)
        if size > 1:
            used.append(level.resized(size))
        left = math.ceil(left / size)
        unit = 1
    return tuple(used), left


def _share(groups: int, most: int, unit: int) -> int:
    """Groups in each unit that holds at most `most`, in multiples of `unit`.

    The largest share that divides `groups` (1024 GPUs on racks of 72: 16 times 64); where that would leave units more
    than half empty, an even spread over the fewest units.
    """
    exact = next((size for size in range(most - most % unit, 0, -unit) if groups % size == 0), 0)
    if 2 * exact >= most:
        return exact
    return min(most, math.ceil(groups / math.ceil(groups / most) / unit) * unit)

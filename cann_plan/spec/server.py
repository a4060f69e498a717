"""A server: how many devices, the link levels inside it, adapters, host and power."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from cann_plan.spec.base import Section, key
from cann_plan.spec.device import expand_sources, need, unstated
from cann_plan.spec.quantity import (
    BytesPerSecond,
    Figure,
    MemorySize,
    Name,
    PositiveFraction,
    PositiveInt,
    PositiveNumber,
    Seconds,
    Watts,
    refuse,
)

SERVER_SCHEMA: Final = "cann-plan/server/1"
LevelKind = Literal["pair", "ring", "full-mesh", "switch", "torus"]


class LevelSpec(Section):
    """One level of links, innermost first; it joins `size` groups of the level below (devices at the innermost).

    Every bandwidth is per device and direction: of one device port (switch) or of one link (all other kinds).
    """

    name: Name
    kind: LevelKind
    size: PositiveInt | Literal["rest"] = Field(description="groups of the level below; rest = all that are left")
    bandwidth: Figure[BytesPerSecond] = Field(description="nominal, per device and direction [B/s]")
    latency: Figure[Seconds] = Field(description="one message, without the software of the library [s]")
    efficiency: Figure[PositiveFraction] = unstated(
        Figure[PositiveFraction], "fraction of the bandwidth that large messages reach"
    )
    oversubscription: Figure[PositiveNumber] = Field(
        default_factory=lambda: Figure[PositiveNumber].model_construct(value=1.0, source="non-blocking unless stated"),
        description="demand of the devices below over the capacity of the level",
    )
    planes: PositiveInt = Field(1, description="parallel planes that share the bandwidth")
    dimensions: tuple[PositiveInt, ...] = Field((), description="edge lengths of a torus")
    wrap: bool = Field(True, description="whether rings and torus axes close")
    wrap_multiple: PositiveInt | None = key("torus axes of a slice close only at multiples of this length")
    in_network_reduction: bool = Field(False, description="switches reduce in flight (NVLS, SHARP)")
    scale_up: bool = Field(
        False, description="between servers, but the library treats it as inside one (NVLink domain of a rack)"
    )
    note: Name | None = key("remark")

    @model_validator(mode="after")
    def _shape(self) -> LevelSpec:
        if self.kind == "pair" and self.size != 2:
            raise refuse("a pair has size 2", "2")
        if self.dimensions and math.prod(self.dimensions) != self.size:
            raise refuse(f"dimensions multiply to {math.prod(self.dimensions)}, not to size {self.size}")
        return self

    @property
    def count(self) -> int:
        """`size` of a resolved level. Raises ValueError while it is still "rest"."""
        if isinstance(self.size, str):
            raise ValueError(f"level {self.name!r} is not resolved")
        return self.size

    def resized(self, size: int) -> LevelSpec:
        """The same links joining `size` groups: a part of a ring is open, a torus becomes its squarest slice."""
        if size == self.size:
            return self
        changes: dict[str, Any] = {"size": size}
        if self.kind == "pair" and size == 1:
            changes["kind"] = "full-mesh"
        if self.kind == "ring":
            changes["wrap"] = False
        if self.kind == "torus":
            axes = squarest(size, max(1, len(self.dimensions) or 2))
            closes = self.wrap_multiple
            changes["dimensions"] = axes
            changes["wrap"] = self.wrap and closes is not None and all(a % closes == 0 for a in axes)
        return self.model_copy(update=changes)

    def as_mapping(self, owner: str) -> dict[str, Any]:
        """Plain SI numbers for the network model. Raises UnknownFigureError, with `owner` in the text."""
        path = f"level {self.name}"
        return {
            "name": self.name,
            "kind": self.kind,
            "size": self.count,
            "bandwidth": need(self.bandwidth, owner, f"{path}: bandwidth"),
            "latency": need(self.latency, owner, f"{path}: latency"),
            "efficiency": self.efficiency.value,
            "oversubscription": need(self.oversubscription, owner, f"{path}: oversubscription"),
            "planes": self.planes,
            "dimensions": self.dimensions,
            "wrap": self.wrap,
            "in_network_reduction": self.in_network_reduction,
        }


def squarest(size: int, axes: int) -> tuple[int, ...]:
    """`size` as a product of `axes` factors, ascending, each as near to the geometric mean as its divisors allow."""
    lengths: list[int] = []
    left = size
    for remaining in range(axes, 1, -1):
        length = max(d for d in range(1, math.floor(left ** (1.0 / remaining) + 1e-9) + 1) if left % d == 0)
        lengths.append(length)
        left //= length
    return tuple(sorted([*lengths, left]))


class Adapter(Section):
    """Network adapter, per device: a server with fewer adapters than devices gives each device its share."""

    kind: Name | None = key("for example 200GE RoCE")
    bandwidth: Figure[BytesPerSecond] = unstated(Figure[BytesPerSecond], "line rate per device and direction [B/s]")
    efficiency: Figure[PositiveFraction] = unstated(
        Figure[PositiveFraction], "fraction of the line rate that large messages reach"
    )
    latency: Figure[Seconds] = unstated(Figure[Seconds], "one message [s]")


class Host(Section):
    """Host of one server."""

    cpu: Name | None = key("processor in words")
    sockets: Figure[PositiveInt] = unstated(Figure[PositiveInt], "processors per server")
    cores: Figure[PositiveInt] = unstated(Figure[PositiveInt], "cores per server")
    memory: Figure[MemorySize] = unstated(Figure[MemorySize], "host memory per server [B]")
    memory_bandwidth: Figure[BytesPerSecond] = unstated(Figure[BytesPerSecond], "all sockets together, nominal [B/s]")


class ServerPower(Section):
    """Power of one whole server, devices included."""

    rated: Figure[Watts] = unstated(Figure[Watts], "highest input power [W]")
    training: Figure[Watts] = unstated(Figure[Watts], "mean while training [W]")
    note: Name | None = key("what is included")


class ServerSpec(Section):
    """One server of `devices_per_node` equal devices (counted as frameworks count them)."""

    schema_id: Literal["cann-plan/server/1"] = Field(SERVER_SCHEMA, alias="schema")
    name: Name
    aliases: tuple[Name, ...] = ()
    device: Name = Field(description="device preset")
    devices_per_node: PositiveInt = 8
    levels: tuple[LevelSpec, ...] = Field((), description="links inside the server, innermost first")
    adapter: Adapter = Field(default_factory=Adapter.model_construct)
    host: Host = Field(default_factory=Host.model_construct)
    power: ServerPower = Field(default_factory=ServerPower.model_construct)
    assumptions: tuple[Name, ...] = Field((), description="what the output must say about this server")
    note: Name | None = key("remark")
    sources: Mapping[str, Name] = Field({}, description="short keys used in `source` and what they stand for")

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: object) -> object:
        return expand_sources(data)

    @model_validator(mode="after")
    def _levels_hold_the_devices(self) -> ServerSpec:
        joined = math.prod(level.size for level in self.levels if isinstance(level.size, int))
        if any(isinstance(level.size, str) for level in self.levels):
            raise refuse("a level inside a server needs a number as size")
        if self.levels and joined != self.devices_per_node:
            raise refuse(f"levels join {joined} devices, devices_per_node is {self.devices_per_node}")
        return self

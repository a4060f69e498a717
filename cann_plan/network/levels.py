"""A cluster network as nested levels of links, innermost first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from cann_plan.records import dataclass

KINDS = ("switch", "full-mesh", "ring", "torus", "pair")
LIBRARIES = ("hccl", "nccl", "rccl", "ideal")


@dataclass(frozen=True, slots=True)
class Level:
    """One level of links that joins `size` child groups (devices at the innermost level).

    Every figure is per device, also at outer levels: a node with eight 25 GB/s adapters for eight devices is a
    switch level of 25 GB/s. A node with fewer adapters than devices gives each device its share.

    Attributes:
        name: what messages call it, for example "HCCS mesh".
        kind: switch | full-mesh | ring | torus | pair. A full mesh joins each child to each other by its own link, so
            that a group of n ranks can use n - 1 links of each device; a pair is a mesh of two.
        size: children per group.
        bandwidth: bytes/s per direction; of one device port (switch) or of one link (all others).
        latency: seconds; end to end through a switch, per hop on every other kind.
        efficiency: fraction of `bandwidth` that large messages reach; None lets the library's constants decide.
        oversubscription: demand of all devices below over the capacity of the level (1 = non-blocking).
        planes: parallel planes that share `bandwidth`; informative, a failed plane takes 1/planes.
        half_size: message bytes at which half of the bandwidth is reached (0 = none); costs half_size/bandwidth once.
        dimensions: edge lengths of a torus, their product is `size`.
        wrap: whether rings (and tori) close.
        in_network_reduction: switches reduce in flight (SHARP, NVLS).
        store_and_forward: switch repeats whole messages instead of cutting through.
        split_ties: messages half way round a ring are spread over both directions; otherwise all turn one way.
    """

    name: str
    kind: str
    size: int
    bandwidth: float
    latency: float
    efficiency: float | None = None
    oversubscription: float = 1.0
    planes: int = 1
    half_size: float = 0.0
    dimensions: tuple[int, ...] = ()
    wrap: bool = True
    in_network_reduction: bool = False
    store_and_forward: bool = False
    split_ties: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for figures that describe no network."""
        if self.kind not in KINDS:
            raise ValueError(f"level {self.name!r}: unknown kind {self.kind!r}; allowed: {', '.join(KINDS)}")
        if self.size < 1:
            raise ValueError(f"level {self.name!r}: size must be at least 1, not {self.size}")
        if not (self.bandwidth > 0 and math.isfinite(self.bandwidth)):
            raise ValueError(f"level {self.name!r}: bandwidth must be positive")
        if not (self.latency >= 0 and math.isfinite(self.latency)):
            raise ValueError(f"level {self.name!r}: latency must not be negative")
        if self.efficiency is not None and not 0 < self.efficiency <= 1:
            raise ValueError(f"level {self.name!r}: efficiency must be in (0, 1]")
        if self.oversubscription <= 0:
            raise ValueError(f"level {self.name!r}: oversubscription must be positive")
        if self.kind == "pair" and self.size != 2:
            raise ValueError(f"level {self.name!r}: a pair has size 2, not {self.size}")
        if self.dimensions and math.prod(self.dimensions) != self.size:
            raise ValueError(f"level {self.name!r}: dimensions {self.dimensions} do not multiply to {self.size}")


@dataclass(frozen=True, slots=True)
class Network:
    """Levels from innermost out, with the collective library that runs on them.

    Attributes:
        levels: innermost first; a torus is held as one ring level per dimension (see `expand_torus`).
        library: hccl | nccl | rccl | ideal. `ideal` adds no software time and takes the fastest algorithm.
        generation: product whose library constants apply: 910a | a2 | a3 | 950 | volta | ampere | hopper | blackwell |
            mi300 | "" (none).
        node_levels: how many innermost levels are inside one server.
    """

    levels: tuple[Level, ...]
    library: str = "ideal"
    generation: str = ""
    node_levels: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for an empty network or an unknown library."""
        if not self.levels:
            raise ValueError("a network needs at least one level")
        if self.library not in LIBRARIES:
            raise ValueError(f"unknown library {self.library!r}; allowed: {', '.join(LIBRARIES)}")
        if not 0 <= self.node_levels <= len(self.levels):
            raise ValueError(f"node_levels must be between 0 and {len(self.levels)}")

    @property
    def devices(self) -> int:
        """Number of devices the levels join."""
        return math.prod(level.size for level in self.levels)

    @property
    def unit_sizes(self) -> tuple[int, ...]:
        """Devices inside one unit of each level, innermost first."""
        sizes: list[int] = []
        total = 1
        for level in self.levels:
            total *= level.size
            sizes.append(total)
        return tuple(sizes)

    @classmethod
    def from_levels(
        cls,
        levels: Iterable[Level | Mapping[str, Any]],
        library: str = "ideal",
        generation: str = "",
        node_levels: int = 1,
    ) -> Network:
        """Build from `Level` objects or plain mappings with the fields of `Level` (name may be left out).

        Raises ValueError for unknown fields or values.
        """
        built: list[Level] = []
        inside = 0
        for position, item in enumerate(levels):
            level = item if isinstance(item, Level) else _level_from_mapping(item, position)
            expanded = expand_torus(level)
            built.extend(expanded)
            if position < node_levels:
                inside += len(expanded)
        return cls(tuple(built), library=library, generation=generation, node_levels=inside)

    def with_levels(self, levels: Iterable[Level]) -> Network:
        """The same library on other levels."""
        return replace(self, levels=tuple(levels))


def _level_from_mapping(item: Mapping[str, Any], position: int) -> Level:
    fields = {key.replace("-", "_"): value for key, value in item.items()}
    fields.setdefault("name", f"level {position} {fields.get('kind', '')}".strip())
    if "dimensions" in fields:
        fields["dimensions"] = tuple(fields["dimensions"])
        fields.setdefault("size", math.prod(fields["dimensions"]))
    unknown = set(fields) - set(Level.__dataclass_fields__)
    if unknown:
        raise ValueError(f"level {position}: unknown field {sorted(unknown)[0]!r}")
    missing = {"kind", "size", "bandwidth", "latency"} - set(fields)
    if missing:
        raise ValueError(f"level {position}: missing field {sorted(missing)[0]!r}")
    return Level(**fields)


def expand_torus(level: Level) -> tuple[Level, ...]:
    """A torus level as one ring level per dimension; any other level unchanged.

    A torus without `dimensions` is taken as the most nearly square 2-D torus of its size.
    """
    if level.kind != "torus":
        return (level,)
    dimensions = level.dimensions or _nearly_square(level.size)
    return tuple(
        replace(level, name=f"{level.name} axis {axis}", kind="ring", size=length, dimensions=())
        for axis, length in enumerate(dimensions)
    )


def _nearly_square(size: int) -> tuple[int, int]:
    short = math.isqrt(size)
    while size % short:
        short -= 1
    return (short, size // short)

"""What a network is built of: switches by radix, cables by kind, adapters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cann_plan.records import dataclass

COPPER = "copper"
"""Cables inside a rack or between neighbouring racks."""
OPTICAL = "optical"
"""Cables between racks, with a transceiver at either end."""


@dataclass(frozen=True, slots=True)
class Cables:
    """`count` cables of one kind, each carrying `capacity` times what one endpoint injects, per direction."""

    name: str
    kind: str
    count: int
    capacity: float
    access: bool = False  # joins an endpoint to its switch


@dataclass(frozen=True, slots=True)
class Components:
    """Parts of one network.

    `switches`: number of switches by the ports in use; `port_capacity`: what one switch port carries, in units of what
    one endpoint injects; `adapters`: endpoint ports, together the injection of all endpoints.
    """

    switches: Mapping[int, int] = field(default_factory=dict)
    port_capacity: float = 1.0
    cables: tuple[Cables, ...] = ()
    endpoints: int = 0

    @property
    def switch_count(self) -> int:
        """Switches in all."""
        return sum(self.switches.values())

    @property
    def switch_ports(self) -> int:
        """Switch ports in use."""
        return sum(radix * count for radix, count in self.switches.items())

    @property
    def cable_count(self) -> int:
        """Cables in all, those to endpoints included."""
        return sum(c.count for c in self.cables)

    @property
    def fabric_cables(self) -> int:
        """Cables between switches, or directly between endpoints."""
        return sum(c.count for c in self.cables if not c.access)

    def times(self, copies: int, share: float = 1.0) -> Components:
        """`copies` planes, each with `share` of the injection, around the same endpoints."""
        return Components(
            {radix: count * copies for radix, count in self.switches.items()},
            self.port_capacity * share,
            tuple(Cables(c.name, c.kind, c.count * copies, c.capacity * share, c.access) for c in self.cables),
            self.endpoints,
        )


def merged(parts: list[Components], endpoints: int) -> Components:
    """Networks side by side; the port capacity is that of the first part with switches."""
    switches: dict[int, int] = {}
    cables: list[Cables] = []
    capacity = next((p.port_capacity for p in parts if p.switches), 1.0)
    for part in parts:
        for radix, count in part.switches.items():
            switches[radix] = switches.get(radix, 0) + count
        cables.extend(part.cables)
    return Components(switches, capacity, tuple(cables), endpoints)

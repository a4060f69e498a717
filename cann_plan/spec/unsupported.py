"""Keys the documents know and no model answers yet: stating one is an error, never silently ignored.

A row is removed in the change that makes the key work.
"""

from __future__ import annotations

from typing import Any, Final

from cann_plan.records import dataclass


class _Any:
    """Matches every value that asks for something."""


ANY: Final = _Any()
HARMLESS: Final = (None, False, 0, "none")
"""Values that ask for nothing and are therefore never refused."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A path (dotted) with the refused value (ANY: every value), and what it would be."""

    path: str
    what: str
    value: Any = ANY


UNSUPPORTED: Final[tuple[Unsupported, ...]] = (
    Unsupported("serving", "inference deployments"),
    Unsupported("input_pipeline", "host-side loading and preprocessing"),
    Unsupported("memory.pool", "a memory pool shared by host and devices", "unified"),
    Unsupported("search.devices", "numbers of devices as an axis of the search (`size` tries them)"),
    Unsupported("search.offload", "shares of optimizer states off the device as an axis of the search"),
    Unsupported("parallel.tensor_grid", "two-dimensional tensor parallelism"),
    Unsupported("parallel.recompute.other_layers", "selective recomputation beside whole layers"),
    Unsupported("software.moe.zero_memory", "zero-memory experts"),
)


def asks(value: Any) -> bool:
    """Whether a plain value asks for something."""
    if isinstance(value, dict):
        return any(asks(child) for child in value.values())
    return value not in HARMLESS


def refuses(row: Unsupported, value: Any) -> bool:
    """Whether `row` refuses the plain value at its path."""
    return asks(value) and (row.value is ANY or value == row.value)

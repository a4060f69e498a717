"""Keys the documents know and no model answers yet: stating one is an error, never silently ignored.

A row is removed in the change that makes the key work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


class _Any:
    """Matches every value."""


ANY: Final = _Any()


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
    Unsupported("network.compression", "compressed gradients"),
    Unsupported("parallel.offload.optimizer", "optimizer states off the device"),
    Unsupported("parallel.offload.gradients", "gradients off the device"),
    Unsupported("parallel.offload.activations", "activations off the device"),
    Unsupported("parallel.offload.parameters", "parameters off the device"),
)

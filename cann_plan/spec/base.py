"""What every section of a document shares."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A mapping of known keys: immutable, unknown keys refused, validators built on first use."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, protected_namespaces=(), allow_inf_nan=False
    )

    @property
    def stated(self) -> frozenset[str]:
        """Names of the keys the document states."""
        return frozenset(self.model_fields_set)


def key(description: str, *, unit: str | None = None, default: Any = None) -> Any:
    """A key of a section that may be absent; None means "not stated" (the planner assumes a value and says so)."""
    return Field(default, description=f"{description} [{unit}]" if unit else description)

"""What every section of a document shares."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A mapping of known keys: immutable, unknown keys refused, validators built on first use.

    A key whose value is null is a key that is not stated. Sub-sections are always there, empty when not stated.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, protected_namespaces=(), allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, data: Any) -> Any:
        if data is None:
            return {}
        data = cls._shorthand(data)
        if isinstance(data, dict):
            data = {k: v for k, v in data.items() if v is not None}
            cls._contradictions(data)
        return data

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        """The mapping a scalar or list stands for; anything that is no shorthand is returned as it is."""
        return data

    @classmethod
    def _contradictions(cls, data: dict[str, Any]) -> None:
        """Raise `quantity.refuse(...)` where stated keys contradict each other; values are not yet validated."""

    @property
    def stated(self) -> frozenset[str]:
        """Names of the keys the document states."""
        return frozenset(self.model_fields_set)


def key(description: str, *, unit: str | None = None, default: Any = None) -> Any:
    """A key of a section that may be absent; None means "not stated" (the planner assumes a value and says so)."""
    return Field(default, description=f"{description} [{unit}]" if unit else description)


def section(kind: type[S], description: str) -> Any:
    """A key that holds a section; an empty one when not stated."""
    return Field(default_factory=kind.model_construct, description=description)

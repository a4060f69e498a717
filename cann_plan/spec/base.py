"""What every section of a document shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

S = TypeVar("S", bound="Section")
JsonSchema = dict[str, Any]


class Collector:
    """Validation context that gathers contradictions (the mapping at fault, the error) instead of raising the first."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, PydanticCustomError]] = []


class Section(BaseModel):
    """A mapping of known keys: immutable, unknown keys refused, validators built on first use.

    A key whose value is null is a key that is not stated. Sub-sections are always there, empty when not stated.
    """

    accepts: ClassVar[tuple[str | JsonSchema, ...]] = ()
    """Forms accepted besides a mapping, for the JSON Schema: a key whose values stand for the section, or a schema."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, protected_namespaces=(), allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, given: Any, info: ValidationInfo) -> Any:
        if given is None:
            return {}
        data = cls._shorthand(given)
        if isinstance(data, dict):
            data = {k: v for k, v in data.items() if v is not None}
            try:
                cls._contradictions(data)
            except PydanticCustomError as error:
                if not isinstance(info.context, Collector):
                    raise
                info.context.found.append((given, error))  # so that the values of this section are checked as well
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


def stated_values(section: BaseModel) -> dict[str, Any]:
    """The values of a section that differ from their defaults, as plain data; no serialisers are built for it."""
    result = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if value != field.get_default(call_default_factory=True):
            result[name] = _plain(value)
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return stated_values(value)
    if isinstance(value, Mapping):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(child) for child in value]
    return value


def section(kind: type[S], description: str) -> Any:
    """A key that holds a section; an empty one when not stated."""
    return Field(default_factory=kind.model_construct, description=description)

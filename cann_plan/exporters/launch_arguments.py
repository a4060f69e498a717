"""An argument list under construction, and what could not be said in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Flavour = Literal["megatron", "mindspeed"]


@dataclass(frozen=True, slots=True)
class Exported:
    """A document of another tool, with what of the plan it cannot express."""

    text: str
    warnings: tuple[str, ...]


class ExportError(ValueError):
    """A plan that another tool has no document for; the message says why."""


@dataclass(slots=True)
class LaunchArguments:
    """Groups of `--name value` words for one stack."""

    flavour: Flavour
    groups: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def ascend(self) -> bool:
        """MindSpeed on NPUs."""
        return self.flavour == "mindspeed"

    def add(self, group: str, name: str, *values: object) -> None:
        """Add an argument; without values it is a flag."""
        words = " ".join([f"--{name}", *(_quoted(str(value)) for value in values)])
        self.groups.setdefault(group, []).append(words)

    def flag(self, group: str, name: str, on: bool | None) -> None:
        """Add a flag where it is on."""
        if on:
            self.add(group, name)

    def warn(self, text: str) -> None:
        """Say what the arguments do not."""
        if text not in self.warnings:
            self.warnings.append(text)


def _quoted(value: str) -> str:
    plain = value.replace("_", "").replace("-", "").replace(".", "").replace(",", "").replace("/", "")
    return value if plain.isalnum() or value.startswith("$") else f"'{value}'"

"""What the planner had to assume: every default that enters a result, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Assumptions:
    """An ordered list of {path, value, source}; the first entry of a path wins."""

    items: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, value: Any, source: str) -> None:
        """Record an assumption."""
        if all(item["path"] != path or item["value"] != value for item in self.items):
            self.items.append({"path": path, "value": value, "source": source})

    def take(self, path: str, stated: T | None, default: T, source: str) -> T:
        """The stated value, or the default, recorded."""
        if stated is not None:
            return stated
        self.add(path, default, source)
        return default


@dataclass(slots=True)
class Warnings:
    """An ordered list of {code, path, message}."""

    items: list[dict[str, Any]] = field(default_factory=list)

    def add(self, code: str, path: str | None, message: str) -> None:
        """Record a warning once."""
        entry = {"code": code, "path": path, "message": message}
        if entry not in self.items:
            self.items.append(entry)


class PlanError(ValueError):
    """The plan asks for something that does not go together; `path` is the key at fault."""

    def __init__(self, path: str, message: str, allowed: str | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.allowed = allowed
        self.suggestion = suggestion

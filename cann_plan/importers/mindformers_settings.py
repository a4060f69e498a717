"""Typed reading of one section of a MindFormers or DeepSpeed document; remembers which keys nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cann_plan.importers.imported import Notes, Unused


class Settings:
    """A section by its path. A value of the wrong type is refused in `notes` and counts as not stated."""

    def __init__(self, data: Any, path: str, notes: Notes) -> None:
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self.path = path
        self.notes = notes
        self.asked: set[str] = set()

    def raw(self, *keys: str) -> Any:
        """The first of the keys that has a value."""
        self.asked.update(keys)
        return next((self.data[key] for key in keys if self.data.get(key) is not None), None)

    def inner(self, key: str) -> Settings:
        """A section inside this one."""
        return Settings(self.raw(key), f"{self.path}.{key}" if self.path else key, self.notes)

    def whole(self, *keys: str, minimum: int = 1) -> int | None:
        """A whole number; text with one counts, `auto` does not."""
        value = self.raw(*keys)
        if value is None or value == "auto":
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(\.0*)?", value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < minimum:
            self.refuse(keys[0], value, f"a whole number of at least {minimum}")
            return None
        return int(value)

    def number(self, *keys: str) -> float | None:
        """A number."""
        value = self.raw(*keys)
        try:
            return None if value is None or value == "auto" or isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            self.refuse(keys[0], value, "a number")
            return None

    def flag(self, key: str) -> bool:
        """Whether a switch is on."""
        value = self.raw(key)
        return value.strip().lower() in ("true", "on") if isinstance(value, str) else bool(value)

    def text(self, *keys: str) -> str:
        """Text in lower case, empty where it is not stated."""
        value = self.raw(*keys)
        return "" if value is None else str(value).strip().lower()

    def refuse(self, key: str, value: Any, allowed: str) -> None:
        """Note a value of the wrong type."""
        place = f"{self.path}.{key}" if self.path else key
        self.notes.refuse(f"{place}: {str(value)[:60]!r} is not {allowed}")

    def report_left(self, ignored: re.Pattern[str], unmodelled: Mapping[str, str]) -> None:
        """Put the keys nobody asked for into the report."""
        for key, value in self.data.items():
            if key in self.asked:
                continue
            place, shown = f"{self.path}.{key}" if self.path else str(key), _short(value)
            if ignored.fullmatch(str(key)):
                self.notes.ignored.append(Unused(place, shown, "no effect on time or memory"))
            elif value not in (False, None, "", 0) or key in unmodelled:
                self.notes.unmodelled(place, shown, unmodelled.get(str(key), "nobody here knows this key"))


def _short(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) or value is None else str(value)[:120]

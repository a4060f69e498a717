"""What a launch script can get wrong, and the bounds that keep hostile ones cheap."""

from __future__ import annotations

from typing import Final

MAX_SCRIPT: Final = 2**22
"""Characters of a script; published launch scripts have under 100,000."""
MAX_VALUE: Final = 2**21
"""Characters of one expanded variable or word."""
MAX_WORK: Final = 2**23
"""Characters expanded in a whole script."""
MAX_NESTING: Final = 32
"""Levels of ${...:-${...}} and of parentheses in arithmetic; hand-written scripts have at most three."""


class ScriptError(ValueError):
    """A script that cannot be read; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


UNKNOWN_OPEN: Final = "\ue000"
UNKNOWN_CLOSE: Final = "\ue001"
"""Private-use characters around the source text of a value that only running the script would give."""


def unknown(text: str) -> str:
    """The stand-in for what `text` (as `$(nproc)` or `$1`) would give."""
    clean = text.replace(UNKNOWN_OPEN, "").replace(UNKNOWN_CLOSE, "")
    return f"{UNKNOWN_OPEN}{clean[:80]}{UNKNOWN_CLOSE}"


def is_unknown(text: str) -> bool:
    """Whether any part of `text` is not known without running the script."""
    return UNKNOWN_OPEN in text


def readable(text: str) -> str:
    """`text` as a person would write it."""
    return text.replace(UNKNOWN_OPEN, "").replace(UNKNOWN_CLOSE, "")

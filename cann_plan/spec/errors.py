"""Located problems of the input: one class of exception for everything a user can get wrong in a document."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

from cann_plan.records import dataclass
from cann_plan.spec.node import Mark

ERROR_SCHEMA: Final = "cann-plan/error/1"
MAX_PROBLEMS: Final = 100  # reported of one document


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where; line and column count from 1."""

    file: str | None
    line: int | None
    column: int | None
    path: str | None
    message: str
    allowed: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        head = ": ".join(part for part in (place, self.path, self.message) if part)
        parts = [head]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.suggestion:
            parts.append(f"did you mean {self.suggestion}?")
        return "; ".join(parts)


def problem_at(
    mark: Mark, path: str | None, message: str, allowed: str | None = None, suggestion: str | None = None
) -> Problem:
    """A problem at `mark`; texts of absurd length are cut."""
    texts = (_cut(text, size) for text, size in ((path, 200), (message, 600), (allowed, 1000), (suggestion, 200)))
    path, cut_message, allowed, suggestion = texts
    return Problem(mark.source.name, mark.line, mark.column, path or None, cut_message or "", allowed, suggestion)


def _cut(text: str | None, size: int) -> str | None:
    return text if text is None or len(text) <= size else text[: size - 3] + "..."


class SpecError(Exception):
    """One or more problems of the input (exit code 2)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        unique = _in_order(dict.fromkeys(problems))
        self.omitted = max(0, len(unique) - MAX_PROBLEMS)
        self.problems: tuple[Problem, ...] = tuple(unique[:MAX_PROBLEMS])
        super().__init__(self.render())

    def render(self) -> str:
        """One block per problem: `file:line:column: path: what is wrong; allowed: ...; did you mean ...`."""
        lines = [str(problem) for problem in self.problems]
        if self.omitted:
            lines.append(f"... and {self.omitted} more")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The JSON document `cann-plan/error/1`."""
        return {"schema": ERROR_SCHEMA, "errors": [asdict(problem) for problem in self.problems]}


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by place in their file; files in the order they appear."""
    listed = list(problems)
    files = {problem.file: index for index, problem in reversed(list(enumerate(listed)))}
    return sorted(listed, key=lambda p: (files[p.file], p.line or 0, p.column or 0))


def closest(text: str, candidates: Iterable[str], synonyms: dict[str, str] | None = None) -> str | None:
    """The candidate `text` most likely stands for: a synonym, another spelling, or a near miss."""
    pool: Sequence[str] = list(candidates)
    known = set(pool)
    folded = _fold(text)
    synonym = (synonyms or {}).get(folded)
    if synonym in known:
        return synonym
    by_fold = {_fold(candidate): candidate for candidate in pool}
    if folded in by_fold:
        return by_fold[folded]
    near = difflib.get_close_matches(folded[:100], list(by_fold), n=1, cutoff=0.6)
    return by_fold[near[0]] if near else None


def _fold(text: str) -> str:
    return text.strip().casefold().replace("-", "_").replace(" ", "_")

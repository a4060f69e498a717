"""What an importer hands back: a plan, and everything a reader must know about how it came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cann_plan.spec.parallel import OFFLOADABLE
from cann_plan.spec.unsupported import UNSUPPORTED, refuses

Json = dict[str, Any]
CLUSTERS: Final = {"ascend": "atlas-900-a2", "ascend-a3": "atlas-900-a3", "nvidia": "dgx-h100"}
"""Cluster presets taken where a document does not say on which devices it runs."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A value of the plan that the document does not state."""

    path: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Unused:
    """A stated argument that did not go into the plan, and why."""

    argument: str
    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A plan document as a user would write it, with the report of its import.

    `ignored`: arguments that cannot matter to time, memory or cost. `unknown`: arguments that could matter and that
    nobody here knows, or whose effect no model covers. `refused`: reasons why the plan is not complete enough to be
    estimated; the rest of it is still what the document says.
    """

    plan: Json
    assumptions: tuple[Assumption, ...] = ()
    ignored: tuple[Unused, ...] = ()
    unknown: tuple[Unused, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def report(self) -> Json:
        """The report as plain data."""
        return {
            "assumptions": [{"path": a.path, "value": a.value, "source": a.source} for a in self.assumptions],
            "unknown": [{"argument": u.argument, "value": u.value, "why": u.why} for u in self.unknown],
            "ignored": [{"argument": u.argument, "value": u.value, "why": u.why} for u in self.ignored],
            "warnings": list(self.warnings),
            "refused": list(self.refused),
        }


class ImportRefusedError(ValueError):
    """A document from which no plan can be made; the message says why."""


@dataclass(slots=True)
class Notes:
    """The report while an import is under way."""

    assumptions: list[Assumption] = field(default_factory=list)
    ignored: list[Unused] = field(default_factory=list)
    unknown: list[Unused] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def assume(self, path: str, value: Any, source: str) -> Any:
        """Note an assumed value and return it."""
        self.assumptions.append(Assumption(path, value, source))
        return value

    def unmodelled(self, argument: str, value: Any, why: str) -> None:
        """Note an argument that could matter and is not in the plan."""
        self.unknown.append(Unused(argument, value, why))

    def warn(self, text: str) -> None:
        """Note something a reader should check."""
        if text not in self.warnings:
            self.warnings.append(text)

    def refuse(self, text: str) -> None:
        """Note why the plan cannot be estimated."""
        if text not in self.refused:
            self.refused.append(text)

    def imported(self, plan: Mapping[str, Any]) -> Imported:
        """The result; keys of the plan that no model answers yet move to the report."""
        kept = tidy(plan)
        for row in UNSUPPORTED:
            value = _take(kept, row.path.split("."), row)
            if value is not None:
                self.unmodelled(row.path, value, f"not supported yet: {row.what}")
        _drop_empty_offload(kept)
        return Imported(
            tidy(kept), tuple(self.assumptions), tuple(self.ignored), tuple(self.unknown), tuple(self.warnings),
            tuple(self.refused),
        )  # fmt: skip


def _drop_empty_offload(plan: Json) -> None:
    """Where and how offloaded states are kept says nothing without a share that is offloaded."""
    parallel = plan.get("parallel")
    offload = parallel.get("offload") if isinstance(parallel, dict) else None
    if isinstance(offload, dict) and not set(offload) & set(OFFLOADABLE):
        del plan["parallel"]["offload"]


def tidy(document: Mapping[str, Any]) -> Json:
    """A copy without empty sections and keys that are not stated."""
    return dict(_stated(document))


def _stated(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        kept = tidy(value) if isinstance(value, Mapping) else value
        if kept is not None and kept != {}:
            yield key, kept


def _take(document: Json, steps: list[str], row: Any) -> Any:
    """Remove and return the value at `steps` if `row` refuses it."""
    for step in steps[:-1]:
        inner = document.get(step)
        if not isinstance(inner, dict):
            return None
        document = inner
    value = document.get(steps[-1])
    if value is None or not refuses(row, value):
        return None
    del document[steps[-1]]
    return value

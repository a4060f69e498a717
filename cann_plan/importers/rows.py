"""Files of measured runs: a YAML or JSON list of rows, read with the place of every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from cann_plan.spec.document import STDIN, parse_text, read
from cann_plan.spec.errors import Problem, SpecError, closest, problem_at
from cann_plan.spec.node import Mark, Node, Source, dotted, from_plain, place

MAX_BYTES: Final = 2**24
"""Of one file of rows; the largest published collection of this format has 1.5 MB."""

TOP_LEVEL: Final = frozenset({
    "id", "source", "task", "device", "hardware", "devices", "devices_per_node", "network", "stack", "framework",
    "model", "parallel", "measured", "flops_formula", "tier", "unstated", "derived", "filled", "anomaly", "corrected",
    "note", "notes", "memory_note", "join_check", "excluded_from_clean", "plan", "kind", "assumed", "recompute_search",
    "memory_limit_bytes",
})  # fmt: skip
# Keys of plans and of common launch arguments, accepted for those of rows.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "tp": ("tensor", "tensor_parallel"), "pp": ("pipeline", "pipeline_parallel"), "dp": ("data", "data_parallel"),
    "cp": ("context", "context_parallel"), "ep": ("expert", "expert_parallel"), "etp": ("expert_tensor",),
    "vpp": ("virtual_pipeline",), "micro_batch": ("micro_batch_size",), "global_batch": ("global_batch_size",),
    "cp_algo": ("context_kind",), "hidden": ("hidden_size",), "ffn_hidden": ("ffn_hidden_size", "intermediate_size"),
    "vocab": ("vocabulary_size", "vocab_size"), "seq_len": ("sequence_length", "seq_length"),
    "gated_mlp": ("gated",), "step_time_s": ("step_s",),
}  # fmt: skip
SECTIONS: Final = ("model", "parallel", "measured")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a reader of a prediction must know: a value taken where the row has none, or a key not used."""

    path: str
    value: Any
    source: str

    def as_dict(self) -> dict[str, Any]:
        """As in the `assumptions` of an estimate."""
        return {"path": self.path, "value": self.value, "source": self.source}


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One measured run. `data` is plain; `node` has the places."""

    id: str
    data: Mapping[str, Any]
    node: Node

    def problem(self, path: tuple[str | int, ...], message: str, allowed: str | None = None) -> Problem:
        """A problem with the value at `path` inside the row."""
        return problem_at(place(self.node, path), dotted(("row", self.id, *path)), message, allowed)

    @property
    def tier(self) -> str | None:
        """A: full configuration, B: recompute unstated, C: something material is missing."""
        value = self.data.get("tier")
        return None if value is None else str(value)


class RowSkippedError(Exception):
    """The row cannot be compared; the message says why."""


class Fields:
    """Typed reading of one section of a row that knows which keys nobody has asked for.

    A null value counts as a key that is not stated. A value of the wrong type raises SpecError at its place.
    """

    def __init__(self, row: MeasuredRow, section: str | None = None) -> None:
        self.row = row
        self.path: tuple[str, ...] = () if section is None else (section,)
        data = row.data if section is None else row.data.get(section)
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self.asked: set[str] = set()

    def raw(self, key: str) -> Any:
        """The value as written, None where it is not stated."""
        for name in (key, *ALIASES.get(key, ())):
            self.asked.add(name)
            if self.data.get(name) is not None:
                return self.data[name]
        return None

    def whole(self, key: str, minimum: int = 1) -> int | None:
        """A whole number; `8.0` counts as one."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < minimum:
            self.fail(key, value, f"a whole number of at least {minimum}")
        return int(value)

    def number(self, key: str) -> float | None:
        """A positive number."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            self.fail(key, value, "a positive number")
        return float(value)

    def flag(self, key: str) -> bool | None:
        """True or false."""
        value = self.raw(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, value, "true or false")
        return value

    def text(self, key: str) -> str | None:
        """Text; a list of texts is joined."""
        value = self.raw(key)
        if isinstance(value, list):
            return "; ".join(str(item) for item in value)
        return None if value is None else str(value)

    def texts(self, key: str) -> list[str] | None:
        """A list of texts; one text counts as a list of one."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(key, value, "a list of names")
        return list(value)

    def wholes(self, key: str) -> list[int] | None:
        """A list of whole numbers, also written as text with commas."""
        value = self.raw(key)
        if value is None:
            return None
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            if all(part.removeprefix("-").isdigit() for part in parts):
                return [int(part) for part in parts]
        elif isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
            return list(value)
        return self.fail(key, value, "a list of whole numbers")

    def fail(self, key: str, value: Any, allowed: str) -> NoReturn:
        """Raise a located SpecError for the value of `key`."""
        raise SpecError([self.row.problem((*self.path, key), f"{value!r:.80} is not valid", allowed)])

    def unused(self, irrelevant: Mapping[str, str]) -> list[Remark]:
        """Remarks on stated keys that nobody asked for; notes and keys known to be `irrelevant` give none."""
        left = []
        for key, value in self.data.items():
            if key in self.asked or key in irrelevant or value is None or key.endswith(("note", "notes")):
                continue
            near = closest(key, self.asked)
            hint = f"; did you mean {near}?" if near else ""
            left.append(Remark(dotted((*self.path, key)), value, f"not used: no model reads this key{hint}"))
        return left


def read_rows(source: str | Path) -> list[MeasuredRow]:
    """The rows of a file, or of standard input for "-". Raises SpecError with every problem found, located."""
    return rows_of(_read(source))


def rows_from(items: list[dict[str, Any]], name: str = "<rows>") -> list[MeasuredRow]:
    """Rows given as plain data. Raises SpecError."""
    return rows_of(from_plain(items, Mark(Source(name))))


def rows_of(root: Node) -> list[MeasuredRow]:
    """The rows of a document: a list, or a mapping with the list under `rows`. Raises SpecError."""
    inner = root.get("rows")
    listed = inner if inner is not None else root
    if not isinstance(listed.value, list):
        raise SpecError([problem_at(listed.mark, None, "expected a list of measured runs", "a list of mappings")])
    rows: list[MeasuredRow] = []
    problems: list[Problem] = []
    seen: dict[str, int | None] = {}
    for index, node in enumerate(listed.value):
        found = _problems(node, index)
        if found:
            problems += found
            continue
        row = MeasuredRow(str(node.plain()["id"]), node.plain(), node)
        if row.id in seen:
            problems.append(row.problem(("id",), f"id is given twice (first on line {seen[row.id]})"))
        seen.setdefault(row.id, node.mark.line)
        rows.append(row)
    if problems:
        raise SpecError(problems)
    return rows


def _problems(node: Node, index: int) -> list[Problem]:
    """What makes the row unreadable."""
    name = f"[{index}]"
    if node.mapping is None:
        return [problem_at(node.mark, name, "expected a measured run", "a mapping")]
    identity = node.get("id")
    if identity is None or isinstance(identity.value, list | dict | None):
        return [problem_at(node.mark, f"{name}.id", "is missing", "a unique name of the run")]
    problems = []
    for section in SECTIONS:
        child = node.get(section)
        if child is None or child.value is None:
            if section != "parallel" and not (section == "model" and "plan" in node.mapping):
                problems.append(problem_at(node.mark, f"{identity.value}.{section}", "is missing", "a mapping"))
        elif child.mapping is None:
            problems.append(problem_at(child.mark, f"{identity.value}.{section}", "is not a mapping", "a mapping"))
    for key, child in node.mapping.items():
        if key not in TOP_LEVEL and not key.endswith(("note", "notes")) and child.value is not None:
            near = closest(key, TOP_LEVEL)
            if near in (*SECTIONS, "device", "devices", "stack", "task"):
                mark = node.keys.get(key, child.mark)
                problems.append(problem_at(mark, f"{identity.value}.{key}", "unknown key", None, near))
    return problems


def _read(source: str | Path) -> Node:
    """A document of rows may be larger than a plan."""
    if str(source) == STDIN:
        return read(STDIN)
    file = Path(source)
    where = Source(str(source), file.parent)
    try:
        if file.stat().st_size <= MAX_BYTES:
            return parse_text(file.read_text(encoding="utf-8-sig"), where, json=file.suffix.lower() == ".json")
    except (OSError, UnicodeDecodeError, ValueError):
        pass
    return read(file)  # says what is wrong with it

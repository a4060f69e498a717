"""`cann-plan explain` and `--explain`: every number with its formula, inputs and source."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report.blocks import Column, Detail, Notes, Table, View
from cann_plan.report.numbers import plain, value_text

_COLUMNS = tuple(Column(key, key.capitalize()) for key in ("term", "value", "unit", "formula", "inputs", "source"))


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """One entry per term."""
    terms = document["terms"]
    return View([notes(terms)], records(terms))


def notes(terms: Sequence[Mapping[str, Any]]) -> Notes:
    """The terms for reading: value, then formula, inputs and source on their own lines."""
    return Notes("How each number is computed", [_entry(term) for term in terms])


def records(terms: Sequence[Mapping[str, Any]]) -> Table:
    """The terms as records."""
    return Table("", _COLUMNS, [[term.get(column.key) for column in _COLUMNS] for term in terms])


def _entry(term: Mapping[str, Any]) -> str:
    unit = f" {term['unit']}" if term.get("unit") else ""
    lines = [f"{term['term']} = {_value(term['value'])}{unit}"]
    if term.get("formula"):
        lines.append(f"  = {term['formula']}")
    if term.get("inputs"):
        lines.append("  with " + ", ".join(f"{name} = {_value(value)}" for name, value in term["inputs"].items()))
    if term.get("source"):
        lines.append(f"  source: {term['source']}")
    return "\n".join(lines)


def _value(value: object) -> str:
    # Six digits: enough to redo the sum by hand.
    if isinstance(value, float) and not value.is_integer():
        text = plain(value, 6)
        return text if "e" in text else text.rstrip("0").rstrip(".") if "." in text else text
    return value_text(value)

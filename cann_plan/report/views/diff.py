"""`cann-plan diff A B`: what changed in the plan, and what that does."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Table, View

_FIGURES = (
    Column("name", "Result"),
    Column("a", "A", "number"),
    Column("b", "B", "number"),
    Column("delta", "Change", "number"),
    Column("relative", "Relative", "signed_percent"),
    Column("unit", "Unit"),
)
_CHANGES = (Column("path", "Plan"), Column("a", "A"), Column("b", "B"))


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """Changed plan values, then changed results."""
    changes = [[item[column.key] for column in _CHANGES] for item in document["changes"]]
    figures = [[item[column.key] for column in _FIGURES] for item in document["figures"]]
    shown = [
        [name, _plain(a), _plain(b), _plain(delta), relative, unit] for name, a, b, delta, relative, unit in figures
    ]
    columns = [
        Column(column.key, column.header, "text" if column.kind == "number" else column.kind) for column in _FIGURES
    ]
    blocks: list[Block] = []
    if changes and not detail.brief:
        blocks.append(Table(f"{document['a']} (A) against {document['b']} (B)", _CHANGES, changes))
    blocks.append(Table("What it does", columns, shown))
    return View(blocks, Table("", _FIGURES, figures))


def _plain(value: float | None) -> str:
    return numbers.plain(float(value)) if value is not None else numbers.UNKNOWN

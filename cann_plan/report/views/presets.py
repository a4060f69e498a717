"""`cann-plan presets list`: what ships with the tool."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report.blocks import Column, Detail, Table, View

_COLUMNS = (Column("kind", "Kind"), Column("name", "Name"), Column("summary", "What it is"))
_RECORDS = (*_COLUMNS, Column("path", "Path"))


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """One row per preset."""
    items = document["presets"]
    shown = Table("", _COLUMNS, [[item[column.key] for column in _COLUMNS] for item in items])
    return View([shown], Table("", _RECORDS, [[item[column.key] for column in _RECORDS] for item in items]))

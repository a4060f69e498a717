"""The layout of a document that has no view of its own: its leaves."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import flat
from cann_plan.report.blocks import Detail, View


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """Every scalar of the document with its path and unit."""
    records = flat.table({key: value for key, value in document.items() if key != "schema"})
    return View([records], records)

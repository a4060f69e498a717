"""`cann-plan presets show`: one preset file as it is, with its sources."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import flat
from cann_plan.report.blocks import Detail, Source, View


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """The file's text."""
    return View([Source(document["text"])], flat.table(document["content"]))

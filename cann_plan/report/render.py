"""One document, one format, one string."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, cast

from cann_plan.report.blocks import Detail, View
from cann_plan.report.screen import Screen

Format = Literal["table", "json", "csv", "markdown"]
FORMATS: tuple[Format, ...] = ("table", "json", "csv", "markdown")


def render(
    document: Mapping[str, Any], output_format: Format, *, screen: Screen | None = None, detail: Detail | None = None
) -> str:
    """The document as text in `output_format`; `screen` is where it will be read.

    Raises:
        ValueError: unknown format.
    """
    # Writers are imported on use: JSON needs no rich, and rich takes longer to load than the estimate to compute.
    if output_format == "json":
        from cann_plan.report import json_text

        return json_text.write(document, escape=screen is not None and not screen.unicode)
    view = view_of(document, detail or Detail())
    if output_format == "csv":
        from cann_plan.report import delimited

        return delimited.write(view)
    if output_format == "markdown":
        from cann_plan.report import markdown

        return markdown.write(view)
    if output_format == "table":
        from cann_plan.report import terminal

        return terminal.write(view, screen or Screen())
    raise ValueError(f"unknown format {output_format!r}; allowed: {', '.join(FORMATS)}")


def view_of(document: Mapping[str, Any], detail: Detail) -> View:
    """The view for the document's schema id: `cann-plan/NAME/1` is laid out by `report/views/NAME.py`."""
    name = str(document["schema"]).split("/")[1].replace("-", "_")
    module = f"cann_plan.report.views.{name}"
    if find_spec(module) is None:
        module = "cann_plan.report.views.any_document"
    return cast(View, import_module(module).view(document, detail))

"""`cann-plan validate`: how far predictions are from measurements."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, View

_STATISTICS = (
    Column("n", "Rows", "number"),
    Column("mape", "Mean", "percent"),
    Column("median", "Median", "percent"),
    Column("p90", "P90", "percent"),
    Column("bias", "Bias", "signed_percent"),
)
_QUANTITIES = {
    "step_time": "step time",
    "memory": "memory",
    "throughput": "serving throughput",
    "ttft": "time to first token",
    "tpot": "time per output token",
}


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """Summary by quantity and by group; `detail.explain` lists every row and why rows were skipped."""
    blocks: list[Block] = [_overall(document)]
    if not detail.brief and document["by_group"]:
        blocks.append(_groups(document, crossed=detail.explain))
    rows = _rows(document)
    skipped = document["skipped"]
    if detail.explain:
        blocks.append(rows)
        if skipped:
            blocks.append(Notes("Skipped", [f"{item['id']}: {item['why']}" for item in skipped]))
    elif skipped:
        blocks.append(Notes("Skipped", [f"{len(skipped)} rows: --explain or --format json says why"], "dim"))
    return View(blocks, rows)


def _overall(document: Mapping[str, Any]) -> Table:
    columns = (Column("quantity", "Quantity"), *_STATISTICS)
    rows = [
        [label, *(document[key][column.key] for column in _STATISTICS)]
        for key, label in _QUANTITIES.items()
        if document[key]["n"]
    ]
    return Table(
        "Predicted against measured (error = predicted / measured − 1)",
        columns,
        rows,
        footnotes=[
            "Mean, median and 90th percentile of the size of the error; bias is the median of the signed error:",
            "positive means predicted too slow or too large.",
        ],
    )


def _groups(document: Mapping[str, Any], *, crossed: bool) -> Table:
    # Groups of two keys ("device=a, stack=b") are many; they are shown with the rows.
    groups = [item for item in document["by_group"] if crossed or "," not in item["group"]]
    columns = (Column("group", "Group"), Column("quantity", "Quantity"), *_STATISTICS)
    rows = [
        [item["group"], _QUANTITIES.get(item["quantity"], item["quantity"]), *(item[c.key] for c in _STATISTICS)]
        for item in groups
    ]
    return Table("By group", columns, rows)


def _rows(document: Mapping[str, Any]) -> Table:
    columns = (
        Column("id", "Row"),
        Column("quantity", "Quantity"),
        Column("predicted", "Predicted", "number"),
        Column("measured", "Measured", "number"),
        Column("error", "Error", "signed_percent"),
    )
    rows = [
        [row["id"], key, row["predicted"].get(key), row["measured"].get(key), error]
        for row in document["rows"]
        for key, error in row["error"].items()
    ]
    return Table("Rows", columns, rows)

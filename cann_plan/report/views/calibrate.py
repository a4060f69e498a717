"""`cann-plan calibrate`: what the runs say about a stack's parameters, and how well that predicts them."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Verdict, View

_PARAMETERS = (
    Column("name", "Parameter"),
    Column("value", "Fitted", "number"),
    Column("low", "80% from", "number"),
    Column("high", "to", "number"),
    Column("prior", "Before", "number"),
    Column("identified", "Moved by the runs", "flag"),
)
_RUNS = (
    Column("id", "Run"),
    Column("measured_s", "Measured, s", "number"),
    Column("predicted_s", "Predicted, s", "number"),
    Column("error_before", "Before", "signed_percent"),
    Column("error", "Error", "signed_percent"),
    Column("error_left_out", "Left out", "signed_percent"),
)
_STATISTICS = (
    Column("n", "Runs", "number"),
    Column("mape", "Mean", "percent"),
    Column("median", "Median", "percent"),
    Column("p90", "P90", "percent"),
    Column("bias", "Bias", "signed_percent"),
)
_FITS = (
    ("before", "shipped profile"),
    ("in_sample", "fitted on these runs"),
    ("left_out", "fitted on runs of other models and sources"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """Errors before and after, parameters with their intervals, every run, and what the runs do not show."""
    band = document["interval"]
    verdict = Verdict(
        f"{document['stack']} on {document['device']}",
        "plain",
        f"{document['in_sample']['n']} runs: median error {document['before']['median']:.1%} before, "
        f"{document['in_sample']['median']:.1%} after",
        [f"{band['confidence']:.0%} interval of a prediction: {band['low']:.2f} to {band['high']:.2f} times it"],
    )
    runs = Table("Runs (error = predicted / measured - 1)", _RUNS, _values(document["residuals"], _RUNS))
    blocks: list[Block] = [verdict, _errors(document)]
    if not detail.brief:
        blocks += [Table("Parameters", _PARAMETERS, _values(document["parameters"], _PARAMETERS)), runs]
        if document["warnings"]:
            blocks.append(Notes("Warnings", document["warnings"], "warn"))
        if document["skipped"]:
            blocks.append(Notes("Skipped", [f"{item['id']}: {item['why']}" for item in document["skipped"]], "dim"))
    return View(blocks, runs)


def _errors(document: Mapping[str, Any]) -> Table:
    columns = (Column("fit", "Parameters"), *_STATISTICS)
    rows = [
        [label, *(document[key][column.key] for column in _STATISTICS)] for key, label in _FITS if document[key]["n"]
    ]
    return Table("Errors in step time", columns, rows)


def _values(items: list[Mapping[str, Any]], columns: tuple[Column, ...]) -> list[list[Any]]:
    return [[item[column.key] for column in columns] for item in items]

"""`cann-plan collective --sweep`: one row per message size, as nccl-tests and hccl_test print them."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Column, Detail, Table, Verdict, View

_RECORDS = (
    Column("bytes", "Bytes", "number"),
    Column("time_s", "Time, s", "number"),
    Column("algorithm_gb_per_s", "Algorithm GB/s", "number"),
    Column("bus_gb_per_s", "Bus GB/s", "number"),
    Column("lower_bound_s", "Lower bound, s", "number"),
    Column("algorithm", "Algorithm"),
    Column("bottleneck", "Bottleneck"),
)
_SCREEN = (
    Column("bytes", "Size", "bytes"),
    Column("time_s", "Time", "seconds"),
    Column("algorithm_gb_per_s", "algbw, GB/s", "number"),
    Column("bus_gb_per_s", "busbw, GB/s", "number"),
    Column("share", "Of bound", "percent"),
    Column("algorithm", "Algorithm"),
    Column("bottleneck", "Bottleneck"),
)


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """The table; `Of bound` is the lower bound over the time."""
    rows = document["rows"]
    best = max((row["bus_gb_per_s"] or 0.0 for row in rows), default=0.0)
    stride = f" at stride {document['stride']}" if document["stride"] > 1 else ""
    title = f"{document['op']} · {document['ranks']:,} ranks{stride}"
    verdict = Verdict(title, "plain", f"up to {numbers.plain(float(best))} GB/s bus bandwidth", [])
    shown = [{**row, "share": row["lower_bound_s"] / row["time_s"] if row["time_s"] else None} for row in rows]
    screen = Table("", _SCREEN, [[row[column.key] for column in _SCREEN] for row in shown])
    records = Table("", _RECORDS, [[row[column.key] for column in _RECORDS] for row in rows])
    return View([verdict, screen], records)

"""`cann-plan collective`: how long one collective takes and what holds it back."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Column, Detail, Table, Verdict, View

_RECORDS = (
    Column("op", "Operation"),
    Column("bytes", "Bytes", "number"),
    Column("ranks", "Ranks", "number"),
    Column("algorithm", "Algorithm"),
    Column("time_s", "Time, s", "number"),
    Column("algorithm_gb_per_s", "Algorithm GB/s", "number"),
    Column("bus_gb_per_s", "Bus GB/s", "number"),
    Column("lower_bound_s", "Lower bound, s", "number"),
    Column("bottleneck", "Bottleneck"),
)


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """Time, bandwidth in both conventions, and the distance from the lower bound."""
    bound = document["lower_bound_s"]
    times = (
        f" ({numbers.plain(document['time_s'] / bound)} × the lower bound of {numbers.seconds(bound)})" if bound else ""
    )
    verdict = Verdict(
        f"{document['op']} · {numbers.size_bytes(document['bytes'])} · {document['ranks']:,} ranks",
        "plain",
        f"{numbers.seconds(document['time_s'])} with {document['algorithm']}{times}",
        [
            f"algorithm bandwidth {_rate(document['algorithm_gb_per_s'])} · "
            f"bus bandwidth {_rate(document['bus_gb_per_s'])}",
            f"bottleneck: {document['bottleneck']}",
        ],
    )
    return View([verdict], Table("", _RECORDS, [[document[column.key] for column in _RECORDS]]))


def _rate(value: float | None) -> str:
    return "none: nothing moves" if value is None else f"{numbers.plain(float(value))} GB/s"

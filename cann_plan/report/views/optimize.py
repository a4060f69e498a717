"""`cann-plan optimize`: the best layouts, and why the others are out."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Bar, Bars, Block, Column, Detail, Table, Verdict, View
from cann_plan.report.plan_title import layout

_SHOWN = 10
_COLUMNS = (
    Column("rank", "#", "number"),
    Column("layout", "Layout"),
    Column("step_s", "Step", "seconds"),
    Column("mfu", "MFU", "percent"),
    Column("tokens_per_s_per_device", "Tokens/s/device", "number"),
    Column("peak_gib", "Peak, GiB", "gib"),
    Column("headroom_gib", "Free, GiB", "gib"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The winner in a box, the runners-up, and the reasons for which layouts were dropped."""
    best = document["best"]
    rows = [_row(index + 1, candidate) for index, candidate in enumerate(best)]
    counted = (
        f"{document['evaluated']:,} layouts evaluated, {document['feasible']:,} feasible, "
        f"in {numbers.seconds(document['seconds'])}"
    )
    if best:
        first = best[0]["estimate"]
        changes = " ".join(
            f"--set {path}={numbers.argument_text(value)}" for path, value in best[0]["overrides"].items()
        )
        headline = (
            f"{numbers.seconds(first['time']['step_s'])} per step, MFU {numbers.percent(first['time']['mfu'])}, "
            f"{numbers.gib(first['memory']['headroom_gib'])} free"
        )
        answer = Verdict("best layout", "good", headline, [layout(first["parallel"]), changes, counted])
    else:
        answer = Verdict("best layout", "bad", "NO LAYOUT is feasible", [counted])
    blocks: list[Block] = [answer]
    if not detail.brief:
        if len(rows) > 1:
            shown = rows if detail.full or detail.explain else rows[:_SHOWN]
            blocks.append(Table("The best layouts", _COLUMNS, shown, ["good"]))
        if document["infeasible"]:
            blocks.append(_reasons(document["infeasible"]))
    return View(blocks, _records(best))


def _row(rank: int, candidate: Mapping[str, Any]) -> list[object]:
    time, memory = candidate["estimate"]["time"], candidate["estimate"]["memory"]
    return [
        rank,
        layout(candidate["estimate"]["parallel"]),
        time["step_s"],
        time["mfu"],
        time["tokens_per_s_per_device"],
        memory["peak_gib"],
        memory["headroom_gib"],
    ]


def _reasons(infeasible: Mapping[str, int]) -> Bars:
    total = sum(infeasible.values())
    ordered = sorted(infeasible.items(), key=lambda item: -item[1])
    bars = [
        Bar(reason.replace("_", " "), f"{count:,}", count / total, tone="idle") for reason, count in ordered if count
    ]
    return Bars("Why the others are out", "infeasible layouts", bars, full=max(bar.share for bar in bars))


def _records(best: list[Mapping[str, Any]]) -> Table:
    paths = list(dict.fromkeys(path for candidate in best for path in candidate["overrides"]))
    measures = [column for column in _COLUMNS if column.key != "layout"]
    rows = []
    for index, candidate in enumerate(best):
        values = dict(zip((column.key for column in _COLUMNS), _row(index + 1, candidate), strict=True))
        rows.append([*(candidate["overrides"].get(path) for path in paths), *(values[c.key] for c in measures)])
    return Table("", [*(Column(path, path) for path in paths), *measures], rows)

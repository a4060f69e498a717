"""`cann-plan size`: the fewest devices, and what more or fewer would give."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Table, Tone, Verdict, View
from cann_plan.report.plan_title import layout

_COLUMNS = (
    Column("devices", "Devices", "number"),
    Column("days", "Days", "days"),
    Column("cost", "Cost", "number"),
    Column("fits", "Fits", "flag"),
    Column("mfu", "MFU", "percent"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The answer, its layout, and the table of sizes that were tried."""
    devices, best, binds = document["devices"], document["best"], document["limit_that_binds"]
    rows = [[row[column.key] for column in _COLUMNS] for row in document["table"]]
    tones: list[Tone] = [
        "good" if row["devices"] == devices else "plain" if row["fits"] else "dim" for row in document["table"]
    ]
    if devices is None:
        reason = f": {binds.replace('_', ' ')} cannot be kept" if binds else ""
        answer = Verdict("size", "bad", f"NO NUMBER OF DEVICES is enough{reason}")
    else:
        lines = []
        if best is not None:
            time, memory = best["estimate"]["time"], best["estimate"]["memory"]
            days = time["goodput_days"] if time["goodput_days"] is not None else time["total_days"]
            lines = [
                f"{numbers.days(days)} · {numbers.seconds(time['step_s'])} per step · "
                f"MFU {numbers.percent(time['mfu'])} · "
                f"{numbers.gib(memory['peak_gib'])} of {numbers.gib(memory['usable_gib'])} usable",
                layout(best["estimate"]["parallel"]),
            ]
        if binds:
            lines.append(f"The limit that binds: {binds.replace('_', ' ')}")
        count = document["nodes"]
        nodes = f" ({count:,} {'node' if count == 1 else 'nodes'})" if count is not None else ""
        answer = Verdict("size", "good", f"{devices:,} DEVICES{nodes} are enough", lines)
    records = Table("Sizes", _COLUMNS, rows, tones)
    blocks: list[Block] = [answer] if detail.brief or not rows else [answer, records]
    return View(blocks, records)

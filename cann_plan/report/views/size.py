"""`cann-plan size`: the fewest devices, and what more or fewer would give."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Table, Tone, Verdict, View
from cann_plan.report.layout_text import words

_COLUMNS = (
    Column("devices", "Devices", "number"),
    Column("days", "Days", "days"),
    Column("cost", "Cost", "number"),
    Column("device_hours", "Device-hours", "number"),
    Column("fits", "Fits", "flag"),
    Column("mfu", "MFU", "percent"),
    Column("efficiency", "Work per device", "percent"),
    Column("broken", "Limits broken", "text"),
)
_CLUSTERS = (
    Column("cluster", "Cluster"),
    Column("devices", "Devices", "number"),
    Column("days", "Days", "days"),
    Column("cost", "Cost", "number"),
    Column("device_hours", "Device-hours", "number"),
    Column("mfu", "MFU", "percent"),
    Column("reason", "Remark"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The answer, its layout, the clusters compared, and the table of sizes that were tried."""
    devices = document["devices"]
    shown = [column for column in _COLUMNS if _told(document["table"], column.key)]
    rows = [[_cell(row, column.key) for column in shown] for row in document["table"]]
    tones: list[Tone] = [
        "good" if row["devices"] == devices else "plain" if row["fits"] else "dim" for row in document["table"]
    ]
    footnotes = []
    if document.get("diminishing_from"):
        footnotes.append(
            f"From {document['diminishing_from']:,} devices on each does less than 90 % of its work at the best size."
        )
    records = Table("Sizes", shown, rows, tones, footnotes)
    blocks: list[Block] = [_answer(document)]
    if not detail.brief:
        if document.get("clusters"):
            blocks.append(_clusters(document))
        if rows:
            blocks.append(records)
    return View(blocks, records)


def _answer(document: Mapping[str, Any]) -> Verdict:
    devices, best, binds = document["devices"], document["best"], document["limit_that_binds"]
    if devices is None:
        reason = f": {binds.replace('_', ' ')} cannot be kept" if binds else ""
        return Verdict("size", "bad", f"NO NUMBER OF DEVICES is enough{reason}")
    lines = []
    if best is not None:
        time, memory, cost = (best["estimate"][name] for name in ("time", "memory", "cost"))
        days = time["goodput_days"] if time["goodput_days"] is not None else time["total_days"]
        money = f" · {numbers.money(cost['amount'], cost['currency'])}" if cost["amount"] is not None else ""
        lines = [
            f"{numbers.days(days)}{money} · {numbers.seconds(time['step_s'])} per step · "
            f"MFU {numbers.percent(time['mfu'])} · "
            f"{numbers.gib(memory['peak_gib'])} of {numbers.gib(memory['usable_gib'])} usable",
            words(best["estimate"]["parallel"]),
        ]
    if binds:
        lines.append(f"The limit that binds: {binds.replace('_', ' ')}")
    cheapest = next((row for row in document["table"] if row["devices"] == document.get("cheapest")), None)
    if cheapest is not None and cheapest["devices"] != devices:
        money = numbers.money(cheapest["cost"], document["currency"]) if cheapest["cost"] is not None else (
            f"{numbers.count(cheapest['device_hours'])} device-hours"
        )  # fmt: skip
        lines.append(f"Cheaper: {cheapest['devices']:,} devices, {numbers.days(cheapest['days'])}, {money}")
    nodes = f" ({document['nodes']:,} nodes)" if document["nodes"] is not None else ""
    where = f" of {document['cluster']}" if document.get("cluster") else ""
    return Verdict("size", "good", f"{devices:,} DEVICES{where}{nodes} are enough", lines)


def _clusters(document: Mapping[str, Any]) -> Table:
    rows = [[row[column.key] for column in _CLUSTERS] for row in document["clusters"]]
    tones: list[Tone] = [
        "good" if row["cluster"] == document["cluster"] else "plain" if row["devices"] is not None else "dim"
        for row in document["clusters"]
    ]
    return Table("Clusters", _CLUSTERS, rows, tones)


def _told(table: list[Mapping[str, Any]], key: str) -> bool:
    """Whether a column says anything."""
    if key in ("devices", "days", "fits", "mfu"):
        return True
    return any(row.get(key) not in (None, []) for row in table)


def _cell(row: Mapping[str, Any], key: str) -> object:
    value = row.get(key)
    return ", ".join(name.replace("_", " ") for name in value) if isinstance(value, list) else value

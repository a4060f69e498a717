"""`cann-plan sweep`: one row per combination of the swept values."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, View

_RESULTS = (
    Column("step_s", "Step", "seconds"),
    Column("goodput_days", "Days", "days"),
    Column("tokens_per_s_per_device", "Tokens/s/device", "number"),
    Column("mfu", "MFU", "percent"),
    Column("peak_gib", "Peak, GiB", "gib"),
    Column("headroom_gib", "Free, GiB", "gib"),
    Column("cost", "Cost", "number"),
)


def view(document: Mapping[str, Any], _detail: Detail) -> View:
    """The swept values beside the results; what does not fit is red, the fastest that fits green."""
    points = document["points"]
    paths = list(document["over"])
    columns = [*(Column(path, path) for path in paths), *_RESULTS]
    rows = [[*(point["overrides"].get(path) for path in paths), *_results(point["estimate"])] for point in points]
    fitting = [point["estimate"]["time"]["step_s"] for point in points if point["estimate"]["memory"]["fits"]]
    tones: list[Tone] = [_tone(point["estimate"], min(fitting, default=None)) for point in points]
    table = Table("", columns, rows, tones)
    skipped = [
        ", ".join(f"{path}={value}" for path, value in item.get("overrides", {}).items()) + f": {item.get('why')}"
        for item in document["skipped"]
    ]
    blocks: list[Block] = [table, Notes("Skipped", skipped, "dim")] if skipped else [table]
    return View(blocks, table)


def _results(estimate: Mapping[str, Any]) -> list[object]:
    time, memory = estimate["time"], estimate["memory"]
    return [
        time["step_s"],
        time["goodput_days"] if time["goodput_days"] is not None else time["total_days"],
        time["tokens_per_s_per_device"],
        time["mfu"],
        memory["peak_gib"],
        memory["headroom_gib"],
        estimate["cost"]["amount"],
    ]


def _tone(estimate: Mapping[str, Any], fastest: float | None) -> Tone:
    if not estimate["memory"]["fits"]:
        return "bad"
    return "good" if estimate["time"]["step_s"] == fastest else "plain"

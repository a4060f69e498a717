"""`cann-plan optimize`: the best layouts, what decides between them, and why the others are out."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Bar, Bars, Block, Column, Detail, Notes, Table, Tone, Verdict, View
from cann_plan.report.layout_text import changes, plan_line, words

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
_NEAR = (
    Column("change", "Change"),
    Column("step_s", "Step", "seconds"),
    Column("delta", "Against today", "text"),
    Column("delta_gib", "Memory, GiB", "text"),
    Column("fits", "Fits", "flag"),
)
_TERMS = (
    Column("term", "Term"),
    Column("winner", "Best", "text"),
    Column("other", "Other", "text"),
    Column("delta", "Other needs", "text"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The winner in a box, the runners-up, single changes and explanations asked for, the reasons of the others."""
    best = document["best"]
    blocks: list[Block] = [_answer(document)]
    if not detail.brief:
        rows = [_row(index + 1, candidate) for index, candidate in enumerate(best)]
        if len(rows) > 1:
            shown = rows if detail.full or detail.explain else rows[:_SHOWN]
            blocks.append(Table(_title(document), _COLUMNS, shown, ["good"]))
        if document.get("near"):
            blocks.append(_near(document["near"], detail))
        for entry in document.get("explain", []):
            blocks += _explanation(entry)
        if document.get("changes"):
            blocks.append(_fitting(document["changes"]))
        if document["infeasible"]:
            blocks.append(_reasons(document["infeasible"]))
    return View(blocks, _records(best))


def _answer(document: Mapping[str, Any]) -> Verdict:
    best, today, problem = document["best"], document.get("today"), document["problem"]
    counted = (
        f"{document['evaluated']:,} layouts evaluated, {document['feasible']:,} feasible, "
        f"in {numbers.seconds(document['seconds'])}"
    )
    where = f"{problem['model']} on {problem['devices']:,} devices of {problem['cluster']}" if problem else ""
    if best:
        first = best[0]["estimate"]
        tight = first["memory"]["verdict"] == "borderline"
        headline = (
            f"{numbers.seconds(first['time']['step_s'])} per step, MFU {numbers.percent(first['time']['mfu'])}, "
            f"{numbers.gib(first['memory']['headroom_gib'])} free"
        )
        lines = [words(first["parallel"]), plan_line(best[0]["overrides"])]
        if today is not None:
            lines.append(_today(today, first["time"]["step_s"]))
        if tight:
            lines.append("Memory is borderline: --set limits.memory_fraction=0.95 leaves a margin")
        lines.append(counted)
        return Verdict(" · ".join(filter(None, ("best layout", where))), "warn" if tight else "good", headline, lines)
    lines = []
    closest = document.get("closest")
    if closest:
        lines.append(
            f"Closest: {words(closest['estimate']['parallel'])}, {numbers.gib(closest['short_gib'])} too large"
        )
    return Verdict(" · ".join(filter(None, ("best layout", where))), "bad", "NO LAYOUT is feasible", [*lines, counted])


def _today(today: Mapping[str, Any], best_s: float) -> str:
    if not today["fits"]:
        return f"The plan's own layout does not fit ({numbers.gib(today['peak_gib'])})"
    gain = 1.0 - best_s / today["step_s"]
    speed = f"the best saves {numbers.percent(gain)}" if gain > 0.0 else "it is the best"
    return f"The plan's own layout: {numbers.seconds(today['step_s'])} per step, rank {today['rank']:,}; {speed}"


def _title(document: Mapping[str, Any]) -> str:
    pareto = document["problem"].get("pareto") if document["problem"] else None
    return f"Layouts that none beats in both {pareto[0]} and {pareto[1]}" if pareto else "The best layouts"


def _row(rank: int, candidate: Mapping[str, Any]) -> list[object]:
    time, memory = candidate["estimate"]["time"], candidate["estimate"]["memory"]
    return [
        rank,
        words(candidate["estimate"]["parallel"]),
        time["step_s"],
        time["mfu"],
        time["tokens_per_s_per_device"],
        memory["peak_gib"],
        memory["headroom_gib"],
    ]


def _near(items: list[Mapping[str, Any]], detail: Detail) -> Table:
    shown = items if detail.full or detail.explain else items[:_SHOWN]
    rows = [
        [
            changes(item["set"]),
            item["step_s"],
            _signed_percent(item["delta_step_s"] / (item["step_s"] - item["delta_step_s"])),
            f"{item['delta_gib']:+.1f}",
            item["fits"],
        ]
        for item in shown
    ]
    tones: list[Tone] = [
        "dim" if not item["fits"] else "good" if item["delta_step_s"] < 0.0 else "plain" for item in shown
    ]
    return Table("Single changes to the plan's layout", _NEAR, rows, tones)


def _explanation(entry: Mapping[str, Any]) -> list[Block]:
    slower = entry["step"]["delta"]
    share = slower / entry["step"]["winner"] if entry["step"]["winner"] else 0.0
    pieces = [f"{path.removeprefix('parallel.').replace('_', ' ')}" for path in entry["differs"]]
    text = (
        f"{_signed_percent(share)} step time, {entry['peak']['delta']:+.1f} GiB at the peak; "
        f"decided by {entry['decides'].replace('_', ' ')}; differs in {', '.join(pieces) or 'nothing'}"
    )
    rows = [
        [term["term"].replace("_", " "), _amount(term, "winner"), _amount(term, "other"), _amount(term, "delta")]
        for term in [*entry["time"], *entry["memory"]]
    ]
    return [Notes(f"The best against {entry['against']}", [text]), Table("", _TERMS, rows)]


def _amount(term: Mapping[str, Any], key: str) -> str:
    value = term[key]
    sign = "+" if key == "delta" and value > 0.0 else "−" if key == "delta" and value < 0.0 else ""
    size = abs(value) if key == "delta" else value
    return sign + (numbers.seconds(size) if term["unit"] == "s" else numbers.gib(size))


def _signed_percent(share: float) -> str:
    return f"{share:+.1%}".replace("%", " %")


def _fitting(items: list[Mapping[str, Any]]) -> Notes:
    return Notes(
        "What makes a layout fit",
        [
            f"{item['why']}: "
            + " ".join(f"--set {path}={numbers.argument_text(value)}" for path, value in item["set"].items())
            + f" ({numbers.seconds(item['step_s'])} per step)"
            for item in items
        ],
    )


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

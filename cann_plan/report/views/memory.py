"""`cann-plan memory`: memory of every pipeline rank, the largest operators and what would help."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, View
from cann_plan.report.views.estimate import assumption_text, recommendation_text, warning_text

_COLUMNS = (
    Column("stage", "Stage", "number"),
    Column("layers", "Layers"),
    Column("in_flight", "In flight", "number"),
    Column("weights_gib", "Weights", "gib"),
    Column("gradients_gib", "Grads", "gib"),
    Column("optimizer_gib", "Optim.", "gib"),
    Column("activations_gib", "Activ.", "gib"),
    Column("temporaries_gib", "Temp.", "gib"),
    Column("logits_gib", "Logits", "gib"),
    Column("communicators_gib", "Comm.", "gib"),
    Column("runtime_gib", "Runt.", "gib"),
    Column("fragmentation_gib", "Frag.", "gib"),
    Column("device_gib", "Total", "gib"),
)
_RECORDS = (
    Column("stage", "Stage"),
    Column("ranks", "Ranks"),
    *_COLUMNS[1:-1],
    Column("allocated_gib", "Allocated", "gib"),
    Column("reserved_gib", "Reserved", "gib"),
    _COLUMNS[-1],
)
_SHOWN_OPERATORS = 10


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """One row per pipeline rank, in GiB; the highest is marked."""
    ranks = document["ranks"]
    usable = document.get("usable_gib")
    worst = max(ranks, key=lambda rank: rank["device_gib"])
    tones: list[Tone] = [
        "bad" if usable is not None and rank["device_gib"] > usable else "warn" if rank is worst else "plain"
        for rank in ranks
    ]
    rows = [[rank[column.key] for column in _COLUMNS] for rank in ranks]
    footnotes = [f"Peak {numbers.gib(worst['device_gib'])} on stage {worst['stage']}"]
    if usable is not None:
        footnotes[0] += f", usable {numbers.gib(usable)}"
    blocks: list[Block] = [Table("Device memory by pipeline stage, GiB", _COLUMNS, rows, tones, footnotes)]
    if not detail.brief:
        blocks += [
            *_mappings("Largest operators", document["top_operators"], _SHOWN_OPERATORS, detail),
            *_mappings("Timeline", document["timeline"], _SHOWN_OPERATORS, detail),
            *_notes("What would help", [recommendation_text(item) for item in document["advice"]]),
            *_notes("Warnings", [warning_text(item) for item in document.get("warnings", [])], "warn"),
            *_notes("Assumptions", [assumption_text(item) for item in document.get("assumptions", [])]),
        ]
    records = Table("", _RECORDS, [[rank[column.key] for column in _RECORDS] for rank in ranks])
    return View(blocks, records)


def _notes(title: str, items: Sequence[str], tone: Tone = "plain") -> list[Block]:
    return [Notes(title, items, tone)] if items else []


def _mappings(title: str, items: Sequence[Mapping[str, Any]], limit: int, detail: Detail) -> list[Block]:
    if not items:
        return []
    keys = list(dict.fromkeys(key for item in items for key in item))
    shown = items if detail.explain or detail.full else items[:limit]
    columns = [Column(key, key.replace("_gib", ", GiB").replace("_", " "), _kind(key, items)) for key in keys]
    rest = [f"{len(items) - len(shown)} more: --explain or --format json lists all"] if len(shown) < len(items) else []
    return [Table(title, columns, [[item.get(key) for key in keys] for item in shown], footnotes=rest)]


def _kind(key: str, items: Sequence[Mapping[str, Any]]) -> str:
    if key.endswith("_gib"):
        return "gib"
    if key.endswith("_s"):
        return "seconds"
    return "number" if all(isinstance(item.get(key), int | float) for item in items) else "text"

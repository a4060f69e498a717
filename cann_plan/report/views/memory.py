"""`cann-plan memory`: memory of every pipeline rank, the largest operators and what would help."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, Verdict, View
from cann_plan.report.plan_title import layout
from cann_plan.report.views.estimate import assumption_text, headline, recommendation_text, warning_text

_COLUMNS = (
    Column("stage", "Stage", "number"),
    Column("layers", "Layers"),
    Column("in_flight", "In flight", "number"),
    Column("weights_gib", "Weights", "gib"),
    Column("gradients_gib", "Grads", "gib"),
    Column("optimizer_gib", "Optim", "gib"),
    Column("activations_gib", "Activ", "gib"),
    Column("temporaries_gib", "Temp", "gib"),
    Column("logits_gib", "Logits", "gib"),
    Column("communicators_gib", "Comm", "gib"),
    Column("runtime_gib", "Run", "gib"),
    Column("fragmentation_gib", "Frag", "gib"),
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
_PHASES = (
    Column("stage", "Stage", "number"),
    Column("load_gib", "Load", "gib"),
    Column("first_forward_gib", "1st forward", "gib"),
    Column("first_backward_gib", "1st backward", "gib"),
    Column("first_update_gib", "1st update", "gib"),
    Column("forward_gib", "Forward", "gib"),
    Column("backward_gib", "Backward", "gib"),
    Column("update_gib", "Update", "gib"),
    Column("checkpoint_gib", "Checkpoint", "gib"),
)
_SHOWN_OPERATORS = 10
_SHOWN_RANKS = 16
_MOMENTS = 12


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The verdict, one row per pipeline rank in GiB with the highest marked, and where the bytes go."""
    ranks = document["ranks"]
    limit = document.get("visible_gib", document.get("usable_gib"))
    worst = max(ranks, key=lambda rank: rank["device_gib"])
    blocks: list[Block] = []
    if document.get("verdict") is not None:
        blocks.append(_verdict(document))
    shown = ranks if detail.explain or detail.full or len(ranks) <= _SHOWN_RANKS else _spread(ranks, worst)
    tones: list[Tone] = [
        "bad" if limit is not None and rank["device_gib"] > limit else "warn" if rank is worst else "plain"
        for rank in shown
    ]
    rows = [[rank[column.key] for column in _COLUMNS] for rank in shown]
    footnotes = [f"Peak {numbers.gib(worst['device_gib'])} on stage {worst['stage']}"]
    if document.get("usable_gib") is not None:
        footnotes[0] += f", usable {numbers.gib(document['usable_gib'])}"
    if len(shown) < len(ranks):
        footnotes.append(f"{len(ranks) - len(shown)} more stages: --explain or --format json lists all")
    blocks.append(Table("Device memory by pipeline stage, GiB", _COLUMNS, rows, tones, footnotes))
    if not detail.brief:
        blocks += [
            *_phases(shown),
            *_mappings("Largest at the peak", document["top_operators"], _SHOWN_OPERATORS, detail),
            *_timeline(document["timeline"], detail),
            *_notes("What would help, by GiB saved per second lost", _advice(document["advice"])),
            *_recompute(document.get("recompute")),
            *_replay(document.get("replay")),
            *_trace(document.get("trace")),
            *_notes("Warnings", [warning_text(item) for item in document.get("warnings", [])], "warn"),
            *_notes("Assumptions", [assumption_text(item) for item in document.get("assumptions", [])]),
        ]
    records = Table("", _RECORDS, [[rank[column.key] for column in _RECORDS] for rank in ranks])
    return View(blocks, records)


def _verdict(document: Mapping[str, Any]) -> Verdict:
    tone: Tone = {"fits": "good", "borderline": "warn"}.get(document["verdict"], "bad")  # type: ignore[assignment]
    lines = []
    worst = max(document["ranks"], key=lambda rank: rank["device_gib"])
    lines.append(
        f"allocated {numbers.gib(worst['allocated_gib'])}, reserved {numbers.gib(worst['reserved_gib'])}, "
        f"on the device {numbers.gib(worst['device_gib'])}"
    )
    host, capacity = document.get("host_per_node_gib"), document.get("host_capacity_gib")
    if host is not None:
        of = f" of {numbers.gib(capacity)}" if capacity is not None else ""
        lines.append(f"host memory {numbers.gib(host)}{of} per node")
    if document.get("parallel"):
        lines.append(layout(document["parallel"]))
    return Verdict("Memory", tone, headline(document), lines)


def _spread(ranks: Sequence[Any], worst: Any) -> list[Any]:
    """The first, the last, the worst and some between, in order."""
    step = max(len(ranks) // (_SHOWN_RANKS - 2), 1)
    return [rank for index, rank in enumerate(ranks) if index % step == 0 or rank is worst or rank is ranks[-1]]


def _phases(ranks: Sequence[Mapping[str, Any]]) -> list[Block]:
    with_phases = [rank for rank in ranks if rank.get("phases")]
    if not with_phases:
        return []
    rows = [[rank["stage"], *(rank["phases"][column.key] for column in _PHASES[1:])] for rank in with_phases]
    return [Table("Live tensors by phase, GiB (before fragmentation, communicators and runtime)", _PHASES, rows)]


def _advice(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [recommendation_text(item) for item in items]


def _timeline(events: Sequence[Mapping[str, Any]], detail: Detail) -> list[Block]:
    """All passes, or the highest ones and the ends."""
    if not events:
        return []
    keys = list(dict.fromkeys(key for event in events for key in event))
    columns = [Column(key, key.replace("_gib", ", GiB").replace("_", " "), _kind(key, events)) for key in keys]
    chosen = list(events)
    if not (detail.explain or detail.full) and len(events) > _MOMENTS:
        step = (len(events) - 1) / (_MOMENTS - 1)
        places = {round(index * step) for index in range(_MOMENTS)}
        places.add(max(range(len(events)), key=lambda index: events[index].get("allocated_gib") or 0.0))
        chosen = [events[index] for index in sorted(places)]
    rest = [f"{len(events)} moments: --explain or --format json lists all"] if len(chosen) < len(events) else []
    return [Table("Timeline", columns, [[event.get(key) for key in keys] for event in chosen], footnotes=rest)]


def _recompute(section: Mapping[str, Any] | None) -> list[Block]:
    if not section:
        return []
    columns = (Column("layers", "Layers of the stage"), Column("gib", "Activations", "gib"),
               Column("replay_s", "Replay", "seconds"))  # fmt: skip
    rows = [[_layers(entry["layers"]), entry["gib"], entry["replay_s"]] for entry in section["front"]]
    best, root = section["best"], section["square_root"]
    notes = [f"Budget {numbers.gib(section['budget_gib'])}: " + (_layers(best["layers"]) if best else "no plan fits")]
    notes.append(f"Segments of {root['segment']} layers (sqrt n): {numbers.gib(root['gib'])}")
    return [Table(f"Recomputation of stage {section['stage']}: fewest seconds for bytes", columns, rows,
                  footnotes=notes)]  # fmt: skip


def _layers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _replay(section: Mapping[str, Any] | None) -> list[Block]:
    if not section:
        return []
    text = (
        f"{section['allocations']} allocations of two steps: allocated {numbers.gib(section['peak_allocated_gib'])}, "
        f"reserved {numbers.gib(section['peak_reserved_gib'])} (+{section['fragmentation']:.1%}; "
        f"charged above +{section['predicted_fragmentation']:.1%})"
    )
    if not section["fits"]:
        text += f"; fails within {numbers.gib(section['limit_gib'])} at {section['failed_at']}"
    return [Notes(f"Allocator replay ({section['pool']})", [text])]


def _trace(section: Mapping[str, Any] | None) -> list[Block]:
    if not section:
        return []
    columns = (Column("class", "Class"), Column("measured_gib", "Measured", "gib"),
               Column("predicted_gib", "Predicted", "gib"))  # fmt: skip
    rows = [[entry[column.key] for column in columns] for entry in section["by_class"]]
    notes = []
    for name in ("allocated", "reserved"):
        measured, error = section[f"measured_{name}_gib"], section[f"error_{name}"]
        if measured is not None:
            predicted = numbers.gib(section[f"predicted_{name}_gib"])
            notes.append(f"{name}: measured {numbers.gib(measured)}, predicted {predicted} ({error:+.1%})")
    return [Table(f"Against the record ({section['kind']})", columns, rows, footnotes=notes)]


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
    if key == "gib" or key.endswith("_gib"):
        return "gib"
    if key.endswith("_s"):
        return "seconds"
    known = [item.get(key) for item in items if item.get(key) is not None]
    return "number" if known and all(isinstance(value, int | float) for value in known) else "text"

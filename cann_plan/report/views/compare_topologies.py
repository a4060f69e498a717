"""`cann-plan compare-topologies`: which network for this plan, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, Verdict, View

_COLUMNS = (
    Column("rank", "#", "number"),
    Column("name", "Topology"),
    Column("step_s", "Step", "seconds"),
    Column("step_s_best_layout", "Best layout", "seconds"),
    Column("training_days", "Days", "days"),
    Column("cost", "Cost", "count"),
    Column("days_times_cost", "Days x cost", "count"),
    Column("switches", "Switches", "number"),
    Column("cables", "Cables", "number"),
    Column("diameter", "Hops", "number"),
)
_RECORDS = (
    *_COLUMNS,
    Column("bisection_gb_per_s", "Bisection, GB/s"),
    Column("rank_best_layout", "# best layout"),
    Column("shape", "Shape"),
    Column("endpoints", "Endpoints"),
    Column("planes", "Planes"),
    Column("injection_gb_per_s", "Injection, GB/s"),
    Column("cables_by_kind", "Cables by kind"),
    Column("switches_by_radix", "Switches by ports"),
    Column("cost_reason", "Cost unknown"),
    Column("power_w", "Power, W"),
    Column("routing", "Routing"),
    Column("training_days_best_layout", "Days, best layout"),
    Column("training_cost", "Cost of the run"),
    Column("hottest_link", "Hottest link"),
    Column("collectives", "Collectives"),
    Column("best_layout", "Best layout degrees"),
    Column("why", "Why"),
)
_COLLECTIVES = (
    Column("topology", "Topology"),
    Column("collective", "Collective"),
    Column("ranks", "Ranks", "number"),
    Column("bytes", "Bytes", "bytes"),
    Column("time_s", "Time", "seconds"),
    Column("algorithm", "Algorithm"),
    Column("slowdown", "Slowed, x", "number"),
    Column("link", "By"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """What to buy, the ranking, and one sentence per topology."""
    ranked = sorted(document["topologies"], key=lambda item: item["rank"])
    blocks: list[Block] = [_answer(document, ranked)]
    if not detail.brief:
        # A column that nobody has a value for says nothing.
        columns = [column for column in _COLUMNS if any(item.get(column.key) is not None for item in ranked)]
        rows = [[item.get(column.key) for column in columns] for item in ranked]
        bought = (document.get("buy") or {}).get("name")
        tones: list[Tone] = ["good" if item["name"] == bought else "plain" for item in ranked]
        blocks.append(Table("", columns, rows, tones, footnotes=_footnotes(document, ranked)))
        blocks.append(Notes("Why", _reasons(ranked), "plain"))
        skipped = [f"{item['name']}: {item['why']}" for item in document.get("skipped", ())]
        if skipped:
            blocks.append(Notes("Left out", skipped, "warn"))
    if detail.explain:
        blocks += _explained(document, ranked)
    records = [[item.get(column.key) for column in _RECORDS] for item in ranked]
    return View(blocks, Table("", _RECORDS, records))


def _answer(document: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> Verdict:
    basis = (
        f"equal {document['equalised_on'].replace('_', ' ')} · "
        f"{numbers.plain(float(document['injection_gb_per_s']))} GB/s per device · {document['scope']}"
    )
    buy = document.get("buy")
    if buy is None:
        first = ranked[0]
        return Verdict("topologies", "good", f"{first['name']}: {first['why']}", [basis])
    lines = [buy["why"]]
    if buy["flips"]:
        lines.append("better buy elsewhere: " + "; ".join(flip["text"] for flip in buy["flips"]))
    elif buy["checked"]:
        lines.append(f"no other is the better buy among {buy['checked']}")
    devices = document.get("devices")
    where = f" for {numbers.plain(devices)} devices" if devices else ""
    return Verdict("topologies", "good", f"buy {buy['name']}{where}", [*lines, basis])


def _reasons(ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per reason, with all networks it holds for."""
    names: dict[str, list[str]] = {}
    for item in ranked:
        if item["why"]:
            names.setdefault(item["why"], []).append(item["name"])
    return [f"{', '.join(named)}: {why}" for why, named in names.items()]


def _footnotes(document: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    own = document.get("own_network")
    if own and own["step_s"] is not None:
        notes.append(f"the cluster's own network ({own['name']}): {numbers.seconds(own['step_s'])} per step")
    if document.get("price_table"):
        unknown = next((item["cost_reason"] for item in ranked if item.get("cost_reason")), None)
        notes.append(unknown or f"network cost in {document['currency']} by price table {document['price_table']}")
    if document.get("placement") == "random":
        notes.append("servers of the job at random places (one draw)")
    return notes


def _explained(document: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Shapes and parts, collectives of the held layout, assumptions."""
    parts = []
    for item in ranked:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in item.get("cables_by_kind", {}).items())
        switches = ", ".join(f"{count:,} x {radix} ports" for radix, count in item.get("switches_by_radix", {}).items())
        text = f"{item['name']}: {item.get('shape', '')}; routing {item.get('routing', '')}; switches "
        parts.append(f"{text}{switches or 'none'}; cables {kinds}")
    rows: list[list[object]] = []
    for item in ranked:
        for name, told in item["collectives"].items():
            if isinstance(told, Mapping):
                rows.append([item["name"], name.replace("_", "-"), *(told.get(c.key) for c in _COLLECTIVES[2:])])
    blocks: list[Block] = [Notes("Shapes and parts", parts, "plain")]
    if rows:
        blocks.append(Table("Collectives of the held layout, largest message each", _COLLECTIVES, rows))
    notes = [f"{item['path']} = {item['value']} ({item['source']})" for item in document.get("assumptions", ())]
    blocks.append(Notes("Assumptions", notes, "dim"))
    return blocks

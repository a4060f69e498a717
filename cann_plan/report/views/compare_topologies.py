"""`cann-plan compare-topologies`: which network for this plan, and why."""

from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, Verdict, View

_COLUMNS = (
    Column("rank", "#", "number"),
    Column("name", "Topology"),
    Column("step_s", "Step", "seconds"),
    Column("step_s_best_layout", "Best layout", "seconds"),
    Column("training_days", "Days", "days"),
    Column("diameter", "Hops", "number"),
    Column("bisection_gb_per_s", "Bisection, GB/s", "number"),
    Column("switches", "Switches", "number"),
    Column("cables", "Cables", "number"),
    Column("cost", "Cost", "number"),
)
_RECORDS = (
    *_COLUMNS,
    Column("endpoints", "Endpoints"),
    Column("hottest_link", "Hottest link"),
    Column("collectives", "Collectives"),
    Column("why", "Why"),
)


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The ranking, and one sentence per topology."""
    ranked = sorted(document["topologies"], key=lambda item: item["rank"])
    basis = (
        f"equal {document['equalised_on'].replace('_', ' ')} · "
        f"{numbers.plain(float(document['injection_gb_per_s']))} GB/s per endpoint · {document['scope']}"
    )
    first = ranked[0]
    answer = Verdict("topologies", "good", f"{first['name']}: {first['why']}", [basis])
    # A column that nobody has a value for says nothing.
    columns = [column for column in _COLUMNS if any(item[column.key] is not None for item in ranked)]
    tones: list[Tone] = ["good"]
    blocks: list[Block] = [answer]
    if not detail.brief:
        rows = [[item[column.key] for column in columns] for item in ranked]
        blocks.append(Table("", columns, rows, tones))
        blocks.append(Notes("Why", [f"{item['name']}: {item['why']}" for item in ranked[1:] if item["why"]], "plain"))
    return View(blocks, Table("", _RECORDS, [[item[column.key] for column in _RECORDS] for item in ranked]))

"""`cann-plan claims`: claimed against computed, verdict and reason."""

import json
from collections.abc import Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Notes, Table, Tone, Verdict, View

_SCREEN = (
    Column("id", "Claim"),
    Column("claimed", "Claimed"),
    Column("computed", "Computed"),
    Column("unit", "Unit"),
    Column("verdict", "Verdict"),
)
_RECORDS = (
    Column("id", "Claim"),
    Column("claimed", "Claimed"),
    Column("computed", "Computed", "number"),
    Column("unit", "Unit"),
    Column("verdict", "Verdict"),
    Column("why", "Why"),
    Column("assumptions", "Assumptions"),
    Column("plan", "Plan"),
)
_WORDS = {"reached": "reached", "reached_if": "reached if", "not_reachable": "not reachable"}
_TONES: dict[str, Tone] = {"reached": "good", "reached_if": "warn", "not_reachable": "bad"}


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """One row per claim; with `explain` its reason, assumptions and figures."""
    claims = document["claims"]
    counts = {verdict: sum(claim["verdict"] == verdict for claim in claims) for verdict in _WORDS}
    headline = " · ".join(f"{count} {_WORDS[verdict]}" for verdict, count in counts.items())
    rows = [
        [claim["id"], _text(claim["claimed"]), _text(claim["computed"]), claim["unit"], _WORDS[claim["verdict"]]]
        for claim in claims
    ]
    blocks: list[Block] = [
        Verdict("claims", "plain", headline),
        Table("", _SCREEN, rows, [_TONES[claim["verdict"]] for claim in claims]),
    ]
    if not detail.brief:
        blocks.append(Notes("Why", [f"{claim['id']}: {claim['why']}" for claim in claims], "plain"))
    if detail.explain:
        blocks += [
            Notes(f"{claim['id']} ({claim['plan']})", [*map(_figure, claim["figures"]), *_assumed(claim)], "dim")
            for claim in claims
        ]
    records = [
        [claim[column.key] if column.key != "assumptions" else "; ".join(claim["assumptions"]) for column in _RECORDS]
        for claim in claims
    ]
    return View(blocks, Table("", _RECORDS, records))


def _text(value: object) -> str:
    if value is None:
        return "no figure"
    return numbers.plain(value) if isinstance(value, int | float) else str(value)


def _figure(item: Mapping[str, Any]) -> str:
    changes = " ".join(f"--set '{path}={_plain(value)}'" for path, value in item["overrides"].items())
    return f"{item['name']}: {_text(item['value'])} {item['unit']}" + (f" ({changes})" if changes else "")


def _plain(value: object) -> str:
    """A plan value as the command line takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _assumed(claim: Mapping[str, Any]) -> list[str]:
    return [f"assumed: {text}" for text in claim["assumptions"]]

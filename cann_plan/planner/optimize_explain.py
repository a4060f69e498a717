"""One layout against another, term by term: where the seconds and the bytes differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cann_plan.cost.memory import PARTS


def comparison(name: str, winner: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """`winner` and `other` are candidates. Terms by size of the difference; the keys in which the layouts differ."""
    terms = []
    first, second = winner["estimate"], other["estimate"]
    for term, seconds in first["time"]["breakdown_s"].items():
        terms.append(_term(term, "s", seconds, second["time"]["breakdown_s"][term]))
    ours, theirs = _fullest(first), _fullest(second)
    memory = [_term(part, "GiB", ours[f"{part}_gib"], theirs[f"{part}_gib"]) for part in PARTS]
    step = _term("step", "s", first["time"]["step_s"], second["time"]["step_s"])
    peak = _term("peak", "GiB", first["memory"]["peak_gib"], second["memory"]["peak_gib"])
    decides = max(terms, key=lambda item: item["delta"] * (1.0 if step["delta"] > 0.0 else -1.0))
    return {
        "against": name,
        "step": step,
        "peak": peak,
        "decides": decides["term"],
        "time": sorted((term for term in terms if term["delta"]), key=lambda item: -abs(item["delta"])),
        "memory": sorted((term for term in memory if term["delta"]), key=lambda item: -abs(item["delta"])),
        "differs": {
            path: {"winner": winner["overrides"].get(path), "other": other["overrides"].get(path)}
            for path in dict.fromkeys([*winner["overrides"], *other["overrides"]])
            if winner["overrides"].get(path) != other["overrides"].get(path)
        },
    }


def _fullest(estimate: Mapping[str, Any]) -> Mapping[str, Any]:
    """Memory of the fullest stage."""
    stage: Mapping[str, Any] = estimate["memory"]["stages"][estimate["memory"]["peak_stage"]]
    return stage


def _term(term: str, unit: str, winner: float, other: float) -> dict[str, Any]:
    """`delta`: how much more the other needs."""
    return {"term": term, "unit": unit, "winner": winner, "other": other, "delta": other - winner}

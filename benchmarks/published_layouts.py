"""Where the layouts of published runs stand in a search of their own job, and the term that decides against them.

    python benchmarks/published_layouts.py [--runs 15] [--least 64] [--markdown]

One run per source, device and model, complete configurations only (tier A) of at least `--least` devices, from
tests/data/measured. The search has the run's stack, overlap and precision; the rank counts layouts with 1F1B or
interleaving (what the stacks of these runs have) whose predicted step is shorter than the published layout's.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from cann_plan.cost.strategies import SCHEDULES
from cann_plan.importers.rows import MeasuredRow, RowSkippedError
from cann_plan.importers.rows_plan import import_row
from cann_plan.planner.candidate import candidate
from cann_plan.planner.choices import Choices, Range, search_policies
from cann_plan.planner.optimize_explain import comparison
from cann_plan.planner.search import search
from cann_plan.planner.space import strategy_space
from cann_plan.planner.validate import load_rows
from cann_plan.planner.validate_rows import PreparedRow, predict, prepare_row
from cann_plan.report.layout_text import words

DATA = Path(__file__).parent.parent / "tests" / "data" / "measured"
USUAL = Range((SCHEDULES.index("1f1b"), SCHEDULES.index("interleaved")))


@dataclass(frozen=True)
class Standing:
    """A published layout in the search of its job; seconds."""

    run: str
    devices: str
    measured: float
    predicted: float
    rank: int
    feasible: int
    best: float
    published: str
    winner: str
    decides: str


def runs(least: int) -> Iterator[PreparedRow]:
    """Runs with a step time, one per source, device and model."""
    seen: set[tuple[Any, ...]] = set()
    rows: list[MeasuredRow] = list(load_rows(sorted(DATA.glob("*.yaml"))))
    for row in rows:
        if row.tier != "A":
            continue
        try:
            prepared = prepare_row(import_row(row))
        except RowSkippedError:
            continue
        job = prepared.job
        key = (row.id.split("-")[0], job.cluster.device.name, job.architecture.layers, job.architecture.hidden)
        if job.cluster.devices >= least and prepared.row.measured.step_s is not None and key not in seen:
            seen.add(key)
            yield prepared


def spread_over_sources(found: list[PreparedRow], count: int) -> list[PreparedRow]:
    """Runs taken in turn from every (source, device), those with most devices first."""
    groups: dict[tuple[str, str], list[PreparedRow]] = {}
    for prepared in sorted(found, key=lambda p: p.job.cluster.devices):
        groups.setdefault((prepared.row.row.id.split("-")[0], prepared.job.cluster.device.name), []).append(prepared)
    chosen: list[PreparedRow] = []
    while len(chosen) < count and any(groups.values()):
        for members in groups.values():
            if members and len(chosen) < count:
                chosen.append(members.pop())
    return chosen


def standing(prepared: PreparedRow) -> Standing | None:
    """The search of a run's job; None where nothing fits."""
    predicted, job = predict(prepared), prepared.job
    problem = replace(job.problem, policies=search_policies(job.problem), recompute_scope="stage")
    space = strategy_space(problem, Choices({"schedule": USUAL}, whole=True))
    found = search(space, 1, than=predicted.step_s)
    if not found.best:
        return None
    own = candidate(job, predicted.strategies)
    best = candidate(replace(job, problem=space.problem), found.best[0])
    terms = [term for term in comparison("", best, own)["time"] if term["delta"] > 0.0][:2]
    decides = ", ".join(f"{term['term'].replace('_', ' ')} +{term['delta']:.2g} s" for term in terms)
    measured = prepared.row.measured.step_s
    assert measured is not None
    return Standing(
        prepared.row.row.id, f"{job.cluster.devices} {job.cluster.device.name}", measured, predicted.step_s,
        found.better + 1, found.feasible, found.steps[0], words(own["estimate"]["parallel"]),
        words(best["estimate"]["parallel"]), decides,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--least", type=int, default=64)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.markdown:
        print(
            "| run | devices | measured | predicted | rank | best found | what decides |\n|---|---|---|---|---|---|---|"
        )
    for prepared in spread_over_sources(list(runs(options.least)), options.runs):
        row = standing(prepared)
        if row is None:
            print(f"{prepared.row.row.id}: no layout fits")
        elif options.markdown:
            print(
                f"| `{row.run}` | {row.devices} | {row.measured:.2f} s | {row.predicted:.2f} s | {row.rank} of "
                f"{row.feasible:,} | {row.best:.2f} s | {row.decides} |"
            )
        else:
            print(f"{row.run}, {row.devices}: rank {row.rank} of {row.feasible}")
            print(f"  measured {row.measured:.2f} s, predicted {row.predicted:.2f} s: {row.published}")
            print(f"  best {row.best:.2f} s: {row.winner}\n  decided by {row.decides}")


if __name__ == "__main__":
    main()

"""Predicted against measured memory of small runs: states between steps, and peaks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cann_plan.importers.memory_rows import MemoryRow, all_memory_rows, memory_row, read_memory_rows
from cann_plan.importers.rows import RowSkippedError
from cann_plan.planner.constraints import EXPLAIN, REASONS, broken_constraint
from cann_plan.planner.contract import SkippedRow, ValidatedRow
from cann_plan.planner.evaluate import stage_memory
from cann_plan.planner.prepare import prepare
from cann_plan.planner.validate_statistics import statistics
from cann_plan.records import dataclass
from cann_plan.spec.document import STDIN
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

GIB = 2.0**30
LOW = -0.1
"""Error from which on a peak counts as predicted too low."""


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """One quantity of one run in GiB, on the pipeline stage that holds most of it."""

    id: str
    quantity: str
    stage: int
    predicted_gib: float
    measured_gib: float
    judged: bool
    remarks: tuple[str, ...]

    @property
    def error(self) -> float:
        """Predicted over measured less one."""
        return self.predicted_gib / self.measured_gib - 1.0


def compare_memory(row: MemoryRow) -> list[MemoryComparison]:
    """Both quantities of a run, each on the stage where it was measured largest.

    Raises:
        RowSkippedError: the plan cannot be evaluated.
    """
    try:
        job = prepare(load_plan(row.plan), timed=False)
    except SpecError as error:
        first = error.problems[0]
        raise RowSkippedError(f"{first.path or 'plan'}: {first.message}") from None
    if job.strategies is None:
        raise RowSkippedError("the parallel layout is not stated")
    code = int(broken_constraint(job.problem, job.strategies)[0])
    if code:
        raise RowSkippedError(EXPLAIN[REASONS[code]])
    memory = stage_memory(job.problem, job.strategies).memory
    pipeline = int(job.strategies.pipeline[0])
    per_stage = job.cluster.devices // pipeline
    peak = memory.first_step if row.first_step else memory.allocated
    predicted = {"static": memory.states[0] / GIB, "peak": peak[0] / GIB}
    results = []
    for quantity in ("static", "peak"):
        by_stage: dict[int, float] = {}
        for reading in row.readings:
            if reading.quantity == quantity:
                stage = pipeline - 1 if reading.rank < 0 else min(reading.rank // per_stage, pipeline - 1)
                by_stage[stage] = max(by_stage.get(stage, 0.0), reading.gib)
        if not by_stage:
            continue
        stages = np.array(sorted(by_stage))
        value = float(predicted[quantity][stages].max())
        worst = max(by_stage, key=lambda stage: by_stage[stage])
        results.append(
            MemoryComparison(
                row.id, quantity, worst, value, by_stage[worst], quantity in row.judged, row.remarks
            )
        )  # fmt: skip
    return results


def is_memory_file(source: str | Path) -> bool:
    """Whether a file holds memory baselines of a test suite (launch arguments, or figures by rank)."""
    if str(source) == STDIN or not Path(source).is_file():
        return False
    try:
        rows = read_memory_rows(source)
    except (OSError, SpecError, UnicodeDecodeError):
        return False
    return any("args" in row or "rank_mem_mib" in (row.get("measured") or {}) for row in rows)


def validated_rows(
    source: str | Path,
) -> tuple[list[ValidatedRow], list[tuple[tuple[str, ...], str, float]], list[SkippedRow]]:
    """A file of baselines as rows of `validate`: (rows, errors by group and quantity, skipped rows)."""
    found = validate_memory([source])
    groups = (f"file={Path(source).stem}",)
    rows: dict[str, ValidatedRow] = {}
    errors: list[tuple[tuple[str, ...], str, float]] = []
    for item in found["rows"]:
        row = rows.setdefault(
            item["id"],
            {
                "id": item["id"],
                "predicted": {"step_time": None},
                "measured": {"step_time": None, "memory_quantity": "allocated"},
                "error": {"step_time": None, "memory": None},
                "assumptions": item["assumptions"],
            },
        )
        quantity = "memory" if item["quantity"] == "peak" else "static"
        row["predicted"][quantity], row["measured"][quantity] = item["predicted_gib"], item["measured_gib"]
        if item["judged"]:
            row["error"][quantity] = item["error"]
            errors.append((groups, quantity, item["error"]))
    return list(rows.values()), errors, [{"id": item["id"], "why": item["why"]} for item in found["skipped"]]


def validate_memory(paths: Iterable[str | Path]) -> dict[str, Any]:
    """Comparisons of all rows of `paths` and their statistics: `static` and `peak` over what a row is judged on.

    `low`: judged peaks predicted more than 10% too low.
    """
    rows: list[MemoryComparison] = []
    skipped: list[dict[str, str]] = []
    for raw in all_memory_rows(paths):
        try:
            rows += compare_memory(memory_row(raw))
        except RowSkippedError as reason:
            skipped.append({"id": str(raw["id"]), "why": str(reason)})
        except SpecError as error:
            skipped.append({"id": str(raw["id"]), "why": error.problems[0].message})
    judged = {
        name: [row.error for row in rows if row.quantity == name and row.judged] for name in ("static", "peak")
    }  # fmt: skip
    return {
        "rows": [
            {
                "id": row.id, "quantity": row.quantity, "stage": row.stage, "predicted_gib": row.predicted_gib,
                "measured_gib": row.measured_gib, "error": row.error, "judged": row.judged,
                "assumptions": list(row.remarks),
            }
            for row in rows
        ],
        "static": statistics(judged["static"]),
        "peak": statistics(judged["peak"]),
        "low": [row.id for row in rows if row.quantity == "peak" and row.judged and row.error < LOW],
        "skipped": skipped,
    }  # fmt: skip

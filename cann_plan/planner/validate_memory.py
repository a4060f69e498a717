"""Predicted against measured memory of small runs: states between steps, and peaks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cann_plan.importers.memory_rows import MemoryRow, all_memory_rows, memory_row
from cann_plan.importers.rows import RowSkippedError
from cann_plan.planner.constraints import EXPLAIN, REASONS, broken_constraint
from cann_plan.planner.evaluate import stage_memory
from cann_plan.planner.prepare import prepare
from cann_plan.planner.validate_statistics import statistics
from cann_plan.records import dataclass
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

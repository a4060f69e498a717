"""Fit verdicts against reported outcomes: who ran out of memory, and who did not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cann_plan.importers.memory_cases import MemoryCase, memory_case, read_cases
from cann_plan.importers.rows import RowSkippedError
from cann_plan.planner.constraints import EXPLAIN, REASONS, broken_constraint
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.prepare import prepare
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

GIB = 2.0**30


def case_verdict(case: MemoryCase) -> dict[str, Any]:
    """The verdict on a case: device and host memory, in GiB, and whether it agrees with the report.

    Raises:
        RowSkippedError: the plan cannot be evaluated.
    """
    try:
        job = prepare(load_plan(case.plan), timed=False)
    except SpecError as error:
        first = error.problems[0]
        raise RowSkippedError(f"{first.path or 'plan'}: {first.message}") from None
    if job.strategies is None:
        raise RowSkippedError("the parallel layout is not stated")
    code = int(broken_constraint(job.problem, job.strategies)[0])
    if code:
        raise RowSkippedError(EXPLAIN[REASONS[code]])
    result = evaluate(job.problem, job.strategies)
    device, host = float(result.device_bytes[0]), float(result.host_bytes[0])
    visible, capacity = job.problem.memory.visible, job.problem.offload.capacity
    fits = device <= visible and host <= capacity
    usable = float(result.usable_bytes[0])
    close = abs(visible - device) <= job.problem.memory.borderline * usable
    return {
        "id": case.id,
        "out_of_memory": case.out_of_memory,
        "verdict": "borderline" if fits and close else "fits" if fits else "does_not_fit",
        "agrees": fits is not case.out_of_memory,
        "device_gib": device / GIB,
        "visible_gib": visible / GIB,
        "host_gib": host / GIB,
        "host_capacity_gib": capacity / GIB if np.isfinite(capacity) else None,
        "reported_gib": case.peak_gib,
        "assumptions": list(case.assumed),
    }


def validate_cases(paths: Iterable[str | Path], wanted: Iterable[str] | None = None) -> dict[str, Any]:
    """Verdicts on all cases of `paths` (those of `wanted` alone when given) and how many agree with the reports."""
    chosen = None if wanted is None else set(wanted)
    rows: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for raw in (item for path in paths for item in read_cases(path)):
        if chosen is not None and str(raw["id"]) not in chosen:
            continue
        try:
            rows.append(case_verdict(memory_case(raw)))
        except RowSkippedError as reason:
            skipped.append({"id": str(raw["id"]), "why": str(reason)})
    failed = [row for row in rows if row["out_of_memory"]]
    fitting = [row for row in rows if not row["out_of_memory"]]
    return {
        "cases": rows,
        "out_of_memory": {"n": len(failed), "called": sum(row["agrees"] for row in failed)},
        "fitting": {"n": len(fitting), "called": sum(row["agrees"] for row in fitting)},
        "misses": [row["id"] for row in rows if not row["agrees"]],
        "skipped": skipped,
    }

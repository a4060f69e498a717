"""The table the tests hold predictions to: errors by device and stack, and the runs that are checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.accuracy_fit import Result
from benchmarks.accuracy_statistics import statistics
from cann_plan.importers.rows import MeasuredRow

CHECKED = 8
"""Runs of a device and stack that the tests predict again: enough to see a point, few enough to be quick."""
HEADER = (
    "# Errors in step time by device and stack; written by `make accuracy`. Tests predict the runs in `checked` again\n"
    "# with the shipped profiles: their median error must not be a point above `checked_median`.\n"
)


def write_table(result: Result, rows: Sequence[MeasuredRow], root: Path) -> None:
    pairs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in result.fitted:
        place = result.samples[i].place
        pairs[str(place.device), str(place.stack)].append(int(i))
    entries: list[dict[str, Any]] = []
    for (device, stack), members in sorted(pairs.items()):
        ordered = sorted(members, key=lambda i: result.samples[i].id)
        picks = np.unique(np.linspace(0, len(ordered) - 1, min(CHECKED, len(ordered))).round().astype(int))
        checked = [ordered[p] for p in picks]
        entries.append({
            "device": device,
            "stack": stack,
            "runs": len(members),
            "models": len({result.samples[i].observation.group for i in members}),
            "in_sample": _rounded(statistics(result.errors["in"][members])),
            "left_out": _rounded(statistics(result.errors["group"][members])),
            "checked_median": round(float(np.median(np.abs(np.expm1(result.errors["in"][checked])))), 4),
            "checked": [result.samples[i].id for i in checked],
        })  # fmt: skip
    text = yaml.safe_dump(entries, sort_keys=False, default_flow_style=None, width=116)
    (root / "tests" / "data" / "accuracy.yaml").write_text(HEADER + text, encoding="utf-8")


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in values.items() if key != "n"}

"""Predictions of published runs stay as good as the recorded table says."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cann_plan.importers.rows import MeasuredRow, read_rows
from cann_plan.planner.validate import validate

DATA = Path(__file__).parent / "data"
TABLE: list[dict[str, Any]] = yaml.safe_load((DATA / "accuracy.yaml").read_text(encoding="utf-8"))
POINT = 0.01
"""A family's median error may not grow by more than a percentage point."""


@cache
def errors() -> dict[str, float]:
    """Signed error of every checked run, all predicted in one go with the shipped profiles."""
    wanted = {name for entry in TABLE for name in entry["checked"]}
    rows: list[MeasuredRow] = [
        row for file in sorted((DATA / "measured").glob("*.yaml")) for row in read_rows(file) if row.id in wanted
    ]
    found = {row["id"]: row["error"]["step_time"] for row in validate(rows)["rows"]}
    return {name: error for name, error in found.items() if error is not None}


@pytest.mark.parametrize("entry", TABLE, ids=[f"{entry['device']}/{entry['stack']}" for entry in TABLE])
def test_median_error_is_no_point_above_the_recorded_one(entry: dict[str, Any]) -> None:
    sizes = [abs(errors()[name]) for name in entry["checked"]]
    assert np.median(sizes) <= entry["checked_median"] + POINT


def test_every_checked_run_is_predicted() -> None:
    assert set(errors()) == {name for entry in TABLE for name in entry["checked"]}


def test_recorded_figures_beat_one_constant_rate() -> None:
    """Weighted by runs, the left-out MAPE stays below the 17% that one MFU per device and stack gives in sample."""
    runs = np.array([entry["runs"] for entry in TABLE], dtype=np.float64)
    mape = np.array([entry["left_out"]["mape"] for entry in TABLE])
    assert np.average(mape, weights=runs) < 0.12

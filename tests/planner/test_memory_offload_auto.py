"""`offload: auto`: the smallest share with which a layout fits, and what it costs."""

from typing import Any

import pytest

from cann_plan.planner.estimate import estimate
from cann_plan.spec.resolve import load_plan


def outcome(offload: Any, **parallel: Any) -> dict[str, Any]:
    plan = {
        "model": "llama-3-8b",
        "cluster": {"extends": "dgx-h100", "nodes": 1},
        "training": {"steps": 1, "sequence_length": 8192, "global_batch_size": 64},
        "parallel": {"tensor": 1, "pipeline": 1, "data": 8, "micro_batch_size": 1, "offload": offload, **parallel},
    }
    return dict(estimate(load_plan(plan)))


def share_of(document: dict[str, Any], name: str) -> tuple[float, str]:
    entry = next(item for item in document["assumptions"] if item["path"] == f"parallel.offload.{name}")
    return entry["value"], entry["source"]


@pytest.mark.parametrize("recompute", ["selective", "none"])
def test_the_share_is_the_smallest_twentieth_that_fits(recompute: str) -> None:
    found = outcome({"activations": "auto"}, zero_stage=1, recompute=recompute)
    share, source = share_of(found, "activations")
    assert 0.0 < share < 1.0
    assert found["memory"]["verdict"] != "does_not_fit"
    assert "slower" in source
    less = outcome({"activations": share - 0.05}, zero_stage=1, recompute=recompute)
    assert less["memory"]["verdict"] == "does_not_fit"
    same = outcome({"activations": share}, zero_stage=1, recompute=recompute)
    assert same["memory"] == found["memory"]
    assert same["time"]["step_s"] == found["time"]["step_s"]


def test_nothing_leaves_the_device_where_the_layout_fits() -> None:
    found = outcome("auto", tensor=2, pipeline=2, data=2)
    assert share_of(found, "optimizer")[0] == 0.0
    assert found["memory"] == outcome("none", tensor=2, pipeline=2, data=2)["memory"]


def test_all_of_it_leaves_where_nothing_fits() -> None:
    found = outcome("auto", zero_stage=0)
    share, source = share_of(found, "optimizer")
    assert share == 1.0
    assert "does not fit" in source
    assert found["memory"]["verdict"] == "does_not_fit"


def test_a_search_takes_the_first_share_with_a_layout_that_fits() -> None:
    plan = {
        "model": "llama-3-70b",
        "cluster": {"extends": "dgx-h100", "nodes": 1},
        "training": {"steps": 1, "sequence_length": 8192, "global_batch_size": 8},
        "parallel": {"offload": "auto"},
    }
    found = dict(estimate(load_plan(plan)))
    share, _ = share_of(found, "optimizer")
    assert share > 0.0
    assert found["memory"]["verdict"] != "does_not_fit"
    without = estimate(load_plan({**plan, "parallel": {"offload": {"optimizer": share - 0.25}}}))
    assert without["memory"]["verdict"] == "does_not_fit"

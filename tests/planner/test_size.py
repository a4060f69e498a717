"""`size`: the fewest devices, what binds, several clusters, where returns diminish."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cann_plan.planner.estimate import estimate
from cann_plan.planner.size import WORTH, size
from cann_plan.report.json_schema import document_schema
from cann_plan.report.plot_size import plot_size
from cann_plan.report.render import render
from cann_plan.spec.resolve import load_plan

PLAN: dict[str, Any] = {
    "model": "llama-3-8b",
    "cluster": "dgx-h100",
    "training": {"tokens": 1e12, "global_batch_size": 512, "sequence_length": 4096},
}


@pytest.fixture(scope="module")
def sized() -> dict[str, Any]:
    limits = {"goodput_days": 20, "max_devices": 1024}
    return dict(size(load_plan(PLAN | {"limits": limits, "economics": {"price_per_device_hour": 2.0}})))


def test_the_answer_keeps_the_deadline_and_no_smaller_size_tried_does(sized: dict[str, Any]) -> None:
    good = [row["devices"] for row in sized["table"] if row["fits"] and not row["broken"]]
    assert sized["devices"] == min(good)
    assert sized["limit_that_binds"] == "goodput_days"
    answer = next(row for row in sized["table"] if row["devices"] == sized["devices"])
    assert answer["days"] <= 20 < max(row["days"] for row in sized["table"])
    assert sized["table"] == sorted(sized["table"], key=lambda row: row["devices"])


def test_the_answer_is_a_plan_that_estimates_to_the_same_bits(sized: dict[str, Any]) -> None:
    loaded = load_plan(PLAN).override({"cluster": {"extends": "dgx-h100", "nodes": sized["nodes"]}})
    again = estimate(loaded.override(sized["best"]["overrides"]))
    assert again["time"] == sized["best"]["estimate"]["time"]
    assert again["memory"] == sized["best"]["estimate"]["memory"]


def test_returns_diminish_where_the_work_of_a_device_falls_for_good(sized: dict[str, Any]) -> None:
    after = [row for row in sized["table"] if sized["diminishing_from"] and row["devices"] >= sized["diminishing_from"]]
    assert all(row["efficiency"] < WORTH for row in after)
    best = max(row["tokens_per_s_per_device"] for row in sized["table"] if row["fits"])
    for row in sized["table"]:
        assert row["efficiency"] == (row["tokens_per_s_per_device"] / best if row["fits"] else None)


def test_the_cheapest_size_keeps_every_limit(sized: dict[str, Any]) -> None:
    good = {row["devices"]: row["cost"] for row in sized["table"] if row["fits"] and not row["broken"]}
    assert good[sized["cheapest"]] == min(good.values())


def test_the_cheapest_of_several_clusters_is_chosen() -> None:
    plan = PLAN | {"limits": {"goodput_days": 30, "max_devices": 1024}, "economics": {"price_per_device_hour": 2.0}}
    document: Any = size(load_plan(plan), clusters=("atlas-900-a2", "dgx-h100"))
    costs = {row["cluster"]: row["cost"] for row in document["clusters"]}
    assert document["cluster"] == min(costs, key=lambda name: costs[name])
    chosen = next(row for row in document["clusters"] if row["cluster"] == document["cluster"])
    assert chosen["devices"] == document["devices"]
    assert "Clusters" in render(document, "table")


def test_no_number_of_devices_is_enough() -> None:
    document = size(load_plan(PLAN | {"limits": {"goodput_days": 1, "max_devices": 32}}))
    assert document["devices"] is None
    assert document["best"] is None
    assert document["limit_that_binds"] == "goodput_days"


def test_documents_follow_their_schema_and_draw(sized: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    jsonschema.validate(sized, document_schema("size"))
    plot_size(sized, tmp_path / "size.svg")
    assert "device" in (tmp_path / "size.svg").read_text()
    with pytest.raises(ValueError, match="no number of devices fits"):
        plot_size({**sized, "table": []}, tmp_path / "none.svg")

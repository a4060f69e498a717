"""Every shipped plan estimates, its parts sum to the whole, and its resolved form gives the same answer."""

from typing import Any, cast

import pytest

from cann_plan.cost.memory import PARTS
from cann_plan.planner.estimate import estimate
from cann_plan.spec import presets
from cann_plan.spec.resolve import load_plan

PLANS = presets.names("plans")


@pytest.mark.parametrize("name", PLANS)
def test_parts_of_every_shipped_plan_sum_to_the_whole(name: str) -> None:
    document = cast(dict[str, Any], estimate(load_plan(name)))
    time, memory = document["time"], document["memory"]
    assert sum(time["breakdown_s"].values()) == pytest.approx(time["step_s"], rel=1e-12)
    assert min(time["breakdown_s"].values()) >= 0.0
    for stage in memory["stages"]:
        assert sum(stage[f"{part}_gib"] for part in PARTS) == pytest.approx(stage["device_gib"], rel=1e-12)
    assert memory["peak_gib"] == max(stage["device_gib"] for stage in memory["stages"])
    assert time["hfu"] >= time["mfu"] * 0.999


@pytest.mark.parametrize("name", PLANS)
def test_the_resolved_plan_is_a_plan_with_the_same_answer(name: str) -> None:
    document = cast(dict[str, Any], estimate(load_plan(name)))
    again = cast(dict[str, Any], estimate(load_plan(document["plan"])))
    assert again["time"]["step_s"] == document["time"]["step_s"]
    assert again["memory"]["peak_gib"] == document["memory"]["peak_gib"]


def test_ideal_time_is_linear_in_tokens() -> None:
    plan = load_plan("llama-2-7b-one-node")
    once = estimate(plan)["time"]["ideal_s"]
    twice = estimate(plan.override({"training.tokens": 40_000_000_000}))["time"]["ideal_s"]
    assert twice == pytest.approx(2 * once, rel=1e-12)


def test_a_model_alone_is_a_plan_on_the_fewest_nodes_with_its_assumptions_listed() -> None:
    document = cast(dict[str, Any], estimate(load_plan("llama-2-7b")))
    said = {item["path"]: item["value"] for item in document["assumptions"]}
    assert said["cluster"] == "atlas-900-a2"
    assert said["cluster.nodes"] == 1
    assert said["training.tokens"] == pytest.approx(20 * document["parameters"]["total"])
    assert "parallel" in said
    assert document["memory"]["fits"]

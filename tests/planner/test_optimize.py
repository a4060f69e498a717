"""`optimize`: the winner re-estimated, today's plan, single changes, explanations, restrictions, nothing fits."""

from typing import Any

import pytest

from cann_plan.planner.estimate import estimate
from cann_plan.planner.optimize import Wanted, optimize
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

PLAN: dict[str, Any] = {
    "model": "llama-2-70b",
    "cluster": {"extends": "atlas-900-a2", "nodes": 8},
    "training": {"tokens": 1e9, "global_batch_size": 512},
}
STATED = {"tensor": 8, "pipeline": 4, "data": 2, "micro_batch_size": 1, "recompute": "full"}


def with_changes(**changes: Any) -> dict[str, Any]:
    return PLAN | changes


@pytest.mark.parametrize(
    "plan",
    [
        with_changes(search={"tensor": [2, 8], "sequence_parallel": True}),
        with_changes(search={"schedule": ["zb-v", "dualpipe", "dualpipe-v"], "tensor": 8, "pipeline": [4, 8]}),
        with_changes(search={"layer_split": ["last_lighter", "both_lighter"], "pipeline": {"min": 4}, "tensor": 4}),
        with_changes(
            model="mixtral-8x7b", search={"expert": {"min": 2}, "tensor": [2, 4], "rank_order":
                                          "tensor-context-pipeline-data"}
        ),
        with_changes(training={"sequence_length": 65536, "global_batch_size": 64},
                     search={"context": [4, 8], "context_kind": ["ulysses", "hybrid", "ring"], "tensor": 8}),
    ],
    ids=["dense", "v-shaped", "splits", "experts", "context"],
)  # fmt: skip
def test_the_best_layouts_estimate_to_the_last_bit(plan: dict[str, Any]) -> None:
    loaded = load_plan(plan)
    document = optimize(loaded, Wanted(top=3, workers=1))
    assert document["best"]
    for found in document["best"]:
        again = estimate(loaded.override(found["overrides"]))
        for section in ("time", "memory", "flops", "cost", "energy", "parallel"):
            assert again[section] == found["estimate"][section], section  # type: ignore[literal-required]


def test_counts_add_up_and_steps_ascend() -> None:
    document = optimize(load_plan(with_changes(search={"tensor": 8})), Wanted(top=7, workers=1))
    steps = [found["estimate"]["time"]["step_s"] for found in document["best"]]
    assert steps == sorted(steps)
    assert len(steps) == 7
    assert document["evaluated"] == document["feasible"] + sum(document["infeasible"].values())
    assert document["evaluated"] == document["problem"]["strategies"]


def test_todays_plan_is_ranked_among_what_was_searched() -> None:
    loaded = load_plan(with_changes(parallel=STATED, search={"tensor": 8, "pipeline": 4}))
    document = optimize(loaded, Wanted(top=100, usual=True, workers=1))
    today = document["today"]
    assert today["rank"] is not None
    assert today["rank"] <= 100
    assert today["step_s"] == estimate(loaded)["time"]["step_s"]
    faster = [found for found in document["best"] if found["estimate"]["time"]["step_s"] < today["step_s"]]
    assert today["rank"] == len(faster) + 1


def test_single_changes_give_what_an_estimate_of_the_changed_plan_gives() -> None:
    loaded = load_plan(with_changes(parallel=STATED | {"virtual_pipeline": 1}, search={"tensor": 8, "pipeline": 4}))
    document = optimize(loaded, Wanted(near=True, usual=True, workers=1))
    fitting = [change for change in document["near"] if change["fits"]]
    assert [change["step_s"] for change in fitting] == sorted(change["step_s"] for change in fitting)
    names = {path for change in document["near"] for path in change["set"]}
    assert {"parallel.schedule", "parallel.layer_split", "parallel.rank_order", "parallel.tensor"} <= names
    for change in document["near"][::4]:
        assert estimate(loaded.override(change["set"]))["time"]["step_s"] == change["step_s"], change["set"]


def test_explanation_adds_up_to_the_difference() -> None:
    loaded = load_plan(with_changes(parallel=STATED, search={"tensor": 8}))
    document = optimize(loaded, Wanted(explain=True, workers=1))
    against = {entry["against"]: entry for entry in document["explain"]}
    assert set(against) == {"the runner-up", "today's plan"}
    for entry in against.values():
        total = sum(term["delta"] for term in entry["time"])
        assert total == pytest.approx(entry["step"]["delta"], rel=1e-9, abs=1e-9 * entry["step"]["winner"])
        assert entry["differs"]


def test_restrictions_are_kept() -> None:
    search = {"tensor": {"max": 4}, "pipeline": [2, 4], "zero_stage": 1, "recompute": "full", "recompute_share": [0.5]}
    document = optimize(load_plan(with_changes(search=search)), Wanted(top=30, workers=1))
    for found in document["best"]:
        parallel = found["estimate"]["parallel"]
        assert parallel["tensor"] <= 4
        assert parallel["pipeline"] in (2, 4)
        assert parallel["zero_stage"] == 1
        assert parallel["recompute"]["policy"] == "full"


def test_restrictions_no_layout_keeps_are_an_error() -> None:
    with pytest.raises(SpecError, match="no layout has these degrees"):
        optimize(load_plan(with_changes(search={"tensor": 7})), Wanted(workers=1))


def test_an_objective_nobody_can_price_is_an_error() -> None:
    with pytest.raises(SpecError, match="price"):
        optimize(load_plan(with_changes(search={"objective": "cost"})), Wanted(workers=1))
    priced = with_changes(search={"objective": "cost", "tensor": 8}, economics={"price_per_device_hour": 2.0})
    assert optimize(load_plan(priced), Wanted(workers=1))["best"]


def test_a_front_goes_from_fast_to_small() -> None:
    loaded = load_plan(with_changes(search={"pareto": ["time", "memory"], "tensor": 8}))
    best = optimize(loaded, Wanted(workers=1))["best"]
    steps = [found["estimate"]["time"]["step_s"] for found in best]
    peaks = [found["estimate"]["memory"]["peak_gib"] for found in best]
    assert len(best) > 3
    assert steps == sorted(set(steps))
    assert peaks == sorted(set(peaks), reverse=True)


def test_where_nothing_fits_the_closest_layout_and_what_would_help() -> None:
    plan = {"model": "llama-3.1-405b", "cluster": {"extends": "dgx-a100", "nodes": 4},
            "training": {"global_batch_size": 256}}  # fmt: skip
    loaded = load_plan(plan)
    document = optimize(loaded, Wanted(usual=True, workers=1))
    assert document["best"] == []
    closest = document["closest"]
    assert closest is not None
    memory = estimate(loaded.override(closest["overrides"]))["memory"]
    assert closest["short_gib"] == pytest.approx(memory["peak_gib"] - memory["visible_gib"])
    assert document["changes"]
    for change in document["changes"]:
        assert estimate(loaded.override(change["set"]))["memory"]["fits"], change["set"]


def test_a_share_of_memory_left_free_is_kept_by_searches_and_estimates() -> None:
    plan = with_changes(search={"tensor": 8}, limits={"memory_fraction": 0.7})
    document = optimize(load_plan(plan), Wanted(top=20, workers=1))
    without = optimize(load_plan(with_changes(search={"tensor": 8})), Wanted(top=1, workers=1))
    assert document["feasible"] < without["feasible"]
    for found in document["best"]:
        assert found["estimate"]["memory"]["peak_gib"] <= 0.7 * found["estimate"]["memory"]["visible_gib"]
    automatic = estimate(load_plan(plan))["memory"]
    assert automatic["peak_gib"] <= 0.7 * automatic["visible_gib"]


@pytest.mark.parametrize("axis", ["devices", "offload"])
def test_axes_that_are_not_searched_are_refused(axis: str) -> None:
    with pytest.raises(SpecError, match="not supported yet"):
        load_plan(with_changes(search={axis: [1]}))

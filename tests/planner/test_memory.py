"""The memory document: it agrees with the estimate, its parts with each other, and its advice with re-evaluation."""

from pathlib import Path
from typing import Any

import pytest

from cann_plan.planner.estimate import estimate
from cann_plan.planner.memory import memory
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

PLAN: dict[str, Any] = {
    "model": "llama-3-8b",
    "cluster": {"extends": "dgx-h100", "nodes": 1},
    "training": {"steps": 1, "sequence_length": 4096, "global_batch_size": 64},
    "parallel": {"tensor": 2, "pipeline": 2, "data": 2, "micro_batch_size": 1, "recompute": "none"},
}


def document(**changes: Any) -> dict[str, Any]:
    return memory(load_plan({**PLAN, **changes}))


def test_ranks_and_verdict_are_those_of_the_estimate() -> None:
    ours, theirs = document(), estimate(load_plan(PLAN))["memory"]
    for rank, stage in zip(ours["ranks"], theirs["stages"], strict=True):
        assert {key: rank[key] for key in stage} == stage
    for key in ("peak_gib", "verdict", "usable_gib", "visible_gib", "peak_stage"):
        assert ours[key] == theirs[key]  # type: ignore[literal-required]


@pytest.mark.parametrize(
    "parallel",
    [
        {"tensor": 2, "pipeline": 4, "data": 1, "recompute": "none"},
        {"tensor": 1, "pipeline": 4, "data": 2, "virtual_pipeline": 2, "recompute": "full"},
        {"tensor": 2, "pipeline": 1, "data": 4, "recompute": "selective"},
        {"tensor": 1, "pipeline": 4, "data": 2, "schedule": "gpipe", "recompute": "full"},
    ],
)
def test_the_timeline_peaks_where_the_closed_form_does(parallel: dict[str, Any]) -> None:
    """The walk over every pass of the peak stage finds the peak that in-flight counts give."""
    whole = document(parallel=parallel)
    rank = whole["ranks"][whole["peak_stage"]]
    highest = max(event["allocated_gib"] for event in whole["timeline"])
    boundary = 2 * 4096 * 4096 * 2 / 2**30 if parallel["pipeline"] > 1 else 0.0
    assert highest <= rank["allocated_gib"] * (1 + 1e-12)
    assert highest == pytest.approx(rank["allocated_gib"], abs=boundary + 1e-9)


def test_tensors_at_the_peak_sum_to_what_is_allocated() -> None:
    for recompute in ("none", "selective", "full"):
        whole = document(parallel={**PLAN["parallel"], "recompute": recompute})
        rank = whole["ranks"][whole["peak_stage"]]
        assert sum(item["gib"] for item in whole["top_operators"]) == pytest.approx(rank["allocated_gib"], rel=1e-9)


def test_advice_saves_what_it_says() -> None:
    whole = document()
    assert whole["advice"]
    for item in whole["advice"]:
        loaded = load_plan(PLAN, overrides=tuple(f"{path}={_yaml(value)}" for path, value in item["set"].items()))
        again = estimate(loaded)["memory"]["peak_gib"]
        assert again - whole["peak_gib"] == pytest.approx(item["delta_gib"], abs=1e-9), item["set"]


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(child) for child in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_replay_holds_the_predicted_live_bytes_and_little_more() -> None:
    whole = document()
    replay, rank = whole["replay"], whole["ranks"][whole["peak_stage"]]
    assert replay["peak_allocated_gib"] == pytest.approx(rank["allocated_gib"], rel=0.05)
    assert 0.0 <= replay["fragmentation"] < 0.15
    assert replay["fits"]


def test_phases_grow_to_the_steady_state() -> None:
    for rank in document()["ranks"]:
        phases = rank["phases"]
        assert phases["load_gib"] < phases["checkpoint_gib"] <= phases["first_update_gib"] + 1e-12
        assert phases["first_backward_gib"] < phases["backward_gib"]
        assert max(phases["forward_gib"], phases["backward_gib"], phases["update_gib"]) == pytest.approx(
            rank["allocated_gib"], rel=1e-12
        )


def test_a_device_of_which_only_the_memory_is_known_gets_a_verdict() -> None:
    plan = {
        "model": "llama-3-8b", "cluster": {"extends": "workstation", "devices": 8},
        "training": {"sequence_length": 1024, "global_batch_size": 8}, "software": "deepspeed",
        "parallel": {"data": 8, "zero_stage": 3, "recompute": "full"},
    }  # fmt: skip
    whole = memory(load_plan(plan))
    assert whole["verdict"] in ("borderline", "does_not_fit")
    assert {event["t_s"] for event in whole["timeline"]} == {None}
    assert any(warning["code"] == "rates_unknown" for warning in whole["warnings"])


def test_records_of_profilers_are_set_against_the_prediction(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(
        '{"segments": [{"total_size": 4294967296, "blocks": []}], "device_traces": [['
        '{"action": "alloc", "addr": 1, "size": 2147483648, "frames": [{"name": "linear_forward"}]},'
        '{"action": "alloc", "addr": 2, "size": 1073741824, "frames": [{"name": "scaled_dot_product_attention"}]},'
        '{"action": "free_completed", "addr": 2, "size": 1073741824},'
        '{"action": "alloc", "addr": 3, "size": 536870912, "frames": []}]]}'
    )
    found = memory(load_plan(PLAN), snapshot)["trace"]
    assert found["measured_allocated_gib"] == 3.0
    assert found["measured_reserved_gib"] == 4.0
    assert {entry["class"]: entry["measured_gib"] for entry in found["by_class"] if entry["measured_gib"]} == {
        "linear": 2.0, "attention": 1.0,
    }  # fmt: skip


def test_records_of_the_cann_profiler(tmp_path: Path) -> None:
    operators = tmp_path / "operator_memory.csv"
    operators.write_text(
        "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),"
        "Allocation Total Reserved(MB)\n"
        "aten::mm,1048576,10.0,30.0,2048,4096\nnpu_fusion_attention,524288,20.0,25.0,2560,4096\n"
        "aten::add,524288,40.0,,1024,4096\n"
    )
    found = memory(load_plan(PLAN), operators)["trace"]
    assert (found["measured_allocated_gib"], found["measured_reserved_gib"]) == (2.5, 4.0)
    by_class = {entry["class"]: entry["measured_gib"] for entry in found["by_class"] if entry["measured_gib"]}
    assert by_class == {"linear": 1.0, "attention": 0.5}
    totals = tmp_path / "memory_record.csv"
    totals.write_text(
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device\nPTA,1,100,200,NPU:0\n"
        "PTA,2,2048,3072,NPU:0\nAPP,3,0,5120,NPU:0\n"
    )
    found = memory(load_plan(PLAN), totals)["trace"]
    assert found["measured_allocated_gib"] == 2.0


def test_pickled_snapshots_are_refused(tmp_path: Path) -> None:
    pickled = tmp_path / "snapshot.pickle"
    pickled.write_bytes(b"\x80\x04N.")
    with pytest.raises(SpecError, match="runs code"):
        memory(load_plan(PLAN), pickled)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1"])
def test_the_allocator_sees_the_live_bytes_of_every_schedule(schedule: str) -> None:
    recompute = "none" if schedule == "zb-h1" else "full"  # a deferred weight gradient needs what would be replayed
    parallel = {"tensor": 1, "pipeline": 4, "data": 2, "schedule": schedule, "recompute": recompute}
    whole = document(parallel=parallel, training={**PLAN["training"], "global_batch_size": 16})
    rank = whole["ranks"][whole["peak_stage"]]
    assert whole["replay"]["peak_allocated_gib"] == pytest.approx(rank["allocated_gib"], rel=0.06)

"""Validation: error statistics, what memory decides, selection of rows and reasons for skipping."""

from pathlib import Path
from typing import Any

import pytest

from cann_plan.importers.rows import MeasuredRow, read_rows, rows_from
from cann_plan.importers.rows_plan import import_row
from cann_plan.planner.validate import read_exclusions, validate
from cann_plan.planner.validate_rows import predict, prepare_row
from cann_plan.planner.validate_statistics import by_group, statistics
from cann_plan.spec.errors import SpecError

FILE = Path(__file__).parents[1] / "data" / "measured_rows.yaml"
ROWS = {row.id: row for row in read_rows(FILE)}


def changed(name: str, section: str = "parallel", **values: Any) -> MeasuredRow:
    data = dict(ROWS[name].data)
    data[section] = {**data[section], **values}
    return rows_from([data])[0]


def test_statistics_known_answer() -> None:
    """Errors of -20, -10, +10 and +40%: sizes 10, 10, 20, 40."""
    found = statistics([-0.2, -0.1, 0.1, 0.4])
    assert found["n"] == 4
    assert found["mape"] == pytest.approx(0.2)
    assert found["median"] == pytest.approx(0.15)
    assert found["p90"] == pytest.approx(0.34)
    assert found["bias"] == pytest.approx(0.0)


def test_no_rows_have_no_statistics() -> None:
    assert statistics([]) == {"n": 0, "mape": None, "median": None, "p90": None, "bias": None}


def test_groups_hold_their_own_rows_step_time_first() -> None:
    items = [(("a", "b"), "memory", 0.5), (("a",), "step_time", -0.1), (("b",), "step_time", 0.3)]
    found = [(entry["quantity"], entry["group"], entry["bias"]) for entry in by_group(items)]
    assert found == [("step_time", "a", -0.1), ("step_time", "b", 0.3), ("memory", "a", 0.5), ("memory", "b", 0.5)]


def test_document_counts_every_row_once() -> None:
    document = validate([FILE])
    assert len(document["rows"]) + len(document["skipped"]) == len(ROWS)
    assert [row["id"] for row in document["skipped"]] == ["flops-only"]
    assert document["step_time"]["n"] == sum(row["error"]["step_time"] is not None for row in document["rows"])
    assert document["memory"]["n"] == 2


def test_error_is_predicted_over_measured_minus_one() -> None:
    (row,) = validate([ROWS["megatron-22b-full"]])["rows"]
    predicted, measured = row["predicted"]["step_time"], row["measured"]["step_time"]
    assert measured == 1.42
    assert row["error"]["step_time"] == pytest.approx(float(predicted) / 1.42 - 1)
    rate = 4 * 2048 / float(predicted) / 8
    assert row["predicted"]["tokens_per_s_per_device"] == pytest.approx(rate)


@pytest.mark.parametrize(
    ("tier", "device", "stack", "wanted"),
    [
        ("B", None, None, {"maxtext-70b", "mlperf-gpt3"}),
        (None, "b200-180g-sxm", None, {"simumax-deepseekv2"}),
        (None, None, "mindformers", {"mindformers-glm4-9b", "mindformers-lora"}),
        ("A", "ascend-910b-64g", "mindspeed-mcore", {"mindspeed-llama3-70b"}),
        ("a", "h100-96g-hbm2e", None, {"torchtitan-8b"}),
    ],
)
def test_rows_are_selected(tier: str | None, device: str | None, stack: str | None, wanted: set[str]) -> None:
    document = validate([FILE], tier=tier, device=device, stack=stack)
    assert {row["id"] for row in document["rows"]} == wanted


def test_excluded_rows_are_skipped_with_the_reason(tmp_path: Path) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_text(
        "- {id: torchtitan-8b, verdict: odd, reason: A placeholder batch. More., excluded_from_clean: true}\n"
        "- {id: maxtext-70b, verdict: explained, reason: Known., excluded_from_clean: false}\n"
    )
    document = validate([FILE], exclude=read_exclusions(odd))
    assert {"id": "torchtitan-8b", "why": "excluded: A placeholder batch"} in document["skipped"]
    assert "maxtext-70b" in {row["id"] for row in document["rows"]}


def test_unstated_recompute_is_none_where_it_may_fit_and_full_where_it_cannot() -> None:
    fits = predict(prepare_row(import_row(changed("megatron-22b-full", recompute=None, micro_batch=1))))
    large = predict(
        prepare_row(import_row(changed("megatron-22b-full", recompute=None, global_batch=64, micro_batch=64)))
    )
    policies = [
        {item["path"]: item["value"] for item in p.assumptions}["parallel.recompute.policy"] for p in (fits, large)
    ]
    assert policies == ["none", "full"]
    assert fits.breakdown_s["recompute"] == 0.0
    assert large.breakdown_s["recompute"] > 0.0


def test_adaptive_recompute_takes_the_fewest_layers_that_fit() -> None:
    notes = [f"adaptive recompute to fit {limit} MB" for limit in (200_000, 50_000, 1)]
    layers = []
    for note in notes:
        row = changed("mindspeed-llama3-70b", recompute="selective", recompute_note=note, num_layer_list=None)
        layers.append(int(predict(prepare_row(import_row(row))).strategies.recompute_layers[0]))
    assert layers[0] == 0
    assert 0 < layers[1] < 20
    assert layers[2] == 20


def test_structurally_impossible_rows_are_skipped_with_the_constraint() -> None:
    document = validate([changed("megatron-175b-interleaved", vpp=13, global_batch=64)])
    assert document["skipped"][0]["why"].startswith("fewer layers than pipeline stages")


def test_offloaded_states_leave_the_device() -> None:
    document = validate([changed("megatron-22b-full"), changed("megatron-22b-full", offload=["optimizer"])])
    memory = [row["predicted"]["memory"] for row in document["rows"]]
    assert memory[1] < memory[0]


def test_malformed_values_of_all_rows_are_reported_together() -> None:
    rows = [changed("megatron-22b-full", tp="x"), changed("torchtitan-8b", "model", layers=-1)]
    with pytest.raises(SpecError) as caught:
        validate(rows)
    assert len(caught.value.problems) == 2


def test_every_row_lists_its_assumptions() -> None:
    for row in validate([FILE])["rows"]:
        assert row["assumptions"]
        for item in row["assumptions"]:
            assert set(item) == {"path", "value", "source"}  # type: ignore[arg-type]


def test_progress_reaches_the_number_of_rows() -> None:
    seen: list[tuple[int, int | None]] = []
    validate([FILE], tier="B", on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]

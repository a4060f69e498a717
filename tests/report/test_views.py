"""The other documents: what their screens say, and that they agree with the contract."""

import csv
import io
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from cann_plan.planner.check import Checked, check
from cann_plan.report.blocks import Detail
from cann_plan.report.json_schema import document_schema
from cann_plan.report.junit import junit
from cann_plan.report.render import render
from cann_plan.report.screen import Screen

STATISTICS = {"n": 4, "mape": 0.062, "median": 0.05, "p90": 0.11, "bias": -0.02}
NONE = {"n": 0, "mape": None, "median": None, "p90": None, "bias": None}


@pytest.fixture
def checked(document: dict[str, Any]) -> dict[str, Any]:
    document["plan"]["limits"] = {"days": 400.0, "min_mfu": 0.9}
    broken = {
        "file": "b.yaml",
        "line": 3,
        "column": 5,
        "path": "training.tokns",
        "message": "unknown key",
        "allowed": None,
        "suggestion": "tokens",
    }
    return check([Checked("a.yaml", document), Checked("b.yaml", None, [broken])])  # type: ignore[arg-type, list-item, return-value]


def size(document: dict[str, Any]) -> dict[str, Any]:
    estimate = {key: value for key, value in document.items() if key not in ("plan", "explain")}
    row = {"devices": 256, "days": 386.0, "cost": 3.5e6, "fits": True, "mfu": 0.4}
    return {
        "schema": "cann-plan/size/1",
        "devices": 256,
        "nodes": 32,
        "best": {"overrides": {"parallel.tensor": 8}, "estimate": estimate},
        "table": [{**row, "devices": 128, "fits": False, "days": None, "cost": None, "mfu": None}, row],
        "limit_that_binds": "memory_fits",
    }


def validation() -> dict[str, Any]:
    return {
        "schema": "cann-plan/validate/1",
        "rows": [
            {
                "id": "run-1",
                "predicted": {"step_time": 10.5},
                "measured": {"step_time": 10.0},
                "error": {"step_time": 0.05},
                "assumptions": [],
            }
        ],
        "step_time": STATISTICS,
        "memory": NONE,
        "tpot": NONE,
        "ttft": NONE,
        "throughput": NONE,
        "by_group": [{"group": "source A", "quantity": "step_time", **STATISTICS}],
        "skipped": [{"id": "run-2", "why": "no sequence length"}],
    }


def memory(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": "cann-plan/memory/1",
        "ranks": document["memory"]["stages"],
        "timeline": [{"event": "forward", "allocated_gib": 31.5}],
        "top_operators": [{"operator": "feed-forward down projection", "saved_gib": 3.25}],
        "advice": document["recommendations"],
        "replay": None,
        "usable_gib": 40.0,
    }


def test_check_names_the_limit_that_fails(checked: dict[str, Any]) -> None:
    text = render(checked, "table", screen=Screen())
    assert "FAIL: 0 of 2 plans pass, 1 fails, 1 cannot be read" in text
    assert "a.yaml: min_mfu is 71.8 %, must be ≥ 90.0 %" in text
    assert "b.yaml: not a valid plan (1 problem(s))" in text


def test_check_as_csv_has_one_row_per_limit(checked: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render(checked, "csv"))))
    assert [(row["file"], row["verdict"], row["limit_name"], row["pass"]) for row in rows] == [
        ("a.yaml", "fail", "memory_fits", "true"),
        ("a.yaml", "fail", "days", "true"),
        ("a.yaml", "fail", "min_mfu", "false"),
        ("b.yaml", "error", "", ""),
    ]


def test_check_as_junit_counts_failures_and_errors(checked: dict[str, Any]) -> None:
    root = ElementTree.fromstring(junit(checked))
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert {
        name: (suite.get("tests"), suite.get("failures"), suite.get("errors")) for name, suite in suites.items()
    } == {
        "a.yaml": ("3", "1", "0"),
        "b.yaml": ("1", "0", "1"),
    }
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed == ["min_mfu"]


def test_size_answers_with_the_number_and_marks_what_binds(document: dict[str, Any]) -> None:
    text = render(size(document), "table", screen=Screen())
    assert "256 DEVICES (32 nodes) are enough" in text
    assert "The limit that binds: memory fits" in text


def test_size_without_an_answer_says_why(document: dict[str, Any]) -> None:
    none = {**size(document), "devices": None, "nodes": None, "best": None, "limit_that_binds": "days"}
    assert "NO NUMBER OF DEVICES is enough: days cannot be kept" in render(none, "table", screen=Screen())


def test_validate_shows_size_and_sign_of_the_error() -> None:
    text = render(validation(), "table", screen=Screen())
    row = next(line for line in text.splitlines() if line.startswith("step time"))
    assert row.split() == ["step", "time", "4", "6.2", "%", "5.0", "%", "11.0", "%", "−2.0", "%"]
    assert "run-2" not in text
    assert "run-2: no sequence length" in render(validation(), "table", screen=Screen(), detail=Detail(explain=True))


def test_memory_marks_stages_over_the_usable_memory(document: dict[str, Any]) -> None:
    text = render(memory(document), "table", screen=Screen(colour=True))
    red = [line for line in text.splitlines() if "\x1b[1;31m" in line]
    assert len(red) == 1  # only stage 0 needs more than 40 GiB
    assert "Peak 43.7 GiB on stage 0, usable 40.0 GiB" in text
    assert "feed-forward down projection" in text


def test_collective_gives_both_bandwidths() -> None:
    document = {
        "schema": "cann-plan/collective/1",
        "op": "all_reduce",
        "bytes": 2**30,
        "ranks": 8,
        "algorithm": "ring",
        "time_s": 0.02,
        "algorithm_gb_per_s": 53.687,
        "bus_gb_per_s": 93.95,
        "lower_bound_s": 0.016,
        "bottleneck": "HCCS link of rank 0",
    }
    jsonschema.validate(document, document_schema("collective", strict=True))
    text = render(document, "table", screen=Screen())
    assert "all_reduce · 1.00 GiB · 8 ranks" in text
    assert "algorithm bandwidth 53.7 GB/s · bus bandwidth 94.0 GB/s" in text


def test_the_documents_here_are_the_contract_s(document: dict[str, Any], checked: dict[str, Any]) -> None:
    for name, made in (
        ("check", checked),
        ("size", size(document)),
        ("validate", validation()),
        ("memory", memory(document)),
    ):
        jsonschema.validate(made, document_schema(name, strict=True))


@pytest.mark.parametrize("output_format", ["table", "markdown", "csv"])
def test_every_format_writes_every_view(document: dict[str, Any], checked: dict[str, Any], output_format: Any) -> None:
    for made in (document, checked, size(document), validation(), memory(document)):
        text = render(made, output_format, screen=Screen(width=80))
        assert text.endswith("\n")
        assert len(text.splitlines()) >= 3 - (output_format == "csv")

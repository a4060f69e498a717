"""`estimate`, `check` and `size` from the plan file to the exit code."""

import csv
import io
import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pexpect
import pytest

from cann_plan.report.json_schema import document_schema

from .conftest import COMMAND, Run, environment

PLAN = """\
model: llama-2-7b
cluster: {extends: atlas-900-a2, nodes: 2}
training: {tokens: 1e9, sequence_length: 4096, global_batch_size: 64, precision: bf16}
parallel: {tensor: 8, pipeline: 1, micro_batch_size: 1, zero_stage: 1, recompute: full}
"""
TOO_LARGE = "parallel={tensor: 1, pipeline: 1, micro_batch_size: 4, zero_stage: 0, recompute: none}"


@pytest.fixture
def plan(tmp_path: Path) -> str:
    (tmp_path / "plan.yaml").write_text(PLAN, encoding="utf-8")
    return "plan.yaml"


def document(call: Run, *arguments: str, **options: Any) -> dict[str, Any]:
    done = call(*arguments, "--format", "json", **options)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_document_is_the_contract_s_and_its_sums_hold(call: Run, plan: str) -> None:
    estimate = document(call, "estimate", plan)
    jsonschema.validate(estimate, document_schema("estimate", strict=True))
    time, memory = estimate["time"], estimate["memory"]
    assert math.isclose(sum(time["breakdown_s"].values()), time["step_s"], rel_tol=1e-9)
    parts = ("weights", "gradients", "optimizer", "activations", "temporaries", "logits", "communicators", "runtime")
    for stage in memory["stages"]:
        total = sum(stage[f"{part}_gib"] for part in (*parts, "fragmentation"))
        assert math.isclose(total, stage["device_gib"], rel_tol=1e-9)
    assert memory["peak_gib"] == max(stage["device_gib"] for stage in memory["stages"])


def test_standard_input_in_a_pipe_gives_the_same_answer(run: Run, call: Run, plan: str) -> None:
    assert document(run, "estimate", "-", stdin=PLAN) == document(call, "estimate", plan)


def test_overrides_reach_the_estimate(call: Run, plan: str) -> None:
    twice = document(call, "estimate", plan, "--set", "training.tokens=2e9")["time"]
    once = document(call, "estimate", plan)["time"]
    assert math.isclose(twice["total_days"], 2 * once["total_days"], rel_tol=1e-9)
    assert document(call, "estimate", plan, "--devices", "32")["parallel"]["devices"] == 32
    assert document(call, "estimate", plan, "--cluster", "dgx-a100")["memory"]["capacity_gib"] == 80


def test_a_plan_that_does_not_fit_is_still_an_answer(call: Run, plan: str) -> None:
    done = call("estimate", plan, "--set", TOO_LARGE)
    assert done.returncode == 0
    assert "DOES NOT FIT by" in done.stdout


def test_the_resolved_plan_gives_the_same_estimate(call: Run, plan: str, tmp_path: Path) -> None:
    first = document(call, "estimate", plan)
    (tmp_path / "again.json").write_text(json.dumps(first["plan"]), encoding="utf-8")
    again = document(call, "estimate", "again.json")
    assert (again["time"]["step_s"], again["memory"]["peak_gib"]) == (
        first["time"]["step_s"],
        first["memory"]["peak_gib"],
    )


def test_the_screen_in_a_terminal(plan: str, tmp_path: Path) -> None:
    shown = {}
    for name, columns, changes in (("colour", 100, {}), ("plain", 80, {"NO_COLOR": "1"})):
        child = pexpect.spawn(
            COMMAND[0],
            [*COMMAND[1:], "estimate", plan],
            cwd=str(tmp_path),
            env=environment(**changes),
            dimensions=(60, columns),
            encoding="utf-8",
            timeout=60,
        )
        shown[name] = child.read().splitlines()
        child.close()
        assert child.exitstatus == 0
    assert any("\x1b[" in line for line in shown["colour"])
    assert not any("\x1b" in line for line in shown["plain"])
    assert max(map(len, shown["plain"])) <= 80
    assert len(shown["colour"]) <= 50
    assert "Where the time goes" in "\n".join(shown["plain"])


def test_wrong_values_are_located_and_exit_2(call: Run) -> None:
    done = call("estimate", "-", stdin=PLAN.replace("sequence_length", "sequence_lenght"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("<stdin>:3:")
    assert "did you mean sequence_length?" in done.stderr


def test_a_layout_that_does_not_divide_is_the_user_s_mistake(call: Run, plan: str) -> None:
    done = call("estimate", plan, "--set", "parallel.tensor=7")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "parallel" in done.stderr


def test_check_passes_and_fails_by_exit_code(call: Run, plan: str) -> None:
    assert call("check", plan).returncode == 0
    failing = call("check", plan, "--set", "limits.days=0.001", "--format", "json")
    assert failing.returncode == 1
    checked = json.loads(failing.stdout)
    jsonschema.validate(checked, document_schema("check", strict=True))
    assert checked["plans"][0]["verdict"] == "fail"
    assert {limit["name"]: limit["pass"] for limit in checked["plans"][0]["limits"]}["days"] is False
    assert call("check", plan, "--set", TOO_LARGE).returncode == 1


def test_check_goes_on_after_a_broken_file(call: Run, plan: str, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("model: nothing-like-it\n", encoding="utf-8")
    done = call("check", "broken.yaml", plan, "missing.yaml", "--format", "json")
    assert done.returncode == 2
    assert [item["verdict"] for item in json.loads(done.stdout)["plans"]] == ["error", "pass", "error"]
    errors = json.loads(done.stderr)
    jsonschema.validate(errors, document_schema("error", strict=True))
    assert [item["file"] for item in errors["errors"]] == ["broken.yaml", "missing.yaml"]


def test_check_as_junit(call: Run, plan: str) -> None:
    root = ElementTree.fromstring(call("check", plan, "--format", "junit").stdout)
    assert [case.get("name") for case in root.iter("testcase")] == ["memory_fits"]


def test_csv_and_markdown_of_a_real_estimate(call: Run, plan: str) -> None:
    estimate = document(call, "estimate", plan)
    rows = {
        row["path"]: row["value"] for row in csv.DictReader(io.StringIO(call("estimate", plan, "-f", "csv").stdout))
    }
    assert float(rows["time.step_s"]) == estimate["time"]["step_s"]
    assert call("estimate", plan, "-f", "markdown").stdout.startswith("## llama-2-7b")


def test_size_finds_a_number_of_devices_or_says_no(call: Run, plan: str) -> None:
    automatic = PLAN.replace(", nodes: 2", "").split("parallel:")[0] + "parallel: auto\n"
    done = call("size", "-", "--max-devices", "64", "--format", "json", stdin=automatic)
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, document_schema("size", strict=True))
    assert 0 < answer["devices"] <= 64
    assert answer["best"]["estimate"]["memory"]["fits"]
    impossible = call("size", "-", "--days", "0.0001", "--max-devices", "16", stdin=automatic)
    assert impossible.returncode == 1
    assert "NO NUMBER OF DEVICES is enough" in impossible.stdout

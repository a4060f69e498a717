"""Every malformed plan gives one located, readable problem and never another kind of exception."""

import json
from pathlib import Path

import pytest

from cann_plan.spec.errors import MAX_PROBLEMS, SpecError
from cann_plan.spec.resolve import load_plan
from tests.spec.malformed_plans import CASES, Case


def problems_of(directory: Path, text: str) -> SpecError:
    (directory / "plan.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_plan(directory / "plan.yaml", unsupported=())
    return caught.value


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_malformed_plan_is_one_located_problem(tmp_path: Path, case: Case) -> None:
    error = problems_of(tmp_path, case.text)
    assert len(error.problems) == 1, error.render()
    problem = error.problems[0]
    assert problem.file == str(tmp_path / "plan.yaml")
    assert (problem.line, problem.column, problem.path) == (case.line, case.column, case.path)
    assert problem.message.startswith(case.message)
    assert problem.suggestion == case.suggestion
    assert str(problem).startswith(f"{tmp_path}/plan.yaml:{case.line}:{case.column}: ")


def test_all_problems_of_a_file_are_reported_in_its_order(tmp_path: Path) -> None:
    error = problems_of(
        tmp_path,
        "model: lama-2-70b\n"
        "cluster: {extends: atlas-900-a2, nods: 32}\n"
        "training: {seq_len: 4096, tokens: 1e9, steps: 3, precision: fp17}\n"
        "parallel: {tensor: 0, recompute: {policy: none, layers: yes}}\n"
        "memory: {pool_gib: 58 GX}\n",
    )
    assert [(p.line, p.path) for p in error.problems] == [
        (1, "model"),
        (2, "cluster.nods"),
        (3, "training"),
        (3, "training.seq_len"),
        (3, "training.precision"),
        (4, "parallel.tensor"),
        (4, "parallel.recompute"),
        (4, "parallel.recompute.layers"),
        (5, "memory.pool_gib"),
    ]


def test_problems_as_json_follow_the_error_document(tmp_path: Path) -> None:
    error = problems_of(tmp_path, "model: llama-2-7b\nparallel: {tp: 8}\n")
    document = json.loads(json.dumps(error.as_dict()))
    assert document["schema"] == "cann-plan/error/1"
    (item,) = document["errors"]
    assert set(item) == {"file", "line", "column", "path", "message", "allowed", "suggestion"}
    assert (item["line"], item["column"], item["path"], item["suggestion"]) == (2, 12, "parallel.tp", "tensor")


def test_a_flood_of_problems_is_cut(tmp_path: Path) -> None:
    keys = "\n".join(f"  wrong{i}: 1" for i in range(1000))
    error = problems_of(tmp_path, f"model: llama-2-7b\ntraining:\n{keys}\n")
    assert len(error.problems) == MAX_PROBLEMS
    assert error.omitted == 900
    assert error.render().endswith("... and 900 more")


def test_texts_of_absurd_length_are_cut(tmp_path: Path) -> None:
    error = problems_of(tmp_path, f"model: llama-2-7b\n{'k' * 1000}: 1\ntraining: {{precision: {'x' * 100_000}}}\n")
    assert all(len(line) < 2000 for line in error.render().splitlines())

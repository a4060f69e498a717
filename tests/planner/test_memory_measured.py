"""Memory against measured runs and reported outcomes: states within 2%, peaks within 6%, every verdict right."""

from pathlib import Path
from typing import Any

import pytest

from cann_plan.importers.memory_cases import memory_case, read_cases
from cann_plan.importers.memory_rows import all_memory_rows, memory_row
from cann_plan.planner.validate_cases import case_verdict, validate_cases
from cann_plan.planner.validate_memory import compare_memory, validate_memory

DATA = Path(__file__).parents[1] / "data"
ROWS = {str(row["id"]): row for row in all_memory_rows([DATA / "memory_rows.yaml"])}
CASES = {str(case["id"]): case for case in read_cases(DATA / "memory_cases.yaml")}


@pytest.mark.parametrize("name", ROWS)
def test_states_and_peaks_of_the_test_suites(name: str) -> None:
    """MindSpeed-LLM's and Megatron-LM's own tests record what their allocators held."""
    for found in compare_memory(memory_row(ROWS[name])):
        if found.judged:
            bound = 0.06 if found.quantity == "peak" or found.measured_gib < 1.0 else 0.02
            assert abs(found.error) < bound, (found.quantity, found.predicted_gib, found.measured_gib)


@pytest.mark.parametrize("name", CASES)
def test_reported_outcomes(name: str) -> None:
    verdict = case_verdict(memory_case(CASES[name]))
    assert verdict["agrees"], verdict


def test_a_run_may_fail_for_host_memory_alone() -> None:
    """One device with ZeRO-3 offload and 744 GiB of host memory: DeepSpeed's estimate asks for 18 x 1.5 bytes."""
    verdict = case_verdict(memory_case(CASES["lf-6755"]))
    assert verdict["device_gib"] < verdict["visible_gib"]
    assert verdict["host_gib"] == pytest.approx(32.76e9 * 18 * 1.5 / 2**30, rel=0.01)
    assert verdict["host_gib"] > verdict["host_capacity_gib"]


def test_documents_count_and_list_what_is_missed() -> None:
    rows = validate_memory([DATA / "memory_rows.yaml"])
    assert rows["peak"]["n"] >= 10
    assert rows["static"]["median"] < 0.02
    cases: dict[str, Any] = validate_cases([DATA / "memory_cases.yaml"])
    assert cases["out_of_memory"]["called"] == cases["out_of_memory"]["n"] == 9
    assert cases["misses"] == []

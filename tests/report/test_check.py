"""`check`: what passes, what fails, and that a gate which cannot see stays shut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.planner.check import Checked, check, check_estimate, exit_code


def result(document: dict[str, Any], **limits: float) -> dict[str, Any]:
    """The result of the last limit."""
    return dict(check_estimate(document, limits)[-1])


def test_memory_is_a_limit_even_when_none_is_stated(document: dict[str, Any]) -> None:
    document["plan"]["limits"] = {}
    document["memory"].update(fits=False, verdict="does_not_fit")
    plans = check([Checked("a.yaml", document)])["plans"]  # type: ignore[arg-type]
    assert plans[0]["verdict"] == "fail"
    assert [limit["name"] for limit in plans[0]["limits"]] == ["memory_fits"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("days", lambda d: d["time"]["total_days"]),
        ("goodput_days", lambda d: d["time"]["goodput_days"]),
        ("cost", lambda d: d["cost"]["amount"]),
        ("kwh", lambda d: d["energy"]["kwh"]),
        ("memory_fraction", lambda d: d["memory"]["peak_gib"] / 60.97),
        ("host_memory_fraction", lambda d: 212.5 / 1024),
        ("max_devices", lambda d: 256),
    ],
)
def test_an_upper_limit_is_kept_up_to_and_including_it(document: dict[str, Any], name: str, value: Any) -> None:
    exact = value(document)
    kept = result(document, **{name: exact})
    assert (kept["name"], kept["limit"], kept["value"], kept["pass"]) == (name, exact, exact, True)
    assert not result(document, **{name: exact * 0.999})["pass"]


@pytest.mark.parametrize("name", ["min_mfu", "min_tokens_per_s_per_device"])
def test_a_lower_limit_is_kept_from_it_on(document: dict[str, Any], name: str) -> None:
    exact = document["time"][name.removeprefix("min_")]
    assert result(document, **{name: exact})["pass"]
    assert not result(document, **{name: exact * 1.001})["pass"]


def test_an_unknown_value_fails_with_its_reason(document: dict[str, Any]) -> None:
    document["cost"]["amount"] = None
    failed = result(document, cost=1e9)
    assert failed["pass"] is False
    assert failed["reason"] == "the price is unknown"


def test_confidence_takes_the_unfavourable_end_of_the_interval(document: dict[str, Any]) -> None:
    days, mfu = document["time"]["total_days"], document["time"]["mfu"]
    assert result(document, confidence=0.8, days=days * 1.125)["value"] == pytest.approx(days * 1.125)
    assert not result(document, confidence=0.8, days=days * 1.12)["pass"]
    assert result(document, confidence=0.8, min_mfu=mfu)["value"] == pytest.approx(mfu / 1.125)
    # Memory does not follow step time.
    assert result(document, confidence=0.8, memory_fraction=0.9)["value"] == document["memory"]["peak_gib"] / 60.97


def test_a_confidence_nobody_computed_is_not_assumed(document: dict[str, Any]) -> None:
    failed = result(document, confidence=0.95, days=1e9)
    assert failed["pass"] is False
    assert failed["reason"] == "no interval of 95% confidence"


def test_an_unknown_limit_is_an_error(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown limit 'speed'; allowed: days"):
        check_estimate(document, {"speed": 1.0})


def test_an_unreadable_plan_outranks_a_failing_one(document: dict[str, Any]) -> None:
    passing, broken = Checked("a", document), Checked("b")  # type: ignore[arg-type]
    document["plan"]["limits"] = {}
    assert exit_code(check([passing])) == 0
    assert exit_code(check([passing], {"days": 1.0})) == 1
    assert exit_code(check([passing, broken], {"days": 1.0})) == 2
    assert [plan["verdict"] for plan in check([broken, passing])["plans"]] == ["error", "pass"]


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e6))
def test_loosening_a_limit_never_turns_a_pass_into_a_fail(low: float, high: float) -> None:
    low, high = sorted((low, high))
    estimate = {
        "plan": {},
        "time": {"total_days": 100.0, "interval": None, "step_s": 1.0},
        "memory": {"peak_gib": 0.5, "headroom_gib": 0.5, "fits": True, "verdict": "fits", "peak_stage": 0},
        "cost": {"currency": None},
    }
    assert result(estimate, days=low)["pass"] <= result(estimate, days=high)["pass"]

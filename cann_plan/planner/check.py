"""Holding plans to their limits: the verdict a continuous-integration job needs.

Every limit that a plan states must hold, and its memory must fit whether or not it states a limit. A limit whose value
is unknown (a cost limit without a price) counts as not kept: a gate that cannot see must not open.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from cann_plan.planner.contract import CheckDocument, CheckedPlan, ErrorItem, EstimateDocument, LimitResult
from cann_plan.records import dataclass

FITS = "memory_fits"


@dataclass(frozen=True, slots=True)
class Checked:
    """One plan file: its estimate, or what is wrong with the file."""

    file: str
    estimate: EstimateDocument | None = None
    errors: Sequence[ErrorItem] = ()


@dataclass(frozen=True, slots=True)
class _Limit:
    """How a limit reads the estimate: value or None, the sign of "more is worse", its unit, how it follows step time.

    `time_power` 1: proportional to step time, -1: inversely, 0: independent.
    """

    value: Callable[[Mapping[str, Any]], float | None]
    worse: Literal["more", "less"]
    unit: str
    time_power: int = 0
    unknown: str = "unknown"


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


_LIMITS: dict[str, _Limit] = {
    "days": _Limit(lambda e: e["time"]["total_days"], "more", "days", 1, "no amount of training is stated"),
    "goodput_days": _Limit(lambda e: e["time"]["goodput_days"], "more", "days", 1, "goodput is unknown"),
    "cost": _Limit(lambda e: e["cost"]["amount"], "more", "currency", 1, "the price is unknown"),
    "kwh": _Limit(lambda e: e["energy"]["kwh"], "more", "kWh", 1, "the power is unknown"),
    # Worst-rank device memory over what the framework can see.
    "memory_fraction": _Limit(
        lambda e: _ratio(e["memory"]["peak_gib"], e["memory"]["visible_gib"]), "more", "fraction"
    ),
    "host_memory_fraction": _Limit(
        lambda e: _ratio(e["memory"]["host_per_node_gib"], e["memory"]["host_capacity_gib"]),
        "more",
        "fraction",
        unknown="host memory or its capacity is unknown",
    ),
    "min_mfu": _Limit(lambda e: e["time"]["mfu"], "less", "fraction", -1),
    "min_tokens_per_s_per_device": _Limit(
        lambda e: e["time"]["tokens_per_s_per_device"], "less", "tokens/s/device", -1
    ),
    "max_devices": _Limit(lambda e: e["parallel"]["devices"], "more", "devices"),
}


def check(plans: Sequence[Checked], limits: Mapping[str, float] | None = None) -> CheckDocument:
    """Hold each plan to the limits in its own `limits:` section, overridden by `limits` (same keys and units).

    With a `confidence` limit, everything that follows step time is taken at the unfavourable end of the interval, and
    fails if there is no interval of at least that confidence.

    Raises:
        ValueError: a limit that does not exist.
    """
    return {"schema": "cann-plan/check/1", "plans": [_check_one(plan, limits or {}) for plan in plans]}


def exit_code(document: CheckDocument) -> int:
    """0 when every plan passes, 2 when a file was no plan, else 1 when a plan fails."""
    verdicts = {plan["verdict"] for plan in document["plans"]}
    return 2 if "error" in verdicts else 1 if "fail" in verdicts else 0


def _check_one(plan: Checked, overrides: Mapping[str, float]) -> CheckedPlan:
    if plan.estimate is None:
        return {"file": plan.file, "verdict": "error", "limits": [], "errors": list(plan.errors)}
    results = check_estimate(plan.estimate, {**stated_limits(plan.estimate), **overrides})
    return {
        "file": plan.file,
        "verdict": "pass" if all(result["pass"] for result in results) else "fail",
        "limits": results,
    }


def stated_limits(estimate: Mapping[str, Any]) -> dict[str, float]:
    """The limits in the resolved plan, in the units that their keys name."""
    limits = estimate["plan"].get("limits") or {}
    return {name: value for name, value in limits.items() if value is not None}


def check_estimate(estimate: Mapping[str, Any], limits: Mapping[str, float]) -> list[LimitResult]:
    """The result of every limit, memory first. `limits` may hold `confidence`.

    Raises:
        ValueError: a limit that does not exist.
    """
    confidence = limits.get("confidence")
    results = [_fits(estimate)]
    for name, limit in limits.items():
        if name == "confidence":
            continue
        if name not in _LIMITS:
            raise ValueError(f"unknown limit {name!r}; allowed: {', '.join([*_LIMITS, 'confidence'])}")
        results.append(_hold(name, limit, _LIMITS[name], estimate, confidence))
    return results


def _fits(estimate: Mapping[str, Any]) -> LimitResult:
    memory = estimate["memory"]
    return {
        "name": FITS,
        "limit": memory["peak_gib"] + memory["headroom_gib"],
        "value": memory["peak_gib"],
        "pass": bool(memory["fits"]),
        "unit": "GiB",
        "reason": f"stage {memory['peak_stage']}: {memory['verdict'].replace('_', ' ')}",
    }


def _hold(
    name: str, limit: float, reading: _Limit, estimate: Mapping[str, Any], confidence: float | None
) -> LimitResult:
    value = reading.value(estimate)
    reason: str | None = None if value is not None else reading.unknown
    if value is not None and confidence is not None and reading.time_power:
        interval, step = estimate["time"]["interval"], estimate["time"]["step_s"]
        if interval is None or interval["confidence"] < confidence:
            reason = f"no interval of {confidence:.0%} confidence"
        else:
            stretch = interval["high_s"] / step
            value = value * stretch if reading.time_power > 0 else value / stretch
            reason = f"unfavourable end of the {interval['confidence']:.0%} interval of step time"
            confidence = None
    unsure = confidence is not None and reading.time_power != 0
    kept = value is not None and not unsure and (value <= limit if reading.worse == "more" else value >= limit)
    unit = estimate["cost"]["currency"] if name == "cost" else reading.unit
    return {"name": name, "limit": limit, "value": value, "pass": kept, "unit": unit, "reason": reason}

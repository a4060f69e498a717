"""`cann-plan check`: which plan fails which limit."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.blocks import Block, Column, Detail, Table, Tone, Verdict, View

_RECORDS = (
    Column("file", "Plan"),
    Column("verdict", "Verdict"),
    Column("limit_name", "Limit"),
    Column("limit", "Allowed", "number"),
    Column("value", "Value", "number"),
    Column("unit", "Unit"),
    Column("pass", "Kept"),
    Column("reason", "Note"),
)
_SHOWN = (
    Column("file", "Plan"),
    Column("limit_name", "Limit"),
    Column("value", "Value", "number"),
    Column("limit", "Allowed", "number"),
    Column("pass", "Result"),
    Column("reason", "Note"),
)
_UPPER = {"min_mfu", "min_tokens_per_s_per_device"}


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """One row per plan and limit."""
    plans = document["plans"]
    failed = [plan for plan in plans if plan["verdict"] == "fail"]
    broken = [plan for plan in plans if plan["verdict"] == "error"]
    tone: Tone = "good" if not failed and not broken else "bad"
    summary = Verdict("check", tone, _headline(plans, failed, broken), [_why(plan) for plan in [*failed, *broken]])
    shown: list[list[object]] = []
    tones: list[Tone] = []
    for plan in plans:
        for index, result in enumerate(plan["limits"]):
            shown.append(_shown(plan["file"] if index == 0 else "", result))
            tones.append("plain" if result["pass"] else "bad")
    blocks: list[Block] = [summary] if detail.brief or not shown else [summary, Table("", _SHOWN, shown, tones)]
    return View(blocks, Table("", _RECORDS, [row for plan in plans for row in _records(plan)]))


def _headline(plans: Sequence[Any], failed: Sequence[Any], broken: Sequence[Any]) -> str:
    passed = len(plans) - len(failed) - len(broken)
    parts = [f"{passed} of {len(plans)} plan{'s' if len(plans) != 1 else ''} pass{'es' if passed == 1 else ''}"]
    if failed:
        parts.append(f"{len(failed)} fail{'s' if len(failed) == 1 else ''}")
    if broken:
        parts.append(f"{len(broken)} cannot be read")
    return ("PASS: " if passed == len(plans) else "FAIL: ") + ", ".join(parts)


def _why(plan: Mapping[str, Any]) -> str:
    if plan["verdict"] == "error":
        return f"{plan['file']}: not a valid plan ({len(plan.get('errors', []))} problem(s))"
    return f"{plan['file']}: " + "; ".join(_sentence(result) for result in plan["limits"] if not result["pass"])


def _sentence(result: Mapping[str, Any]) -> str:
    if result["name"] == "memory_fits":
        return f"needs {numbers.gib(result['value'])} of {numbers.gib(result['limit'])}"
    sign = "≥" if result["name"] in _UPPER else "≤"
    value = _amount(result, result["value"])
    text = f"{result['name']} is {value}, must be {sign} {_amount(result, result['limit'])}"
    return f"{text} ({result['reason']})" if result.get("reason") else text


def _shown(file: str, result: Mapping[str, Any]) -> list[object]:
    sign = "≥" if result["name"] in _UPPER else "≤"
    return [
        file,
        result["name"],
        _amount(result, result["value"]),
        f"{sign} {_amount(result, result['limit'])}",
        "ok" if result["pass"] else "FAIL",
        result.get("reason"),
    ]


def _amount(result: Mapping[str, Any], value: float | None) -> str:
    unit = result.get("unit")
    if value is None:
        return numbers.UNKNOWN
    if unit == "GiB":
        return numbers.gib(value)
    if unit == "fraction":
        return numbers.percent(value)
    if unit == "days":
        return numbers.days(value)
    if unit == "devices":
        return f"{value:,.0f} devices"
    if result["name"] == "cost":
        return numbers.money(value, unit)
    return f"{numbers.plain(float(value))} {unit}" if unit else numbers.plain(float(value))


def _records(plan: Mapping[str, Any]) -> list[list[object]]:
    if plan["verdict"] == "error":
        reasons = "; ".join(item["message"] for item in plan.get("errors", []))
        return [[plan["file"], "error", None, None, None, None, None, reasons]]
    return [
        [
            plan["file"],
            plan["verdict"],
            result["name"],
            result["limit"],
            result["value"],
            result.get("unit"),
            result["pass"],
            result.get("reason"),
        ]
        for result in plan["limits"]
    ]

"""An imported plan as a YAML document with its report in comments, or both as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cann_plan.report.json_text import clean, write

_WIDTH = 100


def as_json(plan: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """`{schema, plan, report}`."""
    return write({"schema": "cann-plan/import/1", "plan": plan, "report": report})


def as_yaml(plan: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """The plan, which `estimate` reads as it is, under the report in comments."""
    import yaml

    body = yaml.dump(
        clean(plan), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, allow_unicode=True,
        default_flow_style=None, width=_WIDTH,
    )  # fmt: skip
    lines = [f"# {line}".rstrip() for line in _comments(report)]
    return "\n".join([*lines, ""] if lines else []) + ("\n" if lines else "") + str(body)


def _comments(report: Mapping[str, Any]) -> Iterator[str]:
    for text in report.get("warnings", ()):
        yield f"warning: {_one_line(text)}"
    for item in report.get("assumptions", ()):
        yield f"assumed: {item['path']} = {_one_line(item['value'])} ({_one_line(item['source'])})"
    for item in report.get("unknown", ()):
        yield f"not in the plan: {item['argument']} {_value(item['value'])}({_one_line(item['why'])})"
    ignored = report.get("ignored", ())
    if ignored:
        yield f"no effect: {_one_line(', '.join(str(item['argument']) for item in ignored), 2000)}"


def _value(value: Any) -> str:
    return "" if value is True else f"{_one_line(value)} "


def _one_line(value: Any, size: int = 200) -> str:
    """Text that cannot leave its comment line."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(value)).split())
    return text if len(text) <= size else text[: size - 3] + "..."

"""A fitted profile as a YAML document that `software.stack` reads, under its residuals in comments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cann_plan.report import numbers
from cann_plan.report.json_text import clean

_WIDTH = 100


def write(document: Mapping[str, Any]) -> str:
    """The profile of a `cann-plan/calibrate/1` document."""
    import yaml

    body = yaml.dump(
        clean(document["profile"]), Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False,
        allow_unicode=True, default_flow_style=None, width=_WIDTH,
    )  # fmt: skip
    lines = [f"# {' '.join(line.split())}" for line in _comments(document)]
    return "\n".join([*lines, str(body)])


def _comments(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"Fitted by cann-plan calibrate: {document['stack']} on {document['device']}."
    for text in document["warnings"]:
        yield f"warning: {text}"
    for row in document["residuals"]:
        yield (
            f"run {row['id']}: measured {numbers.plain(row['measured_s'])} s, predicted "
            f"{numbers.plain(row['predicted_s'])} s ({row['error']:+.1%}, before {row['error_before']:+.1%})"
        )
    for item in document["skipped"]:
        yield f"skipped {item['id']}: {item['why']}"

"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OutputFormat(StrEnum):
    """How a document is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def complete_cluster(incomplete: str) -> list[str]:
    """Cluster presets that start with `incomplete`."""
    from cann_plan.spec.presets import names

    return [name for name in names("clusters") if name.startswith(incomplete)]


def complete_plan(incomplete: str) -> list[str]:
    """Plan presets and YAML files that start with `incomplete`."""
    from cann_plan.spec.presets import names

    folder = Path(incomplete).parent
    files = [str(path) + ("/" if path.is_dir() else "") for path in sorted(folder.glob("*"))] if folder.is_dir() else []
    wanted = [name for name in files if name.endswith(("/", ".yaml", ".yml", ".json"))]
    return [name for name in [*names("plans"), *wanted] if name.startswith(incomplete)]


Plan = Annotated[
    str,
    typer.Argument(
        metavar="PLAN", help="Plan file, preset name, or - for standard input.", autocompletion=complete_plan
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="NAME", help="Cluster preset that replaces the plan's.", autocompletion=complete_cluster
    ),
]
Devices = Annotated[int | None, typer.Option("--devices", metavar="N", min=1, help="Number of devices.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a value, e.g. training.tokens=2e12. Repeatable."),
]
Format = Annotated[
    OutputFormat | None,
    typer.Option("--format", "-f", help="Output format (default: table, or the ending of --output)."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show every number with its formula, inputs and source.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only; no progress.")]

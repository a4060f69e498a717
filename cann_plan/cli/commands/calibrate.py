"""`cann-plan calibrate`: a profile from measured runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options


class ProfileFormat(StrEnum):
    """yaml: the profile alone, as plans name it; the others report the fit."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def command(
    rows: Annotated[list[Path], typer.Argument(metavar="ROWS.yaml...", help="Files with measured runs, or -.")],
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="Only runs on this device.")] = None,
    stack: Annotated[str | None, typer.Option("--stack", metavar="NAME", help="Only runs of this stack.")] = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="TIERS", help="Only runs of these quality tiers, e.g. A or AB.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the profile.")] = None,
    format_: Annotated[
        ProfileFormat | None,
        typer.Option("--format", "-f", help="Output format (default: table, or the ending of --output)."),
    ] = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> int:
    """Fit a software profile to measured runs.

    All runs are of one device and stack. The shipped profile is the starting point, so that one or two runs are enough
    to begin with. Save the profile with --output profile.yaml and name that file in a plan as software.stack (or
    cluster.profile).
    """
    from cann_plan.cli.output import emit, write_text
    from cann_plan.cli.progress import progress
    from cann_plan.planner.calibrate import calibrate

    with progress("fitting", quiet=quiet) as done:
        document = calibrate(rows, device=device, stack=stack, tier=tier, name=name, on_progress=done)
    by_ending = format_ is None and output is not None and output.suffix.lower() in (".yaml", ".yml")
    if by_ending or format_ is ProfileFormat.YAML:
        from cann_plan.report import profile_text

        write_text(profile_text.write(document), output)
    else:
        emit(document, format_, output, quiet=quiet)
    return 0

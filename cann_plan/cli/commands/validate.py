"""`cann-plan validate`: predictions against measured runs."""

from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    rows: Annotated[list[Path], typer.Argument(metavar="ROWS.yaml...", help="Files with measured runs, or -.")],
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="TIERS", help="Only rows of these quality tiers, e.g. A or AB.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="Only rows on this device.")] = None,
    stack: Annotated[str | None, typer.Option("--stack", metavar="NAME", help="Only rows of this stack.")] = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: Annotated[bool, typer.Option("--explain", help="List every row, not the summary only.")] = False,
    quiet: options.Quiet = False,
) -> int:
    """Compare predictions with measured runs.

    The error is predicted / measured - 1. The summary has its size (mean, median, 90th percentile) and its sign (bias).
    """
    from cann_plan.cli.output import emit
    from cann_plan.cli.progress import progress
    from cann_plan.planner.validate import validate

    with progress("comparing runs", quiet=quiet) as done:
        document = validate(rows, tier=tier, device=device, stack=stack, on_progress=done)
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0

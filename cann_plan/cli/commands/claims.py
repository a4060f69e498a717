"""`cann-plan claims`: the figures of the source document, computed again."""

from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID...]", help="Claims to compute (default: all).")
    ] = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every figure, assumption and reason.")] = False,
    quiet: options.Quiet = False,
) -> int:
    """Compute the source document's claims again.

    Each claim has a shipped plan (`cann-plan presets show plans/claim-...`); `reached_if` means: under the assumptions
    shown, and not otherwise. Exit code 0 whatever the verdicts are.
    """
    from cann_plan.cli.output import emit
    from cann_plan.cli.progress import progress
    from cann_plan.planner.claims import claims

    with progress("computing claims", quiet=quiet) as done:
        document = claims(tuple(ids or ()), on_progress=done)
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0

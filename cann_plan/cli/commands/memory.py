"""`cann-plan memory`: will it fit, why, and what makes it fit."""

from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    plan: options.Plan,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE",
            help="Memory record of a real run to compare with: memory_record.csv, operator_memory.csv or a snapshot "
            "as JSON.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the timeline of a step to FILE (png, svg, pdf).")
    ] = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: options.Explain = False,
    quiet: options.Quiet = False,
) -> int:  # fmt: skip
    """Show where memory goes and what would save most.

    Every pipeline rank by component, one step over time, the largest tensors at the peak, recomputation by budget, and
    changes ranked by what they save.

    Exit code 0 whatever the answer is; `check` turns the answer into an exit code.
    """
    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.memory import memory

    loaded = load(plan, cluster, devices, set_)
    with progress("searching layouts", quiet=quiet) as done:
        document = memory(loaded, trace, on_progress=done)
    if plot is not None:
        from cann_plan.report.memory_plot import plot_timeline

        try:
            plot_timeline(document, plot)
        except ValueError as error:
            raise InputError(str(error), file=str(plot)) from error
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0

"""`cann-plan size`: the fewest devices that keep every limit."""

from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    plan: options.Plan,
    days: Annotated[float | None, typer.Option("--days", min=0, help="Longest training time, in days.")] = None,
    cost: Annotated[float | None, typer.Option("--cost", min=0, help="Largest cost, in the plan's currency.")] = None,
    max_devices: Annotated[int | None, typer.Option("--max-devices", min=1, help="Largest number of devices.")] = None,
    clusters: Annotated[
        str | None,
        typer.Option("--clusters", metavar="A,B", help="Cluster presets to choose the cheapest among."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw days and cost over devices (png, svg, pdf).")
    ] = None,
    cluster: options.Cluster = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> int:
    """Find the fewest devices that keep all limits.

    The plan must fit in memory and keep its deadline, its budget and its other limits, each with the best layout.

    Exit code 1 when no number of devices does.
    """
    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.size import size

    limits = {"limits.goodput_days": days, "limits.cost": cost, "limits.max_devices": max_devices}
    overrides = [*(set_ or []), *(f"{path}={value:g}" for path, value in limits.items() if value is not None)]
    names = [name.strip() for name in (clusters or "").split(",") if name.strip()]
    with progress("trying numbers of devices", quiet=quiet) as done:
        document = size(load(plan, cluster, None, overrides), on_progress=done, clusters=names)
    if plot is not None:
        from cann_plan.report.plot_size import plot_size

        try:
            plot_size(document, plot)
        except (ValueError, OSError) as error:
            raise InputError(f"cannot draw: {error}", file=str(plot)) from error
    emit(document, format_, output, quiet=quiet)
    return 0 if document["devices"] is not None else 1

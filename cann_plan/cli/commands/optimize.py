"""`cann-plan optimize`: the best layouts out of all that a framework would start."""

from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    plan: options.Plan,
    top: Annotated[int | None, typer.Option("--top", min=1, help="How many layouts to report (default 5).")] = None,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> int:
    """Find the best layouts of a plan's job on its cluster.

    Exit code 1 when no layout fits.
    """
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.optimize import optimize

    loaded = load(plan, cluster, devices, set_)
    with progress("searching layouts", quiet=quiet) as done:
        document = optimize(loaded, top, on_progress=done)
    emit(document, format_, output, quiet=quiet)
    return 0 if document["best"] else 1

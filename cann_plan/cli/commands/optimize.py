"""`cann-plan optimize`: the best plan out of all that a framework would start."""

from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    plan: options.Plan,
    top: Annotated[int | None, typer.Option("--top", min=1, help="How many layouts to report (default 5).")] = None,
    objective: Annotated[
        str | None,
        typer.Option("--objective", metavar="NAME", help="time, days, cost, energy or memory (default time)."),
    ] = None,
    pareto: Annotated[
        str | None,
        typer.Option("--pareto", metavar="A,B", help="Every layout that none beats in both, e.g. time,memory."),
    ] = None,
    near: Annotated[
        bool, typer.Option("--near", help="Which single change to the plan's own layout helps most.")
    ] = False,
    usual: Annotated[
        bool, typer.Option("--usual", help="Only the usual layouts: 1F1B or interleaved, even stages. Quicker.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes (default: the cores). No other result.")
    ] = None,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: Annotated[bool, typer.Option("--explain", help="The winner against the runner-up, term by term.")] = False,
    quiet: options.Quiet = False,
) -> int:
    """Find the best layouts of a plan's job on its cluster.

    Axes are fixed, listed or bounded in the plan: --set search.tensor=8, --set 'search.pipeline={max: 16}'.

    Exit code 1 when no layout fits.
    """
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.optimize import Wanted, optimize

    changes = {"search.objective": objective, "search.pareto": f"[{pareto}]" if pareto else None}
    stated = [f"{path}={value}" for path, value in changes.items() if value is not None]
    loaded = load(plan, cluster, devices, [*(set_ or []), *stated])
    wanted = Wanted(top, near=near, explain=explain, usual=usual, workers=workers)
    with progress("searching layouts", quiet=quiet, unit="layouts") as done:
        document = optimize(loaded, wanted, on_progress=done)
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0 if document["best"] else 1

"""`cann-plan compare-topologies`: which network for a plan, and why."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options

LEAST_RATE = 1e6
"""Bytes/s below which an injection is taken for a number whose unit was forgotten."""


class Equal(StrEnum):
    """What all networks have in common."""

    INJECTION = "injection"
    COST = "cost"


class Place(StrEnum):
    """Where the servers of the job lie."""

    COMPACT = "compact"
    RANDOM = "random"


def command(
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLAN]",
            help="Plan file, preset name, or -; without one, a dense 100B model on 1,024 Ascend 910B.",
            autocompletion=options.complete_plan,
        ),
    ] = None,
    topologies: Annotated[
        str | None,
        typer.Option(
            "--topologies",
            "-t",
            metavar="A,B",
            help="Names, files (edge list, Ascend topology JSON, YAML description) or all.",
        ),
    ] = None,
    devices: options.Devices = None,
    cluster: options.Cluster = None,
    equal: Annotated[Equal, typer.Option("--equal", help="Equal injection bandwidth or equal network cost.")] = (
        Equal.INJECTION
    ),
    injection: Annotated[
        str | None, typer.Option("--injection", metavar="RATE", help="Bandwidth of a device, e.g. 400 Gbit/s.")
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option("--routing", metavar="R", help="minimal, ecmp, valiant, adaptive (default) or topology-aware."),
    ] = None,
    placement: Annotated[Place, typer.Option("--placement", help="Servers in rank order, or at random.")] = (
        Place.COMPACT
    ),
    prices: Annotated[
        str | None, typer.Option("--prices", metavar="FILE", help="Price table (see presets/topologies/prices.yaml).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the comparison to FILE (png, svg, pdf).")
    ] = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show parts, routing, collectives, assumptions.")] = False,
    quiet: options.Quiet = False,
) -> int:
    """Compare scale-out networks for a plan.

    Only the network between servers is replaced. Each network runs the plan with its layout held and with the best
    layout for it; steps within 1% count as equal and the cheaper network comes first.
    """
    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.compare_topologies import compare_topologies
    from cann_plan.planner.topology_words import DEFAULT_PLAN, default_overrides, topologies_of
    from cann_plan.units import Dimension, UnitError, parse

    rate = None
    if injection is not None:
        try:
            rate = parse(injection, Dimension.BANDWIDTH)
        except UnitError as error:
            raise InputError(f"--injection: {error.message}", allowed=error.allowed) from error
        if rate < LEAST_RATE:
            raise InputError(f"--injection: {injection} is below 1 MB/s", allowed="a rate with its unit, 400 Gbit/s")
    chosen = topologies_of(topologies)
    overrides = [*(default_overrides(devices) if plan is None else []), *(set_ or [])]
    with progress("comparing networks", quiet=quiet) as done:
        document = compare_topologies(
            load(plan or DEFAULT_PLAN, cluster, devices, overrides), chosen, equal=equal.value, routing=routing,
            placement=placement.value, prices=prices, injection=rate, on_progress=done,
        )  # fmt: skip
    if plot is not None:
        from cann_plan.report.plot_topologies import plot_topologies

        try:
            plot_topologies(document, plot)
        except ValueError as error:
            raise InputError(str(error)) from error
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0

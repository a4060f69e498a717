"""`cann-plan export`: a plan as the document another tool starts from."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cann_plan.cli import options


class Target(StrEnum):
    """Documents that can be written."""

    MEGATRON = "megatron"
    MINDSPEED = "mindspeed"
    MINDFORMERS = "mindformers"


def command(
    target: Annotated[Target, typer.Argument(metavar="megatron|mindspeed|mindformers", help="What to write.")],
    plan: options.Plan,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
    ] = None,
) -> int:
    """Write a launch script or configuration for a plan.

    A layout that the plan leaves open is found as `estimate` does. What the other tool cannot express is said in
    comments at the top.
    """
    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import write_text
    from cann_plan.cli.plans import load
    from cann_plan.exporters.launch_arguments import ExportError
    from cann_plan.planner.resolved import resolved_plan

    spec, hardware = resolved_plan(load(plan, cluster, devices, set_))
    try:
        if target is Target.MINDFORMERS:
            from cann_plan.exporters.mindformers import export_mindformers

            text = export_mindformers(spec, hardware).text
        else:
            from cann_plan.exporters.megatron import export_launch

            text = export_launch(spec, hardware, "megatron" if target is Target.MEGATRON else "mindspeed").text
    except ExportError as error:
        raise InputError(str(error), file=plan) from None
    write_text(text, output)
    return 0

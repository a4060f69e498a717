"""`cann-plan schema`: JSON Schemas of the plan file and of every output."""

from typing import Annotated

import typer

from cann_plan.cli import options

_INPUTS = ("plan", "model", "cluster", "server", "device")  # documents that a user writes


def _names() -> list[str]:
    from cann_plan.planner.contract import DOCUMENTS

    return [*_INPUTS, *DOCUMENTS]


def _complete(incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete)]


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=_complete,
            help="plan (default), model, cluster, server or device; a command; or error.",
        ),
    ] = "plan",
    output: options.Output = None,
) -> int:
    """Print the JSON Schema of a plan or an output.

    Point an editor at the plan's schema to get completion and checking while writing a plan.
    """
    from difflib import get_close_matches

    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import write_text
    from cann_plan.report import json_text

    if name in _INPUTS:
        from cann_plan.spec.schema import document_schema as input_schema

        write_text(json_text.write(input_schema(name)), output)
        return 0
    if name not in _names():
        close = get_close_matches(name, _names(), n=1)
        raise InputError(
            f"no schema named {name!r}", allowed=", ".join(_names()), suggestion=close[0] if close else None
        )
    from cann_plan.report.json_schema import document_schema

    write_text(json_text.write(document_schema(name)), output)
    return 0

"""`cann-plan explain`: where the numbers of an estimate come from."""

from typing import Annotated

import typer

from cann_plan.cli import options


def command(
    plan: options.Plan,
    term: Annotated[
        str | None, typer.Argument(metavar="TERM", help="A number or a group, e.g. memory.weights_gib or time.")
    ] = None,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
) -> int:
    """Show the formula, inputs and source of each number."""
    from difflib import get_close_matches

    from cann_plan.cli.failure import InputError
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import load
    from cann_plan.planner.explain import explain

    loaded = load(plan, cluster, devices, set_)
    document = explain(loaded, term)
    if term and not document["terms"]:
        known = [item["term"] for item in explain(loaded)["terms"]]
        close = get_close_matches(term, known, n=1, cutoff=0.4)
        raise InputError(f"no number named {term!r}", allowed=", ".join(known), suggestion=close[0] if close else None)
    emit(document, format_, output)
    return 0

"""`cann-plan estimate`: time, memory and cost of a plan."""

from cann_plan.cli import options


def command(
    plan: options.Plan,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    format_: options.Format = None,
    output: options.Output = None,
    explain: options.Explain = False,
    quiet: options.Quiet = False,
) -> int:
    """Estimate time, memory and cost of a plan.

    Exit code 0 whatever the answer is; `check` turns the answer into an exit code.
    """
    from cann_plan.cli.output import emit
    from cann_plan.cli.plans import estimate_document, load
    from cann_plan.cli.progress import progress

    loaded = load(plan, cluster, devices, set_)
    with progress("searching layouts", quiet=quiet) as done:
        document = estimate_document(loaded, explain=explain, on_progress=done)
    emit(document, format_, output, explain=explain, quiet=quiet)
    return 0

"""`cann-plan check`: the gate for continuous integration."""

from enum import StrEnum
from typing import Annotated

import typer

from cann_plan.cli import options


class CheckFormat(StrEnum):
    """Formats of `check`: those of every command, and JUnit XML for CI test reports."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    JUNIT = "junit"


def command(
    plans: Annotated[
        list[str],
        typer.Argument(metavar="PLAN...", help="Plan files, preset names, or -.", autocompletion=options.complete_plan),
    ],
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    set_: options.Overrides = None,
    format_: Annotated[
        CheckFormat | None,
        typer.Option("--format", "-f", help="Output format (default: table, or the ending of --output)."),
    ] = None,
    output: options.Output = None,
    quiet: options.Quiet = False,
) -> int:
    """Check that plans fit in memory and keep their limits.

    Limits are those in each plan's `limits:` section; add or change one with `--set limits.days=30`. Exit code 0 when
    every plan passes, 1 when one fails, 2 when a file is no valid plan (the others are still checked).
    """
    from cann_plan.cli.failure import input_errors, report
    from cann_plan.cli.output import emit, write_text
    from cann_plan.cli.plans import estimate_document, load
    from cann_plan.cli.progress import progress
    from cann_plan.planner.check import Checked, check, exit_code

    checked = []
    problems = []
    with progress("checking plans", quiet=quiet) as done:
        for index, source in enumerate(plans):
            try:
                document = estimate_document(load(source, cluster, devices, set_))
                checked.append(Checked(source, document))  # type: ignore[arg-type]
            except Exception as error:
                found = input_errors(error)
                if found is None:
                    raise
                problems += found
                checked.append(Checked(source, None, found))
            done(index + 1, len(plans))
    result = check(checked)
    if format_ == CheckFormat.JUNIT:
        from cann_plan.report.junit import junit

        write_text(junit(result), output)
    else:
        emit(result, format_, output, quiet=quiet)
    if problems:
        report(problems, as_json=format_ == CheckFormat.JSON)
    return exit_code(result)

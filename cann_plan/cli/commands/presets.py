"""`cann-plan presets`: the models, devices, servers, clusters, profiles and plans that ship with the tool."""

from typing import Annotated

import typer

from cann_plan.cli import options

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True, help="List and show the presets that ship with the tool.")
def root(context: typer.Context) -> None:
    """Without a sub-command, the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _kinds(incomplete: str) -> list[str]:
    from cann_plan.planner.presets import kinds

    return [kind for kind in kinds() if kind.startswith(incomplete)]


def _names(incomplete: str) -> list[str]:
    from cann_plan.spec.presets import KINDS, names

    known = sorted({name for kind in KINDS for name in names(kind)})
    return [name for name in known if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, alias or kind/name.", autocompletion=_names)]


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="models, devices, clusters, ...", autocompletion=_kinds)
    ] = None,
    format_: options.Format = None,
    output: options.Output = None,
) -> int:
    """List presets, all or of one kind."""
    from cann_plan.cli.output import emit
    from cann_plan.planner.presets import list_presets

    emit(list_presets(kind), format_, output)
    return 0


@app.command()
def show(name: Name, format_: options.Format = None, output: options.Output = None) -> int:
    """Show a preset with the sources of its figures."""
    from cann_plan.cli.output import emit
    from cann_plan.planner.presets import show_preset

    emit(show_preset(name), format_, output)
    return 0


@app.command()
def path(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Default: the folder of all.", autocompletion=_names)
    ] = None,
) -> int:
    """Print where a preset's file is."""
    from cann_plan.cli.output import write_text
    from cann_plan.planner.presets import find_preset
    from cann_plan.spec.presets import root as folder

    write_text(f"{find_preset(name).path if name else folder()}\n", None)
    return 0

"""The Typer application: finds the command files, imports only the one that is asked for."""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from cann_plan.cli import commands

HELP = """Plan the training and serving of large models on Ascend NPU and GPU clusters, without touching the cluster.

Write a plan (a few lines of YAML), then ask how long it takes, what it costs, whether it fits and what to change.
"""
# Order in `--help`: the questions in the order people ask them. Commands not listed here follow by name.
_ORDER = (
    "estimate",
    "check",
    "size",
    "optimize",
    "memory",
    "compare-topologies",
    "collective",
    "diff",
    "sweep",
    "serve",
    "explain",
    "claims",
    "validate",
    "calibrate",
    "import",
    "export",
    "presets",
    "schema",
)


class CommandFiles(MutableMapping[str, Any]):
    """Command name -> click command; the file behind a name is imported when the command is first looked up."""

    def __init__(self) -> None:
        folder = Path(next(iter(commands.__path__)))
        # A trailing underscore keeps `import_.py` apart from the keyword.
        self._modules = {
            file.stem.rstrip("_").replace("_", "-"): file.stem
            for file in folder.glob("*.py")
            if not file.stem.startswith("_")
        }
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module = import_module(f"{commands.__name__}.{self._modules[name]}")
            if hasattr(module, "app"):
                loaded = typer.main.get_command(module.app)
            else:
                single = typer.Typer(add_completion=False, rich_markup_mode=None)
                single.command(name)(module.command)
                loaded = typer.main.get_command(single)
            loaded.name = name
            self._loaded[name] = loaded
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands cannot be removed")

    def __iter__(self) -> Iterator[str]:
        names = {*self._modules, *self._loaded}
        return iter(sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)))

    def __len__(self) -> int:
        return len({*self._modules, *self._loaded})


class LazyGroup(typer.core.TyperGroup):
    """A group whose commands are files."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandFiles()

    def list_commands(self, ctx: Any) -> list[str]:
        """Names only: the files stay unread."""
        return list(self.commands)


app = typer.Typer(
    name="cann-plan",
    cls=LazyGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cann_plan import __version__

        typer.echo(f"cann-plan {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the whole application; without a command, its help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())

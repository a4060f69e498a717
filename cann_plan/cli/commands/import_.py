"""`cann-plan import`: plans from what other tools read."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cann_plan.cli import options

if TYPE_CHECKING:
    from cann_plan.importers.imported import Imported

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ImportFormat(StrEnum):
    """yaml: a plan with the report as comments; json: both as data."""

    YAML = "yaml"
    JSON = "json"


Format = Annotated[
    ImportFormat | None,
    typer.Option("--format", "-f", help="Output format (default: yaml, or the ending of --output)."),
]
Model = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="Model preset or file that replaces the shape arguments.")
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the plan.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="File to read, or - for standard input.")]


@app.callback(invoke_without_command=True, help="Make a plan from the files of another tool.")
def root(context: typer.Context) -> None:
    """Without a sub-command, the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def hf(
    file: Annotated[str, typer.Argument(metavar="FILE", help="config.json, its directory, or - for standard input.")],
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    name: Name = None,
    format_: Format = None,
    output: options.Output = None,
) -> int:
    """Read a Hugging Face config.json.

    It states the model alone: everything else is left to the planner.
    """
    from cann_plan.importers.hf import HfConfigError, hf_fields
    from cann_plan.importers.imported import Notes
    from cann_plan.spec.errors import Problem, SpecError

    try:
        fields = hf_fields(_json(file) if file == "-" else file)
    except HfConfigError as error:
        said = str(error).removeprefix(f"{error.path}: ").removeprefix(f"{Path(file).name} ")
        raise SpecError([Problem(file, None, None, error.path or None, said)]) from None
    notes = Notes()
    for path, why in dict(fields.get("assumptions") or {}).items():
        notes.assume(f"model.{path}", fields.get(path), why)
    plan: dict[str, Any] = {"name": name or fields.get("name"), "model": {**fields}}
    if cluster or devices:
        plan["cluster"] = {"extends": cluster or "atlas-900-a2", "devices": devices}
    return _write(notes.imported(plan), format_, output, file)


@app.command()
def megatron(
    file: File,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    model: Model = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", min=1, help="Vocabulary size, where the tokenizer alone states it.")
    ] = None,
    stack: Annotated[
        str | None, typer.Option("--stack", help="megatron, mindspeed-mcore, mindspeed-legacy or ascendspeed.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="Value of a script variable, e.g. NNODES=32. Repeatable."),
    ] = None,
    context_kind: Annotated[
        str | None, typer.Option("--context-kind", help="ring or ulysses, where --context-parallel-algo is absent.")
    ] = None,
    name: Name = None,
    format_: Format = None,
    output: options.Output = None,
) -> int:
    """Read a Megatron-LM or MindSpeed launch script.

    Also scripts of ModelLink and a YAML of arguments. A script is read, never run: variables, arrays, defaults and
    arithmetic are followed; command substitution, conditionals and loops are not.
    """
    from cann_plan.importers.megatron import Options, import_megatron

    chosen = Options(
        cluster=cluster, model=model, devices=devices, stack=stack, vocabulary=vocabulary, name=name,
        variables=_pairs(variables), context_kind=context_kind,
    )  # fmt: skip
    return _write(import_megatron(_text(file) if file == "-" else Path(file), chosen), format_, output, file)


@app.command()
def mindformers(
    file: File,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    name: Name = None,
    format_: Format = None,
    output: options.Output = None,
) -> int:
    """Read a training configuration of MindFormers."""
    from cann_plan.importers.mindformers import Options, import_mindformers

    return _write(import_mindformers(file, Options(cluster, devices, name)), format_, output, file)


@app.command()
def deepspeed(
    file: File,
    model: Model = None,
    cluster: options.Cluster = None,
    devices: options.Devices = None,
    sequence_length: Annotated[
        int | None, typer.Option("--sequence-length", min=1, help="Tokens of one sequence.")
    ] = None,
    name: Name = None,
    format_: Format = None,
    output: options.Output = None,
) -> int:
    """Read a DeepSpeed configuration.

    It does not describe the model: give --model.
    """
    from cann_plan.importers.deepspeed import Options, import_deepspeed

    chosen = Options(model, cluster, devices, sequence_length, name)
    return _write(import_deepspeed(file, chosen), format_, output, file)


def _write(imported: "Imported", format_: ImportFormat | None, output: Path | None, file: str) -> int:
    """Write the plan; what it cannot be made of is an error."""
    from cann_plan.cli.output import write_text
    from cann_plan.report.imported import as_json, as_yaml
    from cann_plan.spec.errors import Problem, SpecError

    if imported.refused:
        raise SpecError([Problem(file, None, None, None, reason) for reason in imported.refused])
    implied = ImportFormat.JSON if output is not None and output.suffix == ".json" else ImportFormat.YAML
    chosen = format_ or implied
    write_text(as_json(imported.plan, imported.report()) if chosen == ImportFormat.JSON else
               as_yaml(imported.plan, imported.report()), output)  # fmt: skip
    return 0


def _pairs(texts: list[str] | None) -> dict[str, str]:
    from cann_plan.cli.failure import InputError

    pairs = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"--var {text[:60]}: expected NAME=VALUE", allowed="for example NNODES=32")
        pairs[name] = value
    return pairs


def _text(file: str) -> str:
    import sys

    from cann_plan.cli.failure import InputError
    from cann_plan.importers.script_errors import MAX_SCRIPT

    data = sys.stdin.buffer.read(4 * MAX_SCRIPT + 1)
    if not data.strip():
        raise InputError("standard input is empty", file=file)
    return data.decode("utf-8-sig", errors="replace") + "\n"


def _json(file: str) -> dict[str, Any]:
    from cann_plan.spec.document import read

    plain = read(file).plain()
    return plain if isinstance(plain, dict) else {}

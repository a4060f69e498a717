"""Where launch arguments come from: a mapping, a list of words, a launch script or a test case's YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import from_mapping, parse_arguments
from cann_plan.importers.script import Command, Script, read_script
from cann_plan.importers.script_errors import MAX_SCRIPT, ScriptError
from cann_plan.spec.document import parse_text
from cann_plan.spec.errors import Problem, SpecError
from cann_plan.spec.node import Source

_TELLING: Final = frozenset({
    "num-layers", "hidden-size", "num-attention-heads", "tensor-model-parallel-size", "pipeline-model-parallel-size",
    "micro-batch-size", "global-batch-size", "seq-length",
})  # fmt: skip
LAUNCHER_COUNTS: Final = frozenset({"nnodes", "nproc-per-node", "num-nodes", "num-gpus"})


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch: the program's arguments, the launcher's own, the program, the environment.

    `words`: everything said, for recognising the stack; `scheduler`: options of the batch system.
    """

    arguments: Mapping[str, tuple[str, ...]]
    launcher: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entry: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    words: str = ""


def read_launch(source: Mapping[str, Any] | Sequence[str] | str | Path, notes: Notes,
                variables: Mapping[str, str] | None = None) -> Launch:  # fmt: skip
    """The launch in a mapping, a list of words, or a text or file (script, or YAML with MODEL_ARGS).

    Raises:
        SpecError: the file cannot be read, or holds no launch.
    """
    if isinstance(source, Mapping):
        return _from_mapping(source)
    if not isinstance(source, str | Path):
        words = [str(word) for word in source]
        return _from_words(words, words=" ".join(words))
    path = _path(source)
    if path is None:
        return _from_text(str(source), "<script>", None, notes, variables or {})
    try:
        if path.stat().st_size > 4 * MAX_SCRIPT:
            raise _error(str(path), "is too large for a launch script")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise _error(str(path), error.strerror or str(error)) from None
    if path.suffix in (".yaml", ".yml", ".json"):
        document = parse_text(text, Source(str(path), path.parent), json=path.suffix == ".json").plain()
        if not isinstance(document, Mapping):
            raise _error(str(path), "expected a mapping of launch arguments")
        return _from_mapping(document, path.parent.name if path.stem == "model_config" else path.stem)
    return _from_text(text, str(path), path.stem, notes, variables or {})


def _path(source: str | Path) -> Path | None:
    """The file `source` names, None for the text of a script."""
    if isinstance(source, Path):
        return source
    if "\n" in source or len(source) > 4096:
        return None
    path = Path(source)
    try:
        if path.exists():
            return path
    except (OSError, ValueError):
        return None
    return None if " " in source.strip() else path


def _error(file: str, message: str, line: int | None = None) -> SpecError:
    return SpecError([Problem(file, line, None, None, message)])


def _from_mapping(data: Mapping[str, Any], name: str | None = None) -> Launch:
    """Arguments alone, or sections `args` and `env` (also MODEL_ARGS and ENV_VARS) beside each other."""
    arguments = data.get("MODEL_ARGS", data.get("args", data))
    environment = data.get("ENV_VARS", data.get("env")) or {}
    if not isinstance(arguments, Mapping):
        words = arguments.split() if isinstance(arguments, str) else [str(item) for item in arguments or ()]
        found, _ = parse_arguments(words)
    else:
        found = from_mapping(arguments)
    own = {str(key): str(value) for key, value in environment.items()} if isinstance(environment, Mapping) else {}
    launcher = {key: found.pop(key) for key in list(found) if key in LAUNCHER_COUNTS}
    return Launch(found, launcher, environment=own, name=name)


def _from_words(said: Sequence[str], **rest: Any) -> Launch:
    """A command line; words that hold a whole command (bash -c "...") are taken apart."""
    flat = [piece for word in said for piece in (word.split() if " --" in f" {word}" and " " in word else [word])]
    entry = next((index for index, word in enumerate(flat) if word.endswith(".py") and not word.startswith("-")), None)
    launcher: dict[str, tuple[str, ...]] = {}
    if entry is not None:
        launcher, _ = parse_arguments(flat[:entry])
    arguments, _ = parse_arguments(flat[entry + 1 :] if entry is not None else flat)
    for key in list(arguments):
        if key in LAUNCHER_COUNTS:
            launcher.setdefault(key, arguments[key])
            del arguments[key]
    return Launch(arguments, launcher, entry=flat[entry] if entry is not None else "", **rest)


def _from_text(text: str, file: str, stem: str | None, notes: Notes, variables: Mapping[str, str]) -> Launch:
    try:
        script = read_script(text, variables)
    except ScriptError as error:
        raise _error(file, f"cannot be read as a launch script: {error.message}", error.line) from None
    chosen = _choose(script, notes)
    if chosen is None:
        words = _leftover_words(script)
        if not words:
            raise _error(file, "no command with launch arguments was found")
        notes.warn("no command starts a program with launch arguments: every list of arguments in the file is taken")
        command = Command(tuple(words), {}, 0, False)
    else:
        command = chosen
    if script.sourced:
        notes.warn(f"reads other files, which were not followed: {', '.join(script.sourced[:5])}")
    if script.unsettled:
        shown = ", ".join(f"{name} (line {line})" for name, line in list(script.unsettled.items())[:8])
        notes.warn(f"conditionals, loops and functions are not run; they would assign {shown}")
    environment = {**script.variables, **command.environment}
    return _from_words(
        command.words, words=text[:200_000], environment=environment, scheduler=script.scheduler, name=stem
    )  # fmt: skip


def _choose(script: Script, notes: Notes) -> Command | None:
    """The command that starts the training: the one that says most about a model and a layout."""
    ranked = [(_score(command), not command.conditional, command) for command in script.commands]
    candidates = [item for item in ranked if item[0] > 0]
    if not candidates:
        return None
    firm = [item for item in candidates if item[1]] or candidates
    best = max(firm, key=lambda item: item[0])[2]
    if best.conditional:
        notes.warn(f"the command on line {best.line} stands in a conditional, loop or function")
    others = [item[2].line for item in firm if item[2] is not best]
    if others:
        notes.warn(f"several commands start training: line {best.line} is read, not {', '.join(map(str, others[:5]))}")
    return best


def _score(command: Command) -> int:
    text = [piece for word in command.words for piece in (word.split() if " " in word else (word,))]
    names = {piece.lstrip("-").replace("_", "-").split("=")[0] for piece in text if piece.startswith("--")}
    return len(names & _TELLING)


def _leftover_words(script: Script) -> list[str]:
    words: list[str] = []
    for values in (*((value,) for value in script.variables.values()), *script.arrays.values()):
        pieces = [piece for value in values for piece in value.split()]
        if any(piece.startswith("--") for piece in pieces):
            words += pieces
    return words

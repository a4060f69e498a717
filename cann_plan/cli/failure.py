"""What goes wrong, said in one block per problem on stderr, as text or as the error document."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_plan.planner.contract import ErrorDocument, ErrorItem

# Errors of floors below that blame the input, with `message`, and where they know them `path`, `allowed`, `suggestion`.
_INPUT_ERRORS = (
    ("cann_plan.planner.assumptions", "PlanError"),
    ("cann_plan.planner.presets", "PresetError"),
)


class InputError(Exception):
    """Wrong input found by the command line itself, such as an option value."""

    def __init__(
        self, message: str, *, file: str | None = None, allowed: str | None = None, suggestion: str | None = None
    ) -> None:
        super().__init__(message)
        self.items = [error_item(message, file=file, allowed=allowed, suggestion=suggestion)]


def error_item(
    message: str,
    *,
    file: str | None = None,
    line: int | None = None,
    column: int | None = None,
    path: str | None = None,
    allowed: str | None = None,
    suggestion: str | None = None,
) -> ErrorItem:
    """One problem as the contract has it."""
    return {
        "file": file,
        "line": line,
        "column": column,
        "path": path,
        "message": message,
        "allowed": allowed,
        "suggestion": suggestion,
    }


def input_errors(error: BaseException) -> list[ErrorItem] | None:
    """The problems in `error` if the input is to blame, None if we are."""
    if isinstance(error, InputError):
        return error.items
    problems = spec_problems(error)
    if problems is not None:
        return problems
    if hasattr(error, "format_message"):  # click's and typer's usage errors
        return [_usage_item(error)]
    for module, name in _INPUT_ERRORS:
        if _is_a(error, module, name):
            return [
                error_item(
                    str(getattr(error, "message", error)),
                    path=getattr(error, "path", None),
                    allowed=getattr(error, "allowed", None),
                    suggestion=getattr(error, "suggestion", None),
                )
            ]
    if isinstance(error, OSError) and error.filename is not None:
        return [error_item(error.strerror or str(error), file=os.fsdecode(error.filename))]
    return None


def spec_problems(error: BaseException) -> list[ErrorItem] | None:
    """The located problems of a `SpecError`, None for any other exception."""
    if not isinstance(error, Exception) or not _is_a(error, "cann_plan.spec.errors", "SpecError"):
        return None
    problems, omitted = error.problems, error.omitted  # type: ignore[attr-defined]
    items: list[ErrorItem] = [
        error_item(
            problem.message,
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path=problem.path,
            allowed=problem.allowed,
            suggestion=problem.suggestion,
        )
        for problem in problems
    ]
    if omitted:
        items.append(error_item(f"and {omitted} more problems"))
    return items


def _is_a(error: BaseException, module: str, name: str) -> bool:
    # Looked up, not imported: nobody can have raised the error of a module that is not loaded.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(error, kind)


def _usage_item(error: Any) -> ErrorItem:
    message = str(error.format_message()).strip().replace("Value error, ", "").rstrip(".")
    suggestion = None
    option = getattr(error, "option_name", None)
    if option is not None and type(error).__name__ == "NoSuchOption":
        message = f"no such option: {option}"
        suggestion = next(iter(getattr(error, "possibilities", None) or _close_options(error, str(option))), None)
    guess = re.search(r"^(.*?)\.? Did you mean '([^']+)'", message)
    if guess:
        message, suggestion = guess.group(1), guess.group(2)
    return error_item(message[:1].lower() + message[1:], suggestion=suggestion)


def _close_options(error: Any, option: str) -> list[str]:
    command = getattr(getattr(error, "ctx", None), "command", None)
    known = [name for parameter in getattr(command, "params", []) for name in parameter.opts]
    return get_close_matches(option, known, n=1)


def usage_hint(error: BaseException) -> str | None:
    """Which `--help` to read, for usage errors."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None)
    return f"try '{path} --help'" if path else None


def report(items: Sequence[ErrorItem], *, as_json: bool, hint: str | None = None) -> None:
    """Print the problems on stderr."""
    if as_json:
        document: ErrorDocument = {"schema": "cann-plan/error/1", "errors": list(items)}
        _print(json.dumps(document, indent=2, default=str))
        return
    for item in items:
        _print(line_of(item))
    if hint:
        _print(hint)


def line_of(item: ErrorItem) -> str:
    """`file:line:column: path: what is wrong; allowed: ...; did you mean ...?`"""
    place = item["file"] or ""
    if place and item["line"] is not None:
        place += f":{item['line']}"
        if item["column"] is not None:
            place += f":{item['column']}"
    head = ": ".join(part for part in (place or "error", item["path"], item["message"]) if part)
    parts = [head]
    if item["allowed"]:
        parts.append(f"allowed: {item['allowed']}")
    if item["suggestion"]:
        parts.append(f"did you mean {item['suggestion']}?")
    return "; ".join(parts)


def report_bug(error: BaseException, *, as_json: bool) -> None:
    """One line that asks for a report; the traceback only with CANN_PLAN_DEBUG=1."""
    debug = os.environ.get("CANN_PLAN_DEBUG", "") not in ("", "0")
    if debug:
        _print("".join(traceback.format_exception(error)).rstrip())
    text = " ".join(str(error).split())[:300]
    message = f"internal error ({type(error).__name__}: {text}); this is a bug of cann-plan, please report it"
    if not debug:
        message += " with the plan and the output of the same command under CANN_PLAN_DEBUG=1"
    report([error_item(message)], as_json=as_json)


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, read without parsing since parsing may be what failed."""
    return any(
        argument == "--format=json" or (argument in ("--format", "-f") and argv[index + 1 : index + 2] == ["json"])
        for index, argument in enumerate(argv)
    )


def is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of our output went away."""
    return isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.errno == errno.EPIPE)


def _print(text: str) -> None:
    try:
        print(text, file=sys.stderr)
    except UnicodeEncodeError:
        print(text.encode("ascii", "backslashreplace").decode("ascii"), file=sys.stderr)

"""Writing one document: to standard output, or to a file that is complete or absent."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cann_plan.cli.failure import InputError, is_broken_pipe
from cann_plan.report.blocks import Detail
from cann_plan.report.render import Format, render
from cann_plan.report.screen import Screen

_ENDINGS: dict[str, Format] = {".json": "json", ".csv": "csv", ".md": "markdown"}
_PIPE_WIDTH = 100


def emit(
    document: Mapping[str, Any],
    output_format: str | None,
    output: Path | None,
    *,
    explain: bool = False,
    quiet: bool = False,
) -> None:
    """Write `document`; without a format the ending of `output` decides, otherwise it is a table."""
    chosen = choose_format(output_format, output)
    text = render(document, chosen, screen=screen_for(output), detail=Detail(explain=explain, brief=quiet))
    write_text(text, output)


def choose_format(output_format: str | None, output: Path | None) -> Format:
    """The format asked for, or the one that the file name implies."""
    if output_format is not None:
        return str(output_format)  # type: ignore[return-value]  # the option's enumeration has the same values
    return _ENDINGS.get(output.suffix, "table") if output is not None else "table"


def screen_for(output: Path | None) -> Screen:
    """The terminal behind standard output; a plain page of 100 columns for a pipe or a file."""
    if output is not None:
        return Screen(width=_PIPE_WIDTH)
    if sys.stdout is None:
        return Screen(width=_PIPE_WIDTH)
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((_PIPE_WIDTH, 50)).columns if terminal else _columns() or _PIPE_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(width=width, colour=colour, unicode=is_unicode(sys.stdout.encoding))


def is_unicode(encoding: str | None) -> bool:
    """Whether bars and box lines survive `encoding`."""
    return (encoding or "ascii").lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf32", "cp65001")


def _columns() -> int | None:
    value = os.environ.get("COLUMNS", "")
    return int(value) if value.isdigit() and int(value) > 0 else None


def write_text(text: str, output: Path | None) -> None:
    """Write to standard output (a reader that is gone is no error) or replace `output` in one step.

    Raises:
        InputError: the file cannot be written.
    """
    if output is None:
        try:
            _write_stdout(text)
        except OSError as error:
            if not is_broken_pipe(error):
                raise InputError(f"cannot write standard output: {error.strerror or error}") from error
        return
    try:
        _replace(text, output)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", file=str(output)) from error


def _write_stdout(text: str) -> None:
    if sys.stdout is None:  # closed by the caller: cann-plan ... >&-
        raise InputError("cannot write standard output: it is closed")
    if not is_unicode(sys.stdout.encoding):
        with contextlib.suppress(AttributeError, ValueError):
            sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()


def _replace(text: str, output: Path) -> None:
    if output.exists() and not output.is_file():  # /dev/stdout, a named pipe
        output.write_text(text, encoding="utf-8")
        return
    target = output.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

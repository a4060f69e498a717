"""Entry point: runs a command and turns what it raises into messages and exit codes.

Exit codes: 0 answered (or the answer is yes), 1 the answer is no, 2 the input is wrong, 70 a bug of cann-plan,
130 interrupted.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Sequence

EXIT_NO = 1
EXIT_INPUT = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


LIVE_OBJECTS = 200_000
"""Containers made before the first search for cycles among them; an estimate makes 105,000, most of which stay."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cann-plan` with `arguments` and return the exit code; without, those of a process of its own."""
    if arguments is not None:
        return _answer(list(arguments))
    # Importing and building schemas makes objects that live until the end: looking for cycles among them, time and
    # again and once more at exit, takes a fifth of the time of an estimate.
    gc.set_threshold(LIVE_OBJECTS, 10, 10)
    try:
        return _answer(sys.argv[1:])
    finally:
        gc.freeze()


def _answer(argv: list[str]) -> int:
    try:
        code = _run(argv)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    _flush()
    return code


def _run(argv: list[str]) -> int:
    from cann_plan.cli import failure

    try:
        import typer.main

        from cann_plan.cli.app import app

        result = typer.main.get_command(app).main(args=argv, prog_name="cann-plan", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (KeyboardInterrupt, EOFError):
        return EXIT_INTERRUPTED
    except Exception as error:
        if isinstance(error, typer.Abort):
            return EXIT_INTERRUPTED
        if failure.is_broken_pipe(error):
            return 0
        items = failure.input_errors(error)
        if items is not None:
            failure.report(items, as_json=failure.wants_json(argv), hint=failure.usage_hint(error))
            return EXIT_INPUT
        failure.report_bug(error, as_json=failure.wants_json(argv))
        return EXIT_BUG


def _flush() -> None:
    # A reader such as `head` may be gone by now; Python would complain about it while shutting down.
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # the reader is gone, or the disk is full, which has been said already
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())

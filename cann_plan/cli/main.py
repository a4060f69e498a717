"""Entry point: runs a command and turns what it raises into messages and exit codes.

Exit codes: 0 answered (or the answer is yes), 1 the answer is no, 2 the input is wrong, 70 a bug of cann-plan,
130 interrupted.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

EXIT_NO = 1
EXIT_INPUT = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cann-plan` with `arguments` (default: the process's own) and return the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
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
            stream.flush()
        except BrokenPipeError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())

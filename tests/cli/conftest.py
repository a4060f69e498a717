import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cann_plan.cli.main import main

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = (sys.executable, "-m", "cann_plan.cli.main")


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment without what steers output, plus `changes` (None removes)."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CANN_PLAN_DEBUG", "PYTHONIOENCODING", "PYTHONUTF8")
    }
    clean.update({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    for key, value in changes.items():
        if value is None:
            clean.pop(key, None)
        else:
            clean[key] = value
    return clean


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `cann-plan` in a pipe, in an empty folder."""

    def start(
        *arguments: str, stdin: str | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env=env or environment(),
            timeout=60,
            check=False,
        )

    return start


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `cann-plan` in this process, in an empty folder: for what does not depend on the process around it."""
    monkeypatch.chdir(tmp_path)

    def start(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        code = main(arguments)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, shown.out, shown.err)

    return start

"""Where output goes and in what shape: pipe, file, terminal."""

import csv
import io
import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import jsonschema
import pexpect
import pytest

from cann_plan.report.json_schema import document_schema

from .conftest import COMMAND, Run, environment

LIST = ("presets", "list", "clusters")


def in_terminal(arguments: tuple[str, ...], columns: int = 100, **changes: str | None) -> str:
    """What `cann-plan` writes to a pseudo-terminal."""
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], *arguments],
        env=environment(**changes),
        dimensions=(50, columns),
        encoding="utf-8",
        timeout=60,
    )
    text = child.read()
    child.close()
    assert child.exitstatus == 0
    return text.replace("\r\n", "\n")


def test_a_pipe_gets_no_colour_and_stderr_stays_empty(run: Run) -> None:
    done = run(*LIST)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_terminal_gets_colour_unless_it_says_no() -> None:
    assert "\x1b[" in in_terminal(LIST)
    assert "\x1b" not in in_terminal(LIST, NO_COLOR="1")
    assert "\x1b" not in in_terminal(LIST, TERM="dumb")


@pytest.mark.parametrize("columns", [80, 100])
def test_a_terminal_s_width_is_kept(columns: int) -> None:
    lines = in_terminal(LIST, columns, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= columns


def test_a_terminal_without_unicode_gets_ascii(run: Run) -> None:
    done = run(*LIST, env=environment(PYTHONIOENCODING="ascii"))
    assert done.returncode == 0
    assert done.stdout.isascii()


def test_json_csv_and_markdown_parse(call: Run) -> None:
    document = json.loads(call(*LIST, "--format", "json").stdout)
    jsonschema.validate(document, document_schema("presets", strict=True))
    rows = list(csv.DictReader(io.StringIO(call(*LIST, "--format", "csv").stdout)))
    assert [row["name"] for row in rows] == [item["name"] for item in document["presets"]]
    table = call(*LIST, "--format", "markdown").stdout.splitlines()
    assert len(table) == len(rows) + 2
    assert {line.replace("\\|", "").count("|") for line in table} == {4}


def test_json_loses_nothing_where_utf8_cannot_go(run: Run) -> None:
    command = ("presets", "show", "devices/a100-80g-sxm", "--format", "json")
    plan = 'model: llama-2-7b\n"模型": 1\n'
    assert json.loads(run(*command, env=environment(PYTHONIOENCODING="ascii")).stdout) == json.loads(
        run(*command).stdout
    )
    done = run("estimate", "-", "--format", "json", stdin=plan, env=environment(PYTHONIOENCODING="ascii:strict"))
    assert done.returncode == 2
    assert json.loads(done.stderr)["errors"][0]["path"] == "模型"


def test_the_ending_of_the_file_chooses_the_format(call: Run, tmp_path: Path) -> None:
    assert call(*LIST, "--output", "list.json").stdout == ""
    assert json.loads((tmp_path / "list.json").read_text(encoding="utf-8"))["schema"] == "cann-plan/presets/1"
    call(*LIST, "--output", "list.md")
    assert (tmp_path / "list.md").read_text(encoding="utf-8").startswith("| Kind |")


def test_a_file_is_replaced_whole_and_keeps_its_mode(call: Run, tmp_path: Path) -> None:
    target = tmp_path / "list.txt"
    target.write_text("old")
    target.chmod(0o640)
    before = target.stat().st_ino
    call(*LIST, "--output", str(target))
    assert target.read_text(encoding="utf-8") == call(*LIST).stdout
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.stat().st_ino != before  # a new file took the name: no reader ever sees half a document
    assert [path.name for path in tmp_path.iterdir()] == ["list.txt"]


def test_a_failed_command_leaves_the_old_file(call: Run, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    assert call("presets", "list", "nothing", "--output", str(target)).returncode == 2
    assert target.read_text() == "old"


def test_a_file_that_cannot_be_written_is_exit_2(call: Run) -> None:
    done = call(*LIST, "--output", "no/such/folder/out.json")
    assert done.returncode == 2
    assert done.stderr == "no/such/folder/out.json: cannot write: No such file or directory\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_standard_output_that_cannot_be_written_is_exit_2(tmp_path: Path) -> None:
    for redirect, why in ((">/dev/full", "No space left on device"), (">&-", "it is closed")):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" {redirect}', "sh", *COMMAND, *LIST],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
        assert (done.returncode, done.stderr) == (2, f"error: cannot write standard output: {why}\n")


def test_a_preset_on_a_pipe_is_its_file(run: Run) -> None:
    shown = run("presets", "show", "clusters/atlas-900-a2")
    path = run("presets", "path", "clusters/atlas-900-a2").stdout.strip()
    assert shown.stdout.splitlines() == [line.rstrip() for line in Path(path).read_text("utf-8").splitlines()]


def test_output_may_be_a_device(run: Run) -> None:
    assert run(*LIST, "--output", "/dev/stdout").stdout == run(*LIST).stdout


def test_a_reader_that_stops_reading_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # every write fails at once
    with os.fdopen(writer, "w") as sink:
        done = subprocess.run(
            [*COMMAND, *LIST],
            stdout=sink,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupting_is_exit_130_and_silent(tmp_path: Path) -> None:
    pipe = tmp_path / "plan.yaml"
    os.mkfifo(pipe)
    with (
        subprocess.Popen(
            [*COMMAND, "estimate", str(pipe)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background jobs
        ) as process,
        pipe.open("w"),
    ):  # returns once the command has opened its plan and waits for the text
        process.send_signal(signal.SIGINT)
        shown = process.communicate(timeout=60)
    assert (process.returncode, shown) == (130, ("", ""))

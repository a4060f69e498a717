"""The command line itself: help, version, exit codes, mistyped words, completion."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from cann_plan import __version__
from cann_plan.cli.app import CommandFiles
from cann_plan.cli.main import main
from cann_plan.report.json_schema import document_schema

from .conftest import Run, environment


def test_version(run: Run) -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"cann-plan {__version__}\n", "")


def test_help_lists_every_command_file_with_a_sentence(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    listed = dict(re.findall(r"^  ([a-z-]+)  +(\S.*)$", done.stdout.split("Commands:")[1], re.MULTILINE))
    assert set(listed) == set(CommandFiles())
    assert not [sentence for sentence in listed.values() if not sentence.endswith(".") or sentence.endswith("...")]


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    assert run().stdout == run("--help").stdout


@pytest.mark.parametrize("command", sorted(CommandFiles()))
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Usage: cann-plan {command}")
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("esitmate", "p.yaml"), "no such command 'esitmate'; did you mean estimate?"),
        (("estimate", "--formt", "json"), "no such option: --formt; did you mean --format?"),
        (("estimate", "p.yaml", "--format", "xml"), "'xml' is not one of 'table', 'json', 'csv', 'markdown'"),
        (("estimate",), "missing argument 'PLAN'"),
        (("estimate", "p.yaml", "--devices", "many"), "--devices"),
        (("schema", "chekc"), "no schema named 'chekc'; allowed: plan, model"),
        (("presets", "show", "lama-2-7b"), "no preset named 'lama-2-7b'; did you mean llama-2-7b?"),
        (("presets", "list", "model"), "no kind of preset named 'model'; allowed: "),
    ],
)
def test_wrong_usage_is_exit_2_with_a_hint_and_no_traceback(
    call: Run, arguments: tuple[str, ...], message: str
) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_wrong_usage_with_json_is_the_error_document(run: Run) -> None:
    done = run("estimate", "--format", "json", "--devicse", "8")
    document = json.loads(done.stderr)
    jsonschema.validate(document, document_schema("error", strict=True))
    assert document["errors"][0]["suggestion"] == "--devices"
    assert (done.returncode, done.stdout) == (2, "")


def test_help_does_not_load_what_it_does_not_need() -> None:
    code = (
        "import sys; from cann_plan.cli.main import main; main(['--help']);"
        "heavy = {'numpy', 'pydantic', 'scipy', 'rich', 'yaml', 'matplotlib'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cann-plan esti", "estimate"),
        ("cann-plan estimate --cluster atlas-800-", "atlas-800-9000"),
        ("cann-plan presets show gpt3-175b-a", "gpt3-175b-a100"),
        ("cann-plan estimate --outp", "--output"),
    ],
)
def test_bash_completion(run: Run, words: str, expected: str) -> None:
    changes = {
        "_CANN_PLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    assert run(env=environment(**changes)).stdout.split() == [expected]


def test_completion_script_names_the_command(run: Run) -> None:
    done = run("--show-completion", "bash", env=environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"))
    assert "_CANN_PLAN_COMPLETE=complete_bash" in done.stdout


@pytest.mark.parametrize("name", ["estimate", "check", "error", "compare-topologies"])
def test_schema_command_prints_the_schema(call: Run, name: str) -> None:
    done = call("schema", name)
    assert done.returncode == 0
    assert json.loads(done.stdout) == document_schema(name)


def test_a_bug_of_ours_is_exit_70_and_one_line(tmp_path: Path) -> None:
    # An installation without rich stands for any failure that is not the user's.
    code = (
        "import sys; sys.modules['rich'] = None;"
        "from cann_plan.cli.main import main; sys.exit(main(['presets', 'list']))"
    )
    for debug, traceback in (("", False), ("1", True)):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(CANN_PLAN_DEBUG=debug),
            timeout=60,
            check=False,
        )
        assert done.returncode == 70
        assert "please report it" in done.stderr.splitlines()[-1]
        assert ("Traceback" in done.stderr) is traceback
        assert len(done.stderr.splitlines()) == 1 or traceback

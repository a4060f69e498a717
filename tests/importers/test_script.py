"""Launch scripts are read as a shell would read them, and never run."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.importers.script import Command, read_script
from cann_plan.importers.script_arithmetic import evaluate
from cann_plan.importers.script_errors import ScriptError, is_unknown

BASH = shutil.which("bash")


def words(text: str, **fixed: str) -> list[str]:
    """Words of the last command, without its name."""
    return list(read_script(text, fixed).commands[-1].words[1:])


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("A=8\nrun --tp $A ${A} \"$A\" '$A'", ["--tp", "8", "8", "8", "$A"]),
        ('A="--x 1 --y 2"\nrun $A "$A"', ["--x", "1", "--y", "2", "--x 1 --y 2"]),
        ("run ${TP:-4} ${TP-5} ${PP:=2} $PP ${PP:+set} a${NONE:+unset}b", ["4", "5", "2", "2", "set", "ab"]),
        ("A=3 B=$A\nrun $((A*4+2)) $(( $A ** 2 )) $((B%2==1?7:9)) $((0x10)) $((010))", ["14", "9", "7", "16", "8"]),
        (
            "A=(--tp 8 'two words' # note (with ' quote\n --pp 2)\nrun \"${A[@]}\"",
            ["--tp", "8", "two words", "--pp", "2"],
        ),
        ("A=(a b)\nA+=(c)\nrun ${A[1]} ${#A[@]} ${A[*]}", ["b", "3", "a", "b", "c"]),
        ("A=1\nA+=2\nexport B=$A C='x y'\nrun $B \"$C\"", ["12", "x y"]),
        ('run a\\\n  b "c\\\nd" e\\ f', ["a", "b", "cd", "e f"]),
        ("run --a 1 2>&1 > log.txt | tee x", []),
        ("run a#b # comment\n", ["a#b"]),
        ("cat <<EOF > f\n$(rm -rf /) it's\nEOF\nrun x", ["x"]),
        ("A=out\nfixed() { A=in; }\nif true; then A=if; fi\nrun $A", ["out"]),
        ('L="\n --nproc_per_node 8 \\\n --nnodes 2\n"\nrun $L', ["--nproc_per_node", "8", "--nnodes", "2"]),
        ("A=$'x'\nrun \"${UNSET:-$((1+1))}\" ${UNSET:-${ALSO:-deep}}", ["2", "deep"]),
    ],
)
def test_expansion(script: str, expected: list[str]) -> None:
    if "tee" in script:
        command = read_script(script).commands[0]
        assert command.words == ("run", "--a", "1")
        return
    assert words(script) == expected


FRAGMENTS = ["ab", '"$A x"', "${A}", "${B:-d e}", "'$A'", "$((1+A2))", '"${R[@]}"', "${R[1]}", "\\ ", '"${N:-$A}"',
             "${#R[@]}", "${R[*]}", '"${A}$A2"', '""', "${E}", '"${E:=z}"', "${A:+y}", "${A-x}"]  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4).map("".join), min_size=1, max_size=4))
def test_expansion_agrees_with_bash(written: list[str]) -> None:
    assert BASH is not None
    script = "A='p  q'\nA2=4\nE=\nR=(one 'two three' \"$A2\")\nrun " + " ".join(written) + "\n"
    done = subprocess.run([BASH, "-c", "run() { printf '%s\\0' \"$@\"; }\n" + script], capture_output=True, text=True,
                          check=True)  # fmt: skip
    expected = done.stdout.split("\0")[:-1]
    assert (words(script) or [""]) == (expected or [""])


@pytest.mark.parametrize(
    "source", ["$(touch PWNED)", "`touch PWNED`", "$1", "${HOSTS%%,*}", "$(( $(nproc) * 2 ))", "$NOWHERE", "${!X}"]
)
def test_what_only_running_would_tell_is_marked_and_nothing_runs(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = words(f'A={source}\nrun --tp $A "{source}"')
    assert found[0] == "--tp"
    assert is_unknown(found[1])
    assert list(tmp_path.iterdir()) == []


def test_conditionals_loops_and_functions_are_listed_not_followed() -> None:
    script = read_script(
        "N=1\nif [ $N = 1 ]; then N=8; fi\nfor i in 1 2; do M=$i; done\nwhile :; do :; done\n"
        "start() {\n torchrun a.py --x 1\n}\ncase $N in 1) K=2;; esac\n[ -f x ] && J=1\ntorchrun b.py --y $N\n"
    )
    assert script.variables["N"] == "1"
    assert script.unsettled == {"N": 2, "M": 3, "K": 8, "J": 9}
    conditional = {command.words[1]: command.conditional for command in script.commands if "torchrun" in command.words}
    assert conditional == {"a.py": True, "b.py": False}


def test_lines_environment_scheduler_and_sourced_files() -> None:
    script = read_script(
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node 8\nsource set_env.sh\n"
        "HCCL_BUFFSIZE=120 torchrun x.py \\\n --a 1\n\n\nlast\n"
    )
    assert script.scheduler == {"nodes": "4", "ntasks-per-node": "8"}
    assert script.sourced == ("set_env.sh",)
    assert script.commands[0].environment == {"HCCL_BUFFSIZE": "120"}
    assert [command.line for command in script.commands] == [5, 9]


def test_fixed_variables_withstand_assignments() -> None:
    assert words("NNODES=1\nrun $NNODES $((NNODES*8))", NNODES="32") == ["32", "256"]


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.integers(0, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "<", "==", "&", "|", "^"]), inner).map(
            lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"
        ),
        max_leaves=6,
    )
)
def test_arithmetic_agrees_with_bash(expression: str) -> None:
    assert BASH is not None
    done = subprocess.run([BASH, "-c", f"echo $(({expression}))"], capture_output=True, text=True, check=True)
    assert evaluate(expression, lambda name: 0) == int(done.stdout)


@pytest.mark.parametrize(
    ("expression", "value"), [("-7/2", -3), ("-7%2", -1), ("2**3**2", 512), ("1<<3|1", 9), ("!5", 0), ("~0", -1)]
)
def test_arithmetic_rounds_towards_zero_and_binds_as_the_shell_does(expression: str, value: int) -> None:
    assert evaluate(expression, lambda name: 0) == value


HOSTILE = {
    "a line of 1 MB": 'X="' + "a" * 10**6 + '"\nrun $X',
    "170,000 words": "run " + "--a 1 " * 85_000,
    "10,000 nested defaults": "X=" + "${a:-" * 10_000 + "}" * 10_000,
    "10,000 nested substitutions": "X=" + "$(" * 10_000 + ")" * 10_000,
    "nested arithmetic": "X=$((" + "(" * 2000 + ")" * 2000 + "))",
    "signs": "X=$((" + "-" * 3000 + "1))",
    "a tower of powers": "X=$((9**9**9**9))\nrun $X",
    "doubling": "A=aaaaaaaa\n" + "A=$A$A\n" * 100,
    "doubling arrays": "A=(a b)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 100,
    "self reference": "A=$A\nB=$C\nC=$B\nX=X\nrun $A $B $((X))",
    "open conditionals": "if " * 50_000,
    "open quotes": 'X="abc\n' * 10_000,
    "open substitution": "X=$(abc\n" * 3000,
    "backticks": "`" * 100_001,
    "quotes": "\"'" * 50_000,
    "dollars": "$" * 50_000,
    "backslashes": "\\" * 200_000,
    "here-documents": "cat <<A\n" * 20_000,
    "parentheses": "(" * 50_000,
    "redirections": ">" * 100_000,
    "newlines": "\n" * 1_000_000,
    "endless loop": "while true; do :; done\nuntil false; do eval $X; done\nrun --a 1",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_end_in_a_script_or_a_script_error(name: str) -> None:
    size = 0
    with contextlib.suppress(ScriptError):
        size = sum(len(word) for command in read_script(HOSTILE[name]).commands for word in command.words)
    assert size < 2**24


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abAB01 \n\t\\'\"$`{}()[]<>|&;#=+-*/:@!?%~", max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    commands: tuple[Command, ...] = ()
    with contextlib.suppress(ScriptError):
        commands = read_script(text).commands
    assert all(1 <= command.line <= text.count("\n") + 1 for command in commands)

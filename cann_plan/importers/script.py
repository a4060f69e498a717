"""Reads a launch script for the commands it would start, without starting anything.

Assignments, arrays, exports, defaults and integer arithmetic are followed from top to bottom. Command substitution is
never run. Bodies of conditionals, loops and functions are not followed: their commands are listed as conditional and
the variables they would assign are named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cann_plan.importers.script_errors import ScriptError
from cann_plan.importers.script_expand import Expander
from cann_plan.importers.script_lexer import Token, tokens

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=(.*)\Z", re.S)
_OPENERS: Final = {
    "if": "fi", "for": "done", "while": "done", "until": "done", "select": "done", "case": "esac", "{": "}",
}  # fmt: skip
_SKIPPED: Final = frozenset({"then", "do", "else", "elif", "!", "time", "exec", "nohup", "eval", "command"})
_DECLARE: Final = frozenset({"export", "declare", "typeset", "local", "readonly"})
_TESTS: Final = frozenset({"[", "[[", "test"})
_SCHEDULER: Final = re.compile(r"^#SBATCH[ \t]+(--?[A-Za-z][\w-]*)[= \t]*([^\s#]*)", re.M)


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its words expanded, the variables set for it alone, and its line.

    `conditional`: it stands in a conditional, loop or function, or behind `||`.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    line: int
    conditional: bool


@dataclass(frozen=True, slots=True)
class Script:
    """What a script says.

    `variables`: final values of scalars (arrays joined); `sourced`: other files it reads; `unsettled`: variables that
    skipped parts would assign, with their line; `scheduler`: options of #SBATCH comments.
    """

    commands: tuple[Command, ...]
    variables: Mapping[str, str]
    arrays: Mapping[str, tuple[str, ...]]
    sourced: tuple[str, ...]
    unsettled: Mapping[str, int]
    scheduler: Mapping[str, str]


def read_script(text: str, fixed: Mapping[str, str] | None = None) -> Script:
    """Read a script. `fixed` gives variables values that the script's own assignments do not change.

    Raises:
        ScriptError: an unclosed quote or bracket, or a script that expands beyond reason.
    """
    reader = _Reader(Expander(fixed=dict(fixed or {})))
    reader.read(text)
    expander = reader.expander
    scalars: dict[str, str] = {}
    arrays: dict[str, tuple[str, ...]] = {}
    for name, value in expander.variables.items():
        if isinstance(value, list):
            arrays[name] = tuple(value)
        else:
            scalars[name] = value
    scalars |= expander.fixed
    scheduler = {name.lstrip("-"): value for name, value in _SCHEDULER.findall(text)}
    return Script(
        tuple(reader.commands), scalars, arrays, tuple(reader.sourced), dict(reader.unsettled), scheduler
    )  # fmt: skip


@dataclass(slots=True)
class _Reader:
    expander: Expander
    commands: list[Command] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    unsettled: dict[str, int] = field(default_factory=dict)
    blocks: list[tuple[str, bool]] = field(default_factory=list)  # closing word, whether the body is not followed
    closed_over: int = 0  # blocks that are not followed
    function: bool = False  # a function's name was just read
    after: str = ""  # what joins the next command to the last: "&&", "||" or nothing
    tested: bool = False  # the last command was a test

    def read(self, text: str) -> None:
        current: list[Token] = []
        for token in tokens(text):
            if not token.word:
                self._operator(token.text, current)
                current = []
                continue
            if not current:
                if token.text in _SKIPPED:
                    continue
                if self._block(token.text):
                    continue
            current.append(token)
        self._flush(current, "")

    def _operator(self, sign: str, current: list[Token]) -> None:
        if sign == "(" and len(current) == 1 and current[0].text.isidentifier():
            self.function = True
            return
        if sign == ")" and not current:
            return
        self._flush(current, sign)

    def _block(self, word: str) -> bool:
        """Whether `word`, the first of a command, opens or closes a block."""
        if word == "function":
            self.function = True
            return False
        closer = _OPENERS.get(word)
        if closer is not None:
            skipped = word != "{" or self.function
            self.blocks.append((closer, skipped))
            self.closed_over += skipped
            self.function = False
            return True
        if self.blocks and word == self.blocks[-1][0]:
            self.closed_over -= self.blocks.pop()[1]
            return True
        return False

    def _flush(self, current: list[Token], sign: str) -> None:
        if current:
            if current[0].text == "function":
                opens = current[-1].text == "{"
                if opens:
                    self._block("{")
            else:
                joined = self.after == "||" or (self.after == "&&" and self.tested)
                self._command(current, self.closed_over > 0 or joined)
                self.tested = current[0].text in _TESTS
        if sign in ("&&", "||") or current:
            self.after = sign if sign in ("&&", "||") else ""

    def _command(self, words: list[Token], conditional: bool) -> None:
        line = words[0].line
        try:
            self._simple(words, conditional)
        except ScriptError as error:
            raise ScriptError(error.message, error.line or line) from None

    def _simple(self, words: list[Token], conditional: bool) -> None:
        assignments: list[Token] = []
        while len(assignments) < len(words) and _ASSIGNMENT.match(words[len(assignments)].text):
            assignments.append(words[len(assignments)])
        rest = words[len(assignments) :]
        if not rest:
            for token in assignments:
                self._assign(token, conditional)
            return
        name = rest[0].text
        if name in _DECLARE:
            for token in rest[1:]:
                if _ASSIGNMENT.match(token.text):
                    self._assign(token, conditional)
        elif name in ("source", "."):
            self.sourced += [token.text for token in rest[1:2]]
        elif name == ":":
            for token in rest[1:]:
                self.expander.text(token.text)
        elif name == "unset" and not conditional:
            for token in rest[1:]:
                self.expander.variables.pop(token.text, None)
        elif name not in _TESTS and name not in ("echo", "set", "mkdir", "cd"):
            own = {}
            for token in assignments:
                match = _ASSIGNMENT.match(token.text)
                assert match is not None
                own[match[1]] = self.expander.text(match[4])
            expanded = [item for token in rest for item in self.expander.fields(token.text)]
            self.commands.append(Command(tuple(expanded), own, rest[0].line, conditional))

    def _assign(self, token: Token, conditional: bool) -> None:
        match = _ASSIGNMENT.match(token.text)
        assert match is not None
        name, index, append, raw = match.groups()
        if conditional or index:
            self.unsettled.setdefault(name, token.line)
            return
        if raw.startswith("(") and raw.endswith(")"):
            self.expander.assign(name, self.expander.array(raw[1:-1]), append=bool(append))
        else:
            self.expander.assign(name, self.expander.text(raw), append=bool(append))

"""Words of a shell script to their values: quotes, variables, defaults, arrays, arithmetic. Commands never run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from cann_plan.importers.script_arithmetic import UnknownValueError, evaluate, number
from cann_plan.importers.script_errors import (
    MAX_NESTING,
    MAX_VALUE,
    MAX_WORK,
    ScriptError,
    is_unknown,
    unknown,
)
from cann_plan.importers.script_lexer import closing, tokens

Value = str | list[str]
_PLAIN: Final = re.compile(r"[^\\'\"$`]+")
_QUOTED_PLAIN: Final = re.compile(r"[^\\\"$`]+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PARAMETER: Final = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*?#$!-])(?:\[([^\]]{0,200})\])?(.*)\Z", re.S)
_DEFAULT: Final = re.compile(r"(:?[-=+?])(.*)\Z", re.S)
_POSITIONAL: Final = re.compile(r"[0-9@*?#$!-]")
_SPACE: Final = " \t\n\r"


@dataclass(slots=True)
class _Fields:
    """Fields of a word while it is expanded: unquoted values split at white space, quoted ones do not."""

    done: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    open: bool = False

    def quoted(self, text: str) -> None:
        self.parts.append(text)
        self.open = True

    def split(self, text: str) -> None:
        if not text:
            return
        if text[0] in _SPACE:
            self.end()
        pieces = text.split()
        for piece in pieces[:-1]:
            self.quoted(piece)
            self.end()
        if pieces:
            self.quoted(pieces[-1])
            if text[-1] in _SPACE:
                self.end()

    def several(self, items: list[str]) -> None:
        for index, item in enumerate(items):
            if index:
                self.end()
            self.quoted(item)

    def end(self) -> None:
        if self.open:
            self.done.append("".join(self.parts))
        self.parts, self.open = [], False


@dataclass(slots=True)
class Expander:
    """Variables of a script and the expansion of words with them.

    `fixed`: values from outside that no assignment changes. `missing`: names used without a value; `refused`: source
    text of constructs that are not evaluated. Both keep the order of appearance.
    """

    fixed: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Value] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)
    work: int = 0
    depth: int = 0

    def assign(self, name: str, value: Value, *, append: bool = False) -> None:
        """Set or extend a variable, unless it is fixed."""
        if name in self.fixed:
            return
        if append:
            old = self.variables.get(name, "" if isinstance(value, str) else [])
            if isinstance(old, list):
                value = [*old, *([value] if isinstance(value, str) else value)]
            else:
                value = old + value if isinstance(value, str) else [*([old] if old else []), *value]
        self._spend(len(value) if isinstance(value, str) else sum(len(item) + 1 for item in value))
        self.variables[name] = value

    def text(self, raw: str) -> str:
        """A word as one value, as on the right of an assignment: no splitting."""
        return " ".join(self._expand(raw, split=False).done)

    def fields(self, raw: str) -> list[str]:
        """A word as the arguments it stands for."""
        return self._expand(raw, split=True).done

    def array(self, raw: str) -> list[str]:
        """The elements of `( ... )`; `raw` is what stands between the parentheses."""
        return [item for token in tokens(raw) if token.word for item in self.fields(token.text)]

    def scalar(self, name: str) -> str | None:
        """The value of a variable, the first element of an array, None where it has none."""
        value = self.fixed.get(name, self.variables.get(name))
        return (value[0] if value else None) if isinstance(value, list) else value

    def _spend(self, size: int) -> None:
        self.work += size
        if size > MAX_VALUE or self.work > MAX_WORK:
            raise ScriptError("its variables expand to an unreasonable size")

    def _expand(self, raw: str, *, split: bool) -> _Fields:
        if _PLAIN.fullmatch(raw):
            self._spend(len(raw))
            return _Fields([raw])
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise ScriptError("substitutions are nested too deeply")
        out = _Fields()
        position = 0
        while position < len(raw):
            plain = _PLAIN.match(raw, position)
            if plain:
                out.quoted(plain.group())
                position = plain.end()
                continue
            sign = raw[position]
            if sign == "\\":
                follower = raw[position + 1 : position + 2]
                if follower != "\n":
                    out.quoted(follower)
                position += 2
            elif sign == "'":
                stop = closing(raw, position)
                out.quoted(raw[position + 1 : stop - 1])
                position = stop
            elif sign == '"':
                stop = closing(raw, position)
                self._quoted(raw[position + 1 : stop - 1], out)
                position = stop
            else:
                position = self._dollar(raw, position, out, split=split, quoted=False)
        out.end()
        self.depth -= 1
        self._spend(sum(len(item) for item in out.done))
        return out

    def _quoted(self, inner: str, out: _Fields) -> None:
        out.quoted("")
        position = 0
        while position < len(inner):
            plain = _QUOTED_PLAIN.match(inner, position)
            if plain:
                out.quoted(plain.group())
                position = plain.end()
            elif inner[position] == "\\":
                follower = inner[position + 1 : position + 2]
                if follower != "\n":
                    out.quoted(follower if follower in ('"', "\\", "$", "`") else "\\" + follower)
                position += 2
            elif inner[position] in "$`":
                position = self._dollar(inner, position, out, split=False, quoted=True)
            else:
                out.quoted(inner[position])
                position += 1

    def _dollar(self, raw: str, start: int, out: _Fields, *, split: bool, quoted: bool) -> int:
        """Expand the `$...` or backtick construct at `start`; returns where it ends."""
        put = out.split if split and not quoted else out.quoted
        if raw[start] == "`" or raw.startswith("$(", start):
            stop = closing(raw, start)
            source = raw[start:stop]
            arithmetic = source.startswith("$((") and source.endswith("))")
            put(self._arithmetic(source) if arithmetic else self._refuse(source))
            return stop
        if raw.startswith("${", start):
            stop = closing(raw, start)
            self._parameter(raw[start + 2 : stop - 1], raw[start:stop], out, split=split, quoted=quoted)
            return stop
        name = _NAME.match(raw, start + 1)
        if name:
            self._put(self._value(name.group()), out, None, split=split, quoted=quoted)
            return name.end()
        follower = raw[start + 1 : start + 2]
        if follower and _POSITIONAL.match(follower):
            if follower not in "@*":
                put(self._refuse(raw[start : start + 2]))
            return start + 2
        out.quoted("$")
        return start + 1

    def _refuse(self, source: str) -> str:
        self.refused.setdefault(source[:80])
        return unknown(source)

    def _value(self, name: str) -> Value:
        value = self.fixed.get(name, self.variables.get(name))
        if value is not None:
            return value
        self.missing.setdefault(name)
        return unknown(f"${name}")

    def _put(self, value: Value, out: _Fields, index: str | None, *, split: bool, quoted: bool) -> None:
        if isinstance(value, list):
            if index in ("@", "*"):
                if quoted and index == "@":
                    out.several(value)
                    return
                value = " ".join(value)
            else:
                place = int(index) if index is not None and index.isdigit() and len(index) < 9 else 0
                value = value[place] if place < len(value) else ""
        (out.split if split and not quoted else out.quoted)(value)

    def _parameter(self, inner: str, source: str, out: _Fields, *, split: bool, quoted: bool) -> None:
        """`${...}`: plain, with an index, with a default, or a length."""
        match = _PARAMETER.match(inner)
        put = out.split if split and not quoted else out.quoted
        if match is None:
            put(self._refuse(source))
            return
        length, name, index, rest = match.groups()
        positional = _NAME.fullmatch(name) is None
        value = None if positional else self.fixed.get(name, self.variables.get(name))
        if length and not rest:
            known = len(value) if isinstance(value, list) and index else len(value or "")
            put(str(known) if value is not None else self._refuse(source))
            return
        default = _DEFAULT.match(rest)
        if rest and default is None:  # patterns, slices and the like
            put(self._refuse(source))
            return
        if default is not None:
            sign, words = default.groups()
            absent = value is None or (sign.startswith(":") and not value)
            if sign[-1] == "+":
                value = "" if absent else self.text(words)
            elif absent and sign[-1] in "-=":
                value = self.text(words)
                if sign[-1] == "=" and not positional:
                    self.assign(name, value)
        if value is None and positional:
            if name not in "@*":
                put(self._refuse(source))
            return
        self._put(self._value(name) if value is None else value, out, index, split=split, quoted=quoted)

    def _arithmetic(self, source: str) -> str:
        expression = self.text(source[3:-2])
        if is_unknown(expression):
            return unknown(source)
        try:
            return str(evaluate(expression, self._integer))
        except UnknownValueError:
            return unknown(source)
        except ScriptError:
            return self._refuse(source)

    def _integer(self, name: str) -> int:
        text = self.scalar(name)
        if text is None:
            self.missing.setdefault(name)
            raise UnknownValueError(name)
        if is_unknown(text):
            raise UnknownValueError(name)
        return number(text.strip() or "0")

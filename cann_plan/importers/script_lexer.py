"""Shell text to words and operators, in one pass and without recursion. Nothing is expanded here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cann_plan.importers.script_errors import MAX_SCRIPT, ScriptError

_BLANK: Final = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_LINES: Final = re.compile(r"[ \t\r\n]+")
_COMMENT: Final = re.compile(r"#[^\n]*")
_OPERATOR: Final = re.compile(r"&&|\|\||;;&?|;&|\|&|&>>|&>|<<<|<<-?|>>|>&|<&|>\||[;&|()<>\n]")
_PLAIN: Final = re.compile(r"[^\s\\'\"$`;&|()<>]+")
_ASSIGNS_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=\Z")
_NESTED_PLAIN: Final = re.compile(r"[^\\'\"$`(){}#]+")
REDIRECTIONS: Final = frozenset({"<", ">", ">>", "<<<", ">&", "<&", "&>", "&>>", ">|"})


class Token(NamedTuple):
    """A word as written (quotes and all), or an operator (`word` false; newlines are ";")."""

    text: str
    line: int
    word: bool


def tokens(text: str, line: int = 1) -> Iterator[Token]:
    """Words and operators of `text`; comments, here-documents and redirections with their targets are left out.

    Raises ScriptError for a text that is too long or a quote or bracket that is never closed.
    """
    if len(text) > MAX_SCRIPT:
        raise ScriptError(f"more than {MAX_SCRIPT} characters")
    position, skip_word = 0, False
    pending: list[str] = []
    end = len(text)
    while position < end:
        blank = _BLANK.match(text, position)
        if blank:
            line += blank.group().count("\n")
            position = blank.end()
            continue
        if text[position] == "#":
            comment = _COMMENT.match(text, position)
            assert comment is not None
            position = comment.end()
            continue
        operator = _OPERATOR.match(text, position)
        if operator:
            sign = operator.group()
            position = operator.end()
            if sign == "\n":
                yield Token(";", line, False)
                line += 1
                if not pending:
                    more = _LINES.match(text, position)
                    if more:
                        line += more.group().count("\n")
                        position = more.end()
                for delimiter in pending:
                    position, line = _skip_here_document(text, position, line, delimiter)
                pending, skip_word = [], False
            elif sign in ("<<", "<<-"):
                delimiter_end = _word_end(text, (_BLANK.match(text, position) or operator).end(), line)
                raw = text[position:delimiter_end].strip()
                pending.append(raw.strip("'\"").replace("\\", ""))
                position = delimiter_end
            elif sign in REDIRECTIONS:
                skip_word = True
            else:
                yield Token(sign, line, False)
            continue
        stop = _word_end(text, position, line)
        word = text[position:stop]
        descriptor = word.isdigit() and text[stop : stop + 1] in ("<", ">")
        if not skip_word and not descriptor:
            yield Token(word, line, True)
        skip_word = False
        line += word.count("\n")
        position = stop


def _word_end(text: str, start: int, line: int) -> int:
    """Index behind the word that starts at `start`."""
    position = start
    while position < len(text):
        plain = _PLAIN.match(text, position)
        if plain:
            position = plain.end()
            continue
        sign = text[position]
        if sign == "\\":
            if text[position + 1 : position + 2] == "\n":
                break
            position += 2
        elif sign in "'\"`" or (sign == "$" and text[position + 1 : position + 2] in ("{", "(")):
            position = closing(text, position, line)
        elif sign == "$":
            position += 1
        elif sign == "(" and _ASSIGNS_ARRAY.fullmatch(text, start, position):
            position = closing(text, position, line)
        else:
            break
    return min(position, len(text))


def closing(text: str, start: int, line: int = 0) -> int:
    """Index behind the construct that opens at `start`: a quote, `${...}`, `$(...)`, `(...)` or backticks.

    An explicit stack, so that depth costs nothing. Raises ScriptError if it is never closed.
    """
    stack: list[str] = []
    position = start
    end = len(text)
    while position < end:
        top = stack[-1] if stack else ""
        if top == "'":
            found = text.find("'", position)
            if found < 0:
                break
            stack.pop()
            position = found + 1
        else:
            plain = _NESTED_PLAIN.match(text, position)
            if plain and stack:
                position = plain.end()
                if position >= end:
                    break
            position = _step(text, position, stack)
        if not stack:
            return position
    raise ScriptError(f"{text[start : start + 2]!r} is never closed", line or None)


def _step(text: str, position: int, stack: list[str]) -> int:
    """Handle the special character at `position`; returns where to go on."""
    top = stack[-1] if stack else ""
    sign = text[position]
    if sign == "\\":
        return position + 2
    if top == "`":
        if sign == "`":
            stack.pop()
        return position + 1
    if sign == '"':
        if top == '"':
            stack.pop()
        else:
            stack.append('"')
    elif sign == "`":
        stack.append("`")
    elif sign == "$" and text[position + 1 : position + 2] in ("{", "("):
        stack.append("}" if text[position + 1] == "{" else ")")
        return position + 2
    elif sign == "'" and top != '"' and '"' not in stack[-2:]:
        stack.append("'")
    elif sign == "(" and top != '"' and top != "}":
        stack.append(")")
    elif sign == "#" and top == ")" and text[position - 1].isspace():
        newline = text.find("\n", position)
        return len(text) if newline < 0 else newline
    elif sign == top and sign in "})":
        stack.pop()
    return position + 1


def _skip_here_document(text: str, position: int, line: int, delimiter: str) -> tuple[int, int]:
    while position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        here = text[position:stop].strip()
        position, line = min(stop + 1, len(text)), line + 1
        if here == delimiter:
            break
    return position, line

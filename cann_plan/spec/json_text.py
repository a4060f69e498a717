"""JSON text to a `Node` tree with the place of every key and value."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from cann_plan.spec.errors import SpecError, problem_at
from cann_plan.spec.node import Mark, Node, Source

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<punctuation>[{}\[\],:])
    | (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![0-9A-Za-z_.]))
    | (?P<word>-?[A-Za-z_]+)
    )""",
    re.VERBOSE,
)
_WORDS: Final = {
    "true": True, "false": False, "null": None,
    # Python's json module writes these into config.json files; they stay text, which no number accepts
    "NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity",
}  # fmt: skip


def parse_json(text: str, source: Source, *, max_depth: int, max_nodes: int) -> Node:
    """The document in `text`. Raises SpecError: syntax, duplicate keys, depth, size."""
    return _JsonReader(text, source, max_depth, max_nodes).document()


def is_unicode(text: str) -> bool:
    """Whether `text` can be written as UTF-8: no half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


class _JsonReader:
    """One pass over the tokens, no recursion."""

    def __init__(self, text: str, source: Source, max_depth: int, max_nodes: int) -> None:
        self.text = text
        self.source = source
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.position = 0
        self.start = 0  # of the last token
        self.line = 1
        self.line_start = 0
        self.counted = 0  # characters whose line breaks are counted

    def mark(self, position: int) -> Mark:
        breaks = self.text.count("\n", self.counted, position)
        if breaks:
            self.line += breaks
            self.line_start = self.text.rfind("\n", self.counted, position) + 1
        self.counted = max(self.counted, position)
        return Mark(self.source, self.line, position - self.line_start + 1)

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        mark = self.mark(self.start if position is None else position)
        raise SpecError([problem_at(mark, None, message)])

    def token(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            rest = self.text[self.position :]
            self.start = self.position + len(rest) - len(rest.lstrip(" \t\r\n"))
            if self.start >= len(self.text):
                return "end", ""
            self.fail(f"not valid JSON: unexpected {self.text[self.start]!r}")
        kind = match.lastgroup or ""
        self.start, self.position = match.start(kind), match.end()
        return kind, match.group(kind)

    def scalar(self, kind: str, token: str) -> Any:
        if kind == "word":
            if token not in _WORDS:
                self.fail(f"not valid JSON: unexpected {token[:40]!r}")
            return _WORDS[token]
        try:
            value = json.loads(token)
        except ValueError:
            self.fail(f"not valid JSON: bad {kind} {token[:40]!r}")
        if isinstance(value, str) and not is_unicode(value):
            self.fail("half of a surrogate pair is not text")
        if isinstance(value, float) and abs(value) == float("inf"):
            self.fail(f"{token[:40]} is not a finite number")
        return value

    def document(self) -> Node:
        kind, token = self.token()
        if kind == "end":
            self.fail("the document is empty", 0)
        stack: list[tuple[Node, str | None, Mark | None]] = []
        nodes = 0
        while True:
            mark = self.mark(self.start)
            nodes += 1
            if nodes > self.max_nodes:
                self.fail(f"more than {self.max_nodes} values")
            if token in ("{", "[") and kind == "punctuation":
                if len(stack) >= self.max_depth:
                    self.fail(f"nested deeper than {self.max_depth} levels")
                done = Node({} if token == "{" else [], mark)
                kind, token = self.token()
                if (kind, token) != ("punctuation", "}" if isinstance(done.value, dict) else "]"):
                    key, key_mark = self.key(done, kind, token) if isinstance(done.value, dict) else (None, None)
                    stack.append((done, key, key_mark))
                    if isinstance(done.value, dict):
                        kind, token = self.token()
                    continue
            elif kind in ("string", "number", "word"):
                done = Node(self.scalar(kind, token), mark)
            else:
                self.fail(f"not valid JSON: unexpected {token!r}" if token else "not valid JSON: the text ends early")
            while True:
                kind, token = self.token()
                if not stack:
                    if kind != "end":
                        self.fail(f"not valid JSON: unexpected {token[:40]!r} after the document")
                    return done
                parent, key, key_mark = stack[-1]
                if isinstance(parent.value, dict):
                    parent.value[str(key)] = done
                    parent.keys[str(key)] = key_mark or done.mark
                elif isinstance(parent.value, list):
                    parent.value.append(done)
                close = "}" if isinstance(parent.value, dict) else "]"
                if (kind, token) == ("punctuation", ","):
                    kind, token = self.token()
                    if close == "}":
                        stack[-1] = (parent, *self.key(parent, kind, token))
                        kind, token = self.token()
                    break
                if (kind, token) != ("punctuation", close):
                    found = repr(token[:40]) if token else "the end of the text"
                    self.fail(f"not valid JSON: expected ',' or {close!r}, found {found}")
                done = parent
                stack.pop()

    def key(self, parent: Node, kind: str, token: str) -> tuple[str, Mark]:
        if kind != "string":
            found = repr(token[:40]) if token else "the end of the text"
            self.fail(f"not valid JSON: expected a key in double quotes, found {found}")
        name = str(self.scalar(kind, token))
        mark = self.mark(self.start)
        if isinstance(parent.value, dict) and name in parent.value:
            self.fail(f"key {name!r} is given twice (first on line {parent.keys[name].line})")
        if self.token() != ("punctuation", ":"):
            self.fail(f"not valid JSON: expected ':' after key {name!r}")
        return name, mark

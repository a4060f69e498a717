"""Reading one document: YAML or JSON text to a `Node` tree, or a `SpecError` that says where the text is wrong.

YAML is read from parser events (libyaml's parser when PyYAML has it), not through PyYAML's constructors: no tag can
build an object, YAML 1.1's surprises (`on`, `010`, `1:30`, `80e9`) stay text for the typed keys to judge, every key and
value keeps its place, and depth and size stay bounded whatever aliases do.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml

from cann_plan.spec.errors import SpecError, problem_at
from cann_plan.spec.json_text import is_unicode, parse_json
from cann_plan.spec.node import Mark, Node, Scalar, Source

MAX_BYTES: Final = 2**20  # of one document
MAX_DEPTH: Final = 64  # levels of nesting
MAX_NODES: Final = 200_000  # values of one document with every alias written out
STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"

Loader: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser: 10 times faster; PyYAML's own where the extension is missing."""

_WORDS: Final[dict[str, Scalar]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")


def read(path: str | Path) -> Node:
    """The document in file `path`, or standard input for "-". Raises SpecError."""
    if str(path) == STDIN:
        source = Source(STDIN_NAME, Path.cwd())
        try:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        except (OSError, ValueError, AttributeError):  # closed, or not there at all
            _fail(Mark(source), "standard input cannot be read")
        return parse_bytes(data, source)
    file = Path(path)
    source = Source(str(path), file.parent)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _fail(Mark(source), "no such file")
    except IsADirectoryError:
        _fail(Mark(source), "is a directory, not a file")
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        _fail(Mark(source), f"cannot be read: {reason}")
    return parse_bytes(data, source, json=file.suffix.lower() == ".json")


def parse_bytes(data: bytes, source: Source, *, json: bool = False) -> Node:
    """The document in `data`. Raises SpecError."""
    if len(data) > MAX_BYTES:
        _fail(Mark(source), f"larger than {MAX_BYTES // 2**20} MiB", "a document of at most 1 MiB")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        _fail(Mark(source, 1, 1), "is UTF-16", "UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        _fail(Mark(source, line, column), f"byte 0x{data[error.start]:02x} is not UTF-8", "UTF-8 text")
    return parse_text(text, source, json=json)


def parse_text(text: str, source: Source, *, json: bool = False) -> Node:
    """The document in `text`. Raises SpecError."""
    if json:
        return parse_json(text, source, max_depth=MAX_DEPTH, max_nodes=MAX_NODES)
    try:
        return _Reader(text, source).document()
    except yaml.MarkedYAMLError as error:
        _fail(*_syntax(text, error, source))
    except yaml.YAMLError as error:
        _fail(_reader_mark(text, error, source), f"not valid YAML: {getattr(error, 'reason', None) or 'syntax error'}")
    except UnicodeEncodeError as error:  # a lone surrogate, possible only in command-line text
        _fail(Mark(source, text.count("\n", 0, error.start) + 1), "text is not valid Unicode")


def parse_scalar(text: str) -> Scalar:
    """A plain YAML scalar: null, true, false, decimal integers and floats; everything else stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) < 64 and _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


def _fail(mark: Mark, message: str, allowed: str | None = None, path: str | None = None) -> NoReturn:
    raise SpecError([problem_at(mark, path, message, allowed)])


def _syntax(text: str, error: yaml.MarkedYAMLError, source: Source) -> tuple[Mark, str]:
    """Place and words of a syntax error."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Mark(source), f"not valid YAML: {error.problem or 'syntax error'}"
    where = Mark(source, mark.line + 1, mark.column + 1)
    lines = text.splitlines()
    if mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return where, "not valid YAML: a tab cannot indent, use spaces"
    if "nesting depth" in (error.problem or ""):  # libyaml's own limit, met while it looks ahead
        return where, f"nested deeper than {MAX_DEPTH} levels"
    context = ""
    if error.context:
        start = error.context_mark
        context = f" ({error.context} that starts on line {start.line + 1})" if start else f" ({error.context})"
    return where, f"not valid YAML: {error.problem or 'syntax error'}{context}"


def _reader_mark(text: str, error: yaml.YAMLError, source: Source) -> Mark:
    position = getattr(error, "position", None)
    if not isinstance(position, int) or position < 0:
        return Mark(source)
    before = text[:position]
    return Mark(source, before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Reader:
    """Parser events to nodes; one pass, no recursion."""

    def __init__(self, text: str, source: Source) -> None:
        self.source = source
        self.loader = Loader(text)
        self.anchors: dict[str, tuple[Node, int]] = {}  # node and its size with aliases written out
        self.total = 0

    def mark(self, event: Any) -> Mark:
        where = event.start_mark
        return Mark(self.source, where.line + 1, where.column + 1)

    def document(self) -> Node:
        loader = self.loader
        try:
            loader.get_event()  # stream start
            if not loader.check_event(yaml.DocumentStartEvent):
                _fail(Mark(self.source, 1, 1), "the document is empty")
            loader.get_event()
            root = self.node()
            loader.get_event()  # document end
            if not loader.check_event(yaml.StreamEndEvent):
                _fail(self.mark(loader.peek_event()), "more than one document in the file", "one document")
            return root
        finally:
            loader.dispose()

    def node(self) -> Node:
        stack: list[_Open] = []
        while True:
            event = self.loader.get_event()
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self.refuse_tag(event)
                if len(stack) >= MAX_DEPTH:
                    _fail(self.mark(event), f"nested deeper than {MAX_DEPTH} levels")
                stack.append(_Open(isinstance(event, yaml.MappingStartEvent), self.mark(event), event.anchor))
                self.count(event, 1)
                continue
            if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                closed = stack.pop()
                done, size, anchor = closed.node(), closed.size, closed.anchor
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in self.anchors:
                    _fail(self.mark(event), f"alias *{event.anchor} has no anchor before it")
                done, size = self.anchors[event.anchor]
                anchor = None
                self.count(event, size)
                if len(stack) + _depth(done) > MAX_DEPTH:
                    _fail(self.mark(event), f"nested deeper than {MAX_DEPTH} levels")
            else:
                self.refuse_tag(event)
                value = parse_scalar(event.value) if event.implicit[0] else event.value
                if isinstance(value, str) and not is_unicode(value):
                    _fail(self.mark(event), "half of a surrogate pair is not text")
                done, size, anchor = Node(value, self.mark(event)), 1, event.anchor
                self.count(event, 1)
            if anchor is not None:
                self.anchors[anchor] = (done, size)
            if not stack:
                return done
            stack[-1].add(done, size)

    def count(self, event: yaml.Event, size: int) -> None:
        self.total += size
        if self.total > MAX_NODES:
            _fail(self.mark(event), f"more than {MAX_NODES} values once aliases are written out")

    def refuse_tag(self, event: Any) -> None:
        if event.tag is not None and not (event.tag == "!" and isinstance(event, yaml.ScalarEvent)):
            name = event.tag.replace("tag:yaml.org,2002:", "!!")
            _fail(self.mark(event), f"tag {name} is not supported", "plain YAML without tags")


def _depth(node: Node) -> int:
    children = list(node.value.values()) if isinstance(node.value, dict) else node.value
    if not isinstance(children, list):
        return 0
    return 1 + max((_depth(child) for child in children), default=0)


class _Open:
    """A list or mapping whose end has not been read."""

    def __init__(self, is_mapping: bool, mark: Mark, anchor: str | None) -> None:
        self.is_mapping = is_mapping
        self.mark = mark
        self.anchor = anchor
        self.size = 1
        self.items: list[Node] = []
        self.entries: dict[str, Node] = {}
        self.keys: dict[str, Mark] = {}
        self.merged: list[Node] = []
        self.key: Node | None = None

    def add(self, child: Node, size: int) -> None:
        self.size += size
        if not self.is_mapping:
            self.items.append(child)
        elif self.key is None:
            self.key = child
            if isinstance(child.value, dict | list):
                _fail(child.mark, "a key must be a name, not a list or mapping")
        else:
            self.entry(self.key, child)
            self.key = None

    def entry(self, key: Node, child: Node) -> None:
        name = _key_text(key.value)
        if name == "<<":
            bases = child.value if isinstance(child.value, list) else [child]
            for base in bases:
                if base.mapping is None:
                    _fail(base.mark, "a merge key (<<) needs a mapping or a list of mappings")
            self.merged.extend(bases)
        elif name in self.entries:
            first = self.keys[name]
            _fail(key.mark, f"key {name!r} is given twice (first on line {first.line})")
        else:
            self.entries[name] = child
            self.keys[name] = key.mark

    def node(self) -> Node:
        if not self.is_mapping:
            return Node(self.items, self.mark)
        for base in self.merged:
            for name, child in (base.mapping or {}).items():
                if name not in self.entries:
                    self.entries[name] = child
                    self.keys[name] = base.keys.get(name, child.mark)
        return Node(self.entries, self.mark, self.keys)


def _key_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)

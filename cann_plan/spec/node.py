"""A loaded document as a tree that remembers where every key and value was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from cann_plan.records import dataclass

Scalar = str | int | float | bool | None
PathKey = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document comes from: the name shown, and the directory its relative paths start from."""

    name: str
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a source; line and column count from 1, None where the source has no lines."""

    source: Source
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.source.name, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True)
class Node:
    """A scalar, a list or a mapping with its place. `keys` holds the places of a mapping's keys."""

    value: Scalar | list[Node] | dict[str, Node]
    mark: Mark
    keys: dict[str, Mark] = field(default_factory=dict)

    @property
    def mapping(self) -> dict[str, Node] | None:
        """The entries if this is a mapping."""
        return self.value if isinstance(self.value, dict) else None

    def plain(self) -> Any:
        """The bare value: scalars, lists, dicts."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def get(self, key: str) -> Node | None:
        """The value of `key`, None if this is no mapping or has no such key."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def replaced(self, key: str, child: Node, key_mark: Mark | None = None) -> Node:
        """The same mapping with `key` set to `child`."""
        entries = dict(self.value) if isinstance(self.value, dict) else {}
        keys = dict(self.keys)
        entries[key] = child
        keys[key] = key_mark or keys.get(key) or child.mark
        return Node(entries, self.mark, keys)

    def without(self, *names: str) -> Node:
        """The same mapping without the keys `names`."""
        if not isinstance(self.value, dict):
            return self
        return Node(
            {k: v for k, v in self.value.items() if k not in names},
            self.mark,
            {k: m for k, m in self.keys.items() if k not in names},
        )


def walk(root: Node, path: Iterable[str | int]) -> tuple[PathKey, Node]:
    """Follow `path` from `root`, skipping steps that are not in the document; the path really taken and its end."""
    taken: list[str | int] = []
    node = root
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
            node = node.value[step]
        else:
            continue
        taken.append(step)
    return tuple(taken), node


def place(root: Node, path: Iterable[str | int], *, of_key: bool = False) -> Mark:
    """Place of the value (or key) at `path`; the nearest enclosing one where the document does not state it."""
    node, mark = root, root.mark
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            name = str(step)
            child = node.value[name]
            mark = node.keys.get(name, child.mark) if of_key else child.mark
            node = child
        elif isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
            node = node.value[step]
            mark = node.mark
        else:
            break
    return mark


def states(root: Node, path: Iterable[str | int]) -> bool:
    """Whether the document has a value other than null at `path`."""
    node: Node | None = root
    for step in path:
        if node is None:
            return False
        if isinstance(node.value, dict):
            node = node.value.get(str(step))
        elif isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
            node = node.value[step]
        else:
            return False
    return node is not None and node.value is not None


def from_plain(data: Any, mark: Mark) -> Node:
    """A tree of plain data, all of it at `mark`."""
    if isinstance(data, Mapping):
        entries = {str(key): from_plain(value, mark) for key, value in data.items()}
        return Node(entries, mark, dict.fromkeys(entries, mark))
    if isinstance(data, list | tuple):
        return Node([from_plain(item, mark) for item in data], mark)
    if data is None or isinstance(data, str | int | float | bool):
        return Node(data, mark)
    return Node(str(data), mark)


def dotted(path: Iterable[str | int]) -> str:
    """`training.tokens`, `parallel.layer_split[2]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def parse_path(text: str) -> PathKey:
    """Inverse of `dotted`. Raises ValueError for an empty step or a bad index."""
    steps: list[str | int] = []
    for part in text.split("."):
        name, *indices = part.split("[")
        if not name.strip():
            raise ValueError(text)
        steps.append(name.strip())
        for index in indices:
            if not index.endswith("]") or not index[:-1].isascii() or not index[:-1].isdigit() or len(index) > 7:
                raise ValueError(text)
            steps.append(int(index[:-1]))
    return tuple(steps)

"""Launch arguments by name, read with types; remembers which of them nobody asked for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.script_errors import is_unknown, readable

_NEGATIVE: Final = re.compile(r"-[0-9.]")
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
MAX_EXPRESSION: Final = 2000
"""Characters of a per-layer expression such as ([0]*3+[1]*58)."""
MAX_LIST: Final = 100_000
"""Entries a per-layer expression or repetition may expand to."""
RENAMED: Final = {
    # Ascend/MindSpeed and MindSpeed-LLM: deprecated names and their successors.
    "use-mc2": "use-ascend-mc2", "moe-intermediate-size": "moe-ffn-hidden-size",
    "routed-scaling-factor": "moe-router-topk-scaling-factor", "topk-group": "moe-router-group-topk",
    "n-group": "moe-router-num-groups", "multi-head-latent-attention": "multi-latent-attention",
    "qk-nope-head-dim": "qk-head-dim", "qk-rope-head-dim": "qk-pos-emb-head-dim",
    "use-nd-matmul": "tp-2d", "nd1-dim1-size": "tp-x", "nd2-dim1-size": "tp-y",
    "use-deter-comp": "npu-deterministic",
    # Megatron-LM before 2022.
    "model-parallel-size": "tensor-model-parallel-size", "batch-size": "micro-batch-size",
    "checkpoint-num-layers": "recompute-num-layers",
    # MindSpeed-LLM with FSDP2: keys of its sections parallel, training and optimization.
    "tp-size": "tensor-model-parallel-size", "pp-size": "pipeline-model-parallel-size",
    "cp-size": "context-parallel-size", "ep-size": "expert-model-parallel-size",
    "per-device-train-batch-size": "micro-batch-size",
}  # fmt: skip
_SECTIONS: Final = re.compile(r"(?:parallel|training|optimization|model)\.")


def canonical(name: str) -> str:
    """An argument's name without dashes in front, with dashes inside, deprecated names and sections replaced."""
    plain = _SECTIONS.sub("", name.strip().lstrip("-").lower().replace("_", "-"), count=1)
    return RENAMED.get(plain, plain)


def parse_arguments(words: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """(values of each `--name`, words that belong to none); the last mention of a name counts."""
    found: dict[str, tuple[str, ...]] = {}
    strays: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--") or len(word) < 3:
            strays.append(word)
            continue
        name, equals, value = word.partition("=")
        stop = index
        if not equals:
            while stop < len(words) and not _is_option(words[stop]):
                stop += 1
        values = (value,) if equals else tuple(words[index:stop])
        index = stop
        found[canonical(name)] = values
    return found, strays


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NEGATIVE.match(word)


def from_mapping(data: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Arguments given as a mapping: true and null are flags that are set, false is one that is not."""
    found: dict[str, tuple[str, ...]] = {}
    for key, value in data.items():
        name = canonical(str(key))
        if value is False or (isinstance(value, str) and value.lower() == "false"):
            continue
        if value is None or value is True or (isinstance(value, str) and value.lower() == "true"):
            found[name] = ()
        elif isinstance(value, list | tuple):
            found[name] = tuple(str(item) for item in value)
        else:
            text = str(value).strip()
            inner = text[1:-1] if text.startswith("[") and text.endswith("]") and "*" not in text else text
            found[name] = tuple(inner.split()) if name not in ("hybrid-layer-pattern",) else (inner,)
    return found


class Arguments:
    """Typed reading of launch arguments.

    A value of the wrong type, or one that only running the script would give, is refused in `notes` and counts as not
    stated.
    """

    def __init__(self, data: Mapping[str, tuple[str, ...]], notes: Notes) -> None:
        self.data = data
        self.notes = notes
        self.asked: set[str] = set()

    def has(self, *names: str) -> bool:
        """Whether any of the flags is given."""
        self.asked.update(names)
        return any(name in self.data and self._on(name) for name in names)

    def _on(self, name: str) -> bool:
        values = self.data[name]
        return not (len(values) == 1 and values[0].lower() in _FALSE)

    def text(self, *names: str) -> str | None:
        """The first of the arguments that has a value."""
        self.asked.update(names)
        for name in names:
            values = self.data.get(name)
            if values:
                text = " ".join(values)
                if not is_unknown(text):
                    return text
                self._unsettled(name, text)
        return None

    def texts(self, name: str) -> list[str]:
        """The values of an argument; brackets, quotes and commas between them are dropped."""
        self.asked.add(name)
        joined = " ".join(self.data.get(name, ()))
        if is_unknown(joined):
            self._unsettled(name, joined)
            return []
        return [part for part in re.split(r"[\s,\[\]'\"]+", joined) if part]

    def whole(self, *names: str, minimum: int = 1) -> int | None:
        """The whole number of the first argument stated."""
        name = next((n for n in names if n in self.data), None)
        text = self.text(*names)
        if text is None or name is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.5
        if value != int(value) if abs(value) < 1e15 else True:
            self.notes.refuse(f"--{name} {readable(text)[:60]}: not a whole number")
            return None
        if value < minimum:
            self.notes.refuse(f"--{name} {text}: less than {minimum}")
            return None
        return int(value)

    def number(self, *names: str) -> float | None:
        """The number of the first argument stated."""
        text = self.text(*names)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            self.notes.refuse(f"--{names[0]} {text[:60]}: not a number")
            return None
        return value if abs(value) < float("inf") else None

    def wholes(self, name: str) -> list[int] | None:
        """A list of whole numbers, separated by commas or blanks."""
        parts = self.texts(name)
        if not parts:
            return None
        if not all(part.isdigit() and len(part) < 10 for part in parts):
            self.notes.refuse(f"--{name} {' '.join(parts)[:60]}: not a list of whole numbers")
            return None
        return [int(part) for part in parts]

    def pattern(self, name: str) -> int | list[int] | None:
        """A frequency, or a list written as an expression: ([0]*3+[1]*58)."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return _expression(text)
        except ValueError as error:
            self.notes.refuse(f"--{name} {text[:60]}: {error}")
            return None

    def ask(self, names: Iterable[str]) -> None:
        """Count arguments as read."""
        self.asked.update(names)

    def left(self) -> list[tuple[str, str | bool]]:
        """Stated arguments nobody asked for, with their values."""
        return [
            (name, readable(" ".join(values))[:200] if values else True)
            for name, values in self.data.items() if name not in self.asked
        ]  # fmt: skip

    def _unsettled(self, name: str, text: str) -> None:
        self.notes.refuse(f"--{name}: {readable(text)[:80]} is known only when the script runs; give it a value")


def _expression(text: str) -> int | list[int]:
    """Whole numbers, lists, `+` and `*`; nothing else is evaluated. Raises ValueError."""
    if len(text) > MAX_EXPRESSION:
        raise ValueError("too long")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("not a number or a list") from None
    try:
        value = _value(tree)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _value(node: ast.expr) -> int | list[int]:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**9:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand)
        if isinstance(inner, int):
            return -inner
    if isinstance(node, ast.List):
        items = [_value(item) for item in node.elts]
        if all(isinstance(item, int) for item in items):
            return [item for item in items if isinstance(item, int)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return _bounded(left, right, 1)
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
            return _bounded(left, [], right)
        if isinstance(node.op, ast.Mult) and isinstance(right, list) and isinstance(left, int):
            return _bounded(right, [], left)
    raise ValueError("not a number or a list of numbers")


def _bounded(left: list[int], right: list[int], times: int) -> list[int]:
    if len(left) * max(times, 0) + len(right) > MAX_LIST:
        raise ValueError("the list is too long")
    return left * times + right

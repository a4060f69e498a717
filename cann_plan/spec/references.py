"""Names, paths and `extends` inside a document, followed to the documents they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cann_plan.spec import presets
from cann_plan.spec.document import read
from cann_plan.spec.errors import Problem, SpecError, problem_at
from cann_plan.spec.node import Mark, Node, PathKey, dotted, from_plain, place
from cann_plan.spec.shorthand import merge
from cann_plan.spec.validation import shown

ModelReader = Callable[[dict[str, Any], str], Mapping[str, Any] | None]
"""Turns a foreign model description (a parsed file and its name) into our keys, or returns None if it is not one."""

EXTENDS: Final = "extends"
MAX_CHAIN: Final = 16
SUFFIXES: Final = (".yaml", ".yml", ".json")
HUGGING_FACE_KEYS: Final = ("model_type", "architectures", "text_config", "llm_config", "language_config")


def is_path(name: str) -> bool:
    """Whether a reference names a file rather than a preset."""
    return "/" in name or "\\" in name or name.lower().endswith(SUFFIXES)


def is_hugging_face(document: Node) -> bool:
    """Whether a document is a Hugging Face config.json."""
    entries = document.mapping or {}
    return "model" not in entries and any(key in entries for key in HUGGING_FACE_KEYS)


class Resolver:
    """Follows references; problems are collected so that one run reports all of them."""

    def __init__(self, model_readers: Sequence[ModelReader] = ()) -> None:
        self.model_readers = model_readers
        self.problems: list[Problem] = []

    def resolve(self, kind: str, node: Node, at: PathKey, chain: tuple[str, ...] = ()) -> Node | None:
        """`node` (a name, a path, or a mapping with optional `extends`) as a mapping; None after a problem."""
        try:
            return self._resolve(kind, node, at, chain)
        except SpecError as error:
            self.problems.extend(error.problems)
            return None

    def _resolve(self, kind: str, node: Node, at: PathKey, chain: tuple[str, ...]) -> Node:
        if isinstance(node.value, str):
            identity, document = self._load(kind, node.value, node.mark, at)
            if identity in chain:
                circle = " -> ".join(Path(step).name for step in (*chain[chain.index(identity) :], identity))
                raise SpecError([problem_at(node.mark, dotted(at), f"extends goes in a circle: {circle}")])
            if len(chain) >= MAX_CHAIN:
                raise SpecError([problem_at(node.mark, dotted(at), f"extends goes through {MAX_CHAIN} documents")])
            return self._resolve(kind, self._foreign(kind, document), at, (*chain, identity))
        if node.mapping is None:
            what = kind.removesuffix("s")
            raise SpecError([
                problem_at(node.mark, dotted(at), f"expected a {what}, found {shown(node.plain())}",
                           "a preset name, a path, or a mapping")
            ])  # fmt: skip
        base = node.get(EXTENDS)
        own = node.without(EXTENDS)
        inner = at if at[-1:] == (EXTENDS,) else (*at, EXTENDS)
        if base is None or base.value is None:
            return own
        if not isinstance(base.value, str):
            raise SpecError([
                problem_at(base.mark, dotted(inner), "expected a name", "a preset name or a path")
            ])  # fmt: skip
        path = tuple(step for step in at if step != EXTENDS)
        return merge(self._resolve(kind, base, inner, chain), own, path)

    def _load(self, kind: str, name: str, mark: Mark, at: PathKey) -> tuple[str, Node]:
        """Identity (for circles) and document of a preset or file."""
        if not is_path(name):
            preset = presets.find(kind, name)
            if preset is not None:
                return f"{kind}/{preset.name}", preset.node()
            path = dotted(at)
            allowed = f"a preset (see `cann-plan presets list {kind}`), a path, or a mapping"
            message = f"no {kind.removesuffix('s')} preset {shown(name)}"
            raise SpecError([problem_at(mark, path, message, allowed, presets.suggest(kind, name))])
        file = Path(name) if Path(name).is_absolute() else (mark.source.directory or Path()) / name
        try:
            if kind == "models" and file.is_dir():
                file /= "config.json"
            return str(file.resolve()), read(file)
        except (OSError, ValueError, RuntimeError):
            raise SpecError([problem_at(mark, dotted(at), f"cannot read {shown(name)}")]) from None
        except SpecError as error:
            if any(problem.line for problem in error.problems):
                raise
            problems = [problem_at(mark, dotted(at), f"{name}: {p.message}") for p in error.problems]
            raise SpecError(problems) from None

    def _foreign(self, kind: str, document: Node) -> Node:
        """A foreign model description in our keys; everything else as it is."""
        if kind != "models" or not is_hugging_face(document):
            return document
        for reader in self.model_readers:
            try:
                found = reader(document.plain(), document.mark.source.name)
            except (ValueError, KeyError, TypeError) as error:
                key = str(getattr(error, "path", "") or "")  # the reader's errors name the key at fault
                where = place(document, key.split("."))
                raise SpecError([problem_at(where, "model", f"not readable as a model: {error}")]) from None
            if found is not None:
                return from_plain(found, document.mark)
        raise SpecError([problem_at(document.mark, "model", "this kind of model description is not supported")])

    def model(self, node: Node) -> Node | None:
        """`model:` resolved."""
        try:
            node = self._foreign("models", node)
        except SpecError as error:
            self.problems.extend(error.problems)
            return None
        return self.resolve("models", node, ("model",))

    def cluster(self, node: Node) -> Node | None:
        """`cluster:` resolved, with its server and device as mappings."""
        cluster = self.resolve("clusters", node, ("cluster",))
        if cluster is None:
            return None
        server = cluster.get("server")
        if server is not None and server.value is not None:
            resolved = self.resolve("servers", server, ("cluster", "server"))
            if resolved is None:
                return None
            cluster = cluster.replaced("server", resolved)
        device = cluster.get("device")
        if (device is None or device.value is None) and (inner := cluster.get("server")) is not None:
            device = inner.get("device")
        if device is not None and device.value is not None:
            resolved = self.resolve("devices", device, ("cluster", "device"))
            if resolved is None:
                return None
            cluster = cluster.replaced("device", resolved)
        return cluster

"""The documents that ship with the package: models, devices, servers, clusters, profiles, plans and constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from cann_plan.records import dataclass
from cann_plan.spec.document import parse_bytes
from cann_plan.spec.errors import SpecError, closest, problem_at
from cann_plan.spec.node import Mark, Node, Source

KINDS: Final = ("models", "devices", "servers", "clusters", "profiles", "plans", "operators", "collectives")
SUFFIX: Final = ".yaml"
_ALIASES = re.compile(r"^aliases:\s*\[([^\]]*)\]", re.MULTILINE)
_DESCRIBING: Final = ("description", "summary", "generation", "network", "note", "source", "name")


@dataclass(frozen=True, slots=True)
class Preset:
    """One shipped document."""

    kind: str
    name: str
    file: Traversable

    @property
    def source(self) -> Source:
        """How messages name it, and where its relative paths start."""
        directory = Path(str(self.file)).parent if isinstance(self.file, Path) else None
        return Source(f"presets/{self.kind}/{self.name}{SUFFIX}", directory)

    @property
    def path(self) -> str:
        """Path of the file."""
        return str(self.file)

    def text(self) -> str:
        """The document as it is written."""
        return self.file.read_text(encoding="utf-8")

    def node(self) -> Node:
        """The document. Raises SpecError where it is not well-formed."""
        return _node(self.kind, self.name)

    def aliases(self) -> tuple[str, ...]:
        """Other names it is known by."""
        return tuple(alias for alias, name in _aliases(self.kind).items() if name == self.name)

    def description(self) -> str:
        """One line about it: its first comment, or the key that says most."""
        first = self.text().split("\n", 1)[0]
        if first.startswith("#") and first.strip("# "):
            return first.strip("# ")
        node = self.node()
        for key in _DESCRIBING:
            child = node.get(key)
            if child is not None and isinstance(child.value, str):
                return " ".join(child.value.split())
        return ""


def root() -> Traversable:
    """The folder that holds the kinds: inside the wheel, or beside the package in a checkout."""
    package = files("cann_plan")
    inside = package.joinpath("presets")
    if inside.is_dir() or not isinstance(package, Path):
        return inside
    return package.parent / "presets"


def names(kind: str) -> tuple[str, ...]:
    """Names of the presets of a kind, sorted. Raises KeyError for an unknown kind."""
    return tuple(_files(kind))


def all_presets(kinds: Iterable[str] = KINDS) -> list[Preset]:
    """Every preset of the kinds. Raises KeyError for an unknown kind."""
    return [Preset(kind, name, file) for kind in kinds for name, file in _files(kind).items()]


def find(kind: str, name: str) -> Preset | None:
    """The preset of this name or alias, None if there is none. Raises KeyError for an unknown kind."""
    table = _files(kind)
    if name not in table:
        folded = _fold(name)
        name = {_fold(known): known for known in table}.get(folded) or _aliases(kind).get(folded, "")
    return Preset(kind, name, table[name]) if name in table else None


def suggest(kind: str, name: str) -> str | None:
    """The preset name nearest to `name`."""
    return closest(name, [*names(kind), *_aliases(kind)])


def load(kind: str, name: str, mark: Mark | None = None) -> Node:
    """The document of a preset. Raises SpecError for an unknown name, at `mark` or nowhere in particular."""
    preset = find(kind, name)
    if preset is None:
        at = mark or Mark(Source(f"preset {name[:80]}"))
        raise SpecError([problem_at(at, None, f"no {kind.removesuffix('s')} preset {name[:80]!r}",
                                    f"see `cann-plan presets list {kind}`", suggest(kind, name))])  # fmt: skip
    return preset.node()


@cache
def _files(kind: str) -> dict[str, Traversable]:
    if kind not in KINDS:
        raise KeyError(kind)
    folder = root().joinpath(kind)
    if not folder.is_dir():
        return {}
    found = {f.name.removesuffix(SUFFIX): f for f in folder.iterdir() if f.name.endswith(SUFFIX)}
    return dict(sorted(found.items()))


@cache
def _aliases(kind: str) -> dict[str, str]:
    """Folded alias -> name; read without parsing the documents."""
    result: dict[str, str] = {}
    for name, file in _files(kind).items():
        match = _ALIASES.search(file.read_text(encoding="utf-8"))
        for alias in match.group(1).split(",") if match else ():
            result.setdefault(_fold(alias.strip().strip("'\"")), name)
    return result


@cache
def _node(kind: str, name: str) -> Node:
    preset = Preset(kind, name, _files(kind)[name])
    return parse_bytes(preset.file.read_bytes(), preset.source)


def _fold(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")

"""A topology file: link levels from the innermost out, for questions about a network without a cluster around it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from cann_plan.spec.base import Section, key
from cann_plan.spec.cluster import Library
from cann_plan.spec.device import UnknownFigureError
from cann_plan.spec.document import read
from cann_plan.spec.errors import SpecError, problem_at
from cann_plan.spec.node import Node, dotted, place
from cann_plan.spec.quantity import Name, NonNegativeInt
from cann_plan.spec.server import LevelSpec
from cann_plan.spec.validation import shown, validate

LINKS_SCHEMA: Final = "cann-plan/links/1"
LONGEST_HOP: Final = 1.0
"""Seconds; a longer latency is a number whose unit is missing (a message round the earth takes 0.2 s)."""
MOST_DEVICES: Final = 2**31 - 1  # group sizes and strides are held in 31 bits
Generation = Literal["910a", "a2", "a3", "950", "volta", "ampere", "hopper", "blackwell", "mi300"]


class LinkFile(Section):
    """Nested levels of links; `bandwidth` per link and direction (switch: per device port), `latency` per hop."""

    schema_id: Literal["cann-plan/links/1"] = Field(LINKS_SCHEMA, alias="schema")
    name: Name | None = key("what the output calls this network")
    levels: tuple[LevelSpec, ...] = Field(description="levels of links, innermost first")
    library: Library = Field("ideal", description="collective library; ideal: no software time, fastest algorithm")
    generation: Generation | None = key("product generation whose library constants apply")
    node_levels: NonNegativeInt | None = key("innermost levels that lie inside one server; default 1")

    def network_levels(self) -> list[dict[str, Any]]:
        """Levels as plain SI numbers for the network model. Raises UnknownFigureError."""
        return [level.as_mapping("the topology file") for level in self.levels]


def read_link_file(path: str | Path) -> LinkFile:
    """The topology in a file, or in standard input for "-".

    Raises:
        SpecError: located problems of the document.
    """
    root = read(path)
    if root.mapping is None:
        raise SpecError([
            problem_at(root.mark, None, f"expected a topology, found {shown(root.plain())}", "a mapping with levels")
        ])  # fmt: skip
    given = root.get("levels")
    spec, problems = validate(LinkFile, _with_names(root))
    if given is not None and isinstance(given.value, list):
        if not given.value:
            problems.append(problem_at(given.mark, "levels", "no level of links", "at least one level"))
        for index, item in enumerate(given.value):
            size = item.get("size")
            if size is not None and size.value == "rest":
                where = f"levels[{index}].size"
                problems.append(problem_at(size.mark, where, "a topology file states every size", "a whole number"))
    if spec is not None and not problems:
        problems += _whole(spec, root)
    if problems or spec is None:
        raise SpecError(problems)
    return spec


def _whole(spec: LinkFile, root: Node) -> list[Any]:
    """What is wrong with the levels taken together."""
    mark = (root.get("levels") or root).mark
    if math.prod(level.count for level in spec.levels) > MOST_DEVICES:
        return [problem_at(mark, "levels", "the levels join too many devices", f"at most {MOST_DEVICES}")]
    if spec.node_levels is not None and spec.node_levels > len(spec.levels):
        inside = root.get("node_levels")
        message = f"{spec.node_levels} levels inside a server, but there are {len(spec.levels)}"
        return [problem_at((inside or root).mark, "node_levels", message, f"at most {len(spec.levels)}")]
    for index, level in enumerate(spec.levels):
        if level.latency.value is not None and level.latency.value > LONGEST_HOP:
            where = ("levels", index, "latency")
            message = f"{level.latency.value:g} s is implausibly long: is a unit missing?"
            return [problem_at(place(root, where), dotted(where), message, "a time with a unit, for example 500 ns")]
    try:
        spec.network_levels()
    except UnknownFigureError as error:
        return [problem_at(mark, "levels", str(error), "a figure for every bandwidth and latency")]
    return []


def _with_names(root: Node) -> Node:
    """Levels without a name are called by their place and kind."""
    levels = root.get("levels")
    if levels is None or not isinstance(levels.value, list):
        return root
    named = []
    for index, item in enumerate(levels.value):
        kind = item.get("kind")
        if item.mapping is not None and item.get("name") is None:
            word = f" {kind.value}" if kind is not None and isinstance(kind.value, str) else ""
            item = item.replaced("name", Node(f"level {index}{word}", item.mark))
        named.append(item)
    return root.replaced("levels", Node(named, levels.mark))

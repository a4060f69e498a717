"""Writing shorthands out, and merging and overriding documents that use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cann_plan.spec.base import Section
from cann_plan.spec.errors import SpecError, problem_at
from cann_plan.spec.node import Node, PathKey, dotted, from_plain
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.validation import field_model, shown

REFERENCES: Final[frozenset[PathKey]] = frozenset(
    {("model",), ("cluster",), ("cluster", "server"), ("cluster", "device")}
)
"""Sections that may be a name, which stands for `{extends: name}`."""

ALTERNATIVES: Final[dict[PathKey, tuple[str, ...]]] = {
    ("training",): ("tokens", "samples", "steps", "epochs"),
    ("cluster",): ("nodes", "devices"),
    ("parallel", "recompute"): ("layers", "per_stage"),
}
"""Keys of which a document states one; stating another one on top replaces it."""


def written_out(node: Node, path: PathKey) -> Node:
    """A shorthand (`recompute: full`) as the mapping it stands for; anything else as it is."""
    if isinstance(node.value, dict):
        return node
    if node.value is None:
        return Node({}, node.mark)
    if path in REFERENCES and isinstance(node.value, str):
        return Node({"extends": node}, node.mark, {"extends": node.mark})
    model = field_model(PlanSpec, path)
    if model is None or not issubclass(model, Section):
        return node
    try:
        data = model._shorthand(node.plain())
    except ValueError:  # not a shorthand either; validation says so
        return node
    return from_plain(data, node.mark) if isinstance(data, dict) else node


def merge(base: Node, over: Node, path: PathKey = ()) -> Node:
    """`over` on top of `base`: mappings key by key, everything else replaced; each keeps its place.

    A figure (a mapping with `value`) is replaced whole, so that a value never keeps another value's source.
    """
    if not isinstance(over.value, dict) or "value" in over.value:
        return over
    base = written_out(base, path)
    if not isinstance(base.value, dict):
        return over
    entries, keys = dict(base.value), dict(base.keys)
    group = ALTERNATIVES.get(path, ())
    if any(name in over.value for name in group):
        for name in group:
            entries.pop(name, None)
            keys.pop(name, None)
    for name, child in over.value.items():
        entries[name] = merge(entries[name], child, (*path, name)) if name in entries else child
    return Node(entries, over.mark, {**keys, **over.keys})


def put(root: Node, path: Sequence[str | int], child: Node, done: PathKey = ()) -> Node:
    """`root` with the value at `path` set to `child`. Raises SpecError where there is nothing to set it in."""
    if len(done) == len(path):
        return child
    step = path[len(done)]
    here = (*done, step)
    if isinstance(step, int):
        if not isinstance(root.value, list) or step >= len(root.value):
            raise SpecError([problem_at(child.mark, dotted(path), f"{dotted(done)} has no entry {step}")])
        items = list(root.value)
        items[step] = put(items[step], path, child, here)
        return Node(items, root.mark)
    root = written_out(root, done)
    if not isinstance(root.value, dict):
        raise SpecError([
            problem_at(child.mark, dotted(path), f"{dotted(done)} is {shown(root.plain())}, not a mapping")
        ])  # fmt: skip
    if here == tuple(path) and step in (group := ALTERNATIVES.get(done, ())):
        root = root.without(*(name for name in group if name != step))
    inner = root.value.get(step) if isinstance(root.value, dict) else None
    return root.replaced(step, put(inner or Node(None, child.mark), path, child, here), child.mark)

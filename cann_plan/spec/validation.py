"""Validating a node tree against a document model, with located, friendly problems instead of pydantic's."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from cann_plan.spec import synonyms
from cann_plan.spec.base import Collector
from cann_plan.spec.errors import Problem, closest, problem_at
from cann_plan.spec.node import Node, PathKey, dotted, place, walk

M = TypeVar("M", bound=BaseModel)

MAX_LISTED: Final = 24  # keys named in one message
_QUOTED = re.compile(r"'([^']*)'|(?<![\w'])(-?\d+)(?![\w'])")
_EXPECTED: Final[dict[str, str]] = {
    "model_type": "a mapping", "model_attributes_type": "a mapping", "dict_type": "a mapping",
    "mapping_type": "a mapping", "tuple_type": "a list", "list_type": "a list", "iterable_type": "a list",
    "set_type": "a list", "bool_type": "true or false", "bool_parsing": "true or false", "string_type": "text",
    "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "finite_number": "a finite number",
    "none_required": "nothing",
}  # fmt: skip


def validate(model: type[M], root: Node, at: PathKey = ()) -> tuple[M | None, list[Problem]]:
    """`root` as a `model`, or the problems found; `at` is the path of `root` in the document the user wrote."""
    plain = root.plain()
    collector = Collector()
    try:
        result, problems = model.model_validate(plain, context=collector), []
    except ValidationError as error:
        result, problems = None, list(_problems(model, root, error, at))
    if collector.found:
        paths = _paths_by_identity(plain)
        for mapping, contradiction in collector.found:
            path = paths.get(id(mapping), ())
            message, allowed, suggestion = _texts("refused", contradiction.context or {}, mapping, "")
            problems.append(problem_at(place(root, path), dotted((*at, *path)), message, allowed, suggestion))
    return (None if problems else result), problems


def _paths_by_identity(data: Any) -> dict[int, PathKey]:
    """Path of every list and mapping inside `data`, by object identity."""
    paths: dict[int, PathKey] = {}
    pending: list[tuple[PathKey, Any]] = [((), data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict | list):
            paths[id(value)] = path
            items = value.items() if isinstance(value, dict) else enumerate(value)
            pending.extend(((*path, key), child) for key, child in items)
    return paths


def _problems(model: type[BaseModel], root: Node, error: ValidationError, at: PathKey) -> Iterator[Problem]:
    raw: list[Any] = error.errors(include_url=False)
    for item in _one_branch(root, raw):
        yield _problem(model, root, item, at)


def _one_branch(root: Node, items: list[Any]) -> list[Any]:
    """Of the alternatives of a union keep the one the document came closest to (its errors lie deepest)."""
    best: dict[PathKey, dict[str | int, int]] = {}
    forks: list[list[tuple[PathKey, str | int]]] = []
    for item in items:
        steps: list[str | int] = list(item["loc"])
        fork: list[tuple[PathKey, str | int]] = []
        node = root
        path: PathKey = ()
        for position, step in enumerate(steps):
            taken, child = walk(node, (step,))
            last = position == len(steps) - 1
            if taken:
                node, path = child, (*path, step)
            elif last and item["type"] in ("extra_forbidden", "missing"):
                continue
            elif not fork or fork[-1][0] != path:
                fork.append((path, step))
        depth = len(path) + (item["type"] in ("extra_forbidden", "missing"))
        for where, branch in fork:
            branches = best.setdefault(where, {})
            branches[branch] = max(branches.get(branch, 0), depth)
        forks.append(fork)
    winners = {where: max(branches, key=lambda b: branches[b]) for where, branches in best.items()}
    kept = [item for item, fork in zip(items, forks, strict=True) if all(winners[w] == b for w, b in fork)]
    return kept or items


def _problem(model: type[BaseModel], root: Node, item: Any, at: PathKey) -> Problem:
    loc: PathKey = tuple(item["loc"])
    kind: str = item["type"]
    context: dict[str, Any] = item.get("ctx") or {}
    if kind == "extra_forbidden":
        return _unknown_key(model, root, walk(root, loc[:-1])[0], str(loc[-1]), at)
    path, node = walk(root, loc)
    mark = node.mark
    value = item.get("input")
    if kind == "missing":
        parent = place(root, path, of_key=True) if path else mark
        return problem_at(parent, dotted((*at, *path, loc[-1])), "is missing")
    message, allowed, suggestion = _texts(kind, context, value, str(item["msg"]))
    return problem_at(mark, dotted((*at, *path)), message, allowed, suggestion)


def _texts(kind: str, context: dict[str, Any], value: object, text: str) -> tuple[str, str | None, str | None]:
    """(message, allowed, suggestion) of one pydantic error."""
    if kind == "refused":
        return str(context["message"]), context.get("allowed"), context.get("suggestion")
    if kind in ("literal_error", "enum"):
        choices = [quoted or number for quoted, number in _QUOTED.findall(str(context.get("expected", "")))]
        suggestion = closest(value, choices, synonyms.VALUES) if isinstance(value, str) else None
        found = f"unknown value {shown(value)}" if isinstance(value, str) else f"{shown(value)} is not allowed here"
        return found, ", ".join(choices), suggestion
    if kind in _EXPECTED:
        expected = _EXPECTED[kind]
        suggestion = None
        if expected == "true or false" and isinstance(value, str):
            suggestion = closest(value, ("true", "false"), synonyms.VALUES)
        return f"expected {expected}, found {shown(value)}", expected, suggestion
    if kind == "value_error":
        return text.removeprefix("Value error, "), None, None
    if kind == "string_pattern_mismatch":
        return f"{shown(value)} has the wrong form", _pattern(str(context.get("pattern", ""))), None
    return f"{shown(value)}: {text[:1].lower()}{text[1:].replace('Input should', 'should')}", None, None


def _pattern(pattern: str) -> str:
    return "a three-letter ISO 4217 code, for example CNY" if pattern == "^[A-Z]{3}$" else f"text like {pattern}"


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return str(value)[:60] if isinstance(value, int | float) else "this"


def _unknown_key(model: type[BaseModel], root: Node, path: PathKey, name: str, at: PathKey) -> Problem:
    owner = _models_at(model, path)
    known = [key for kind in owner for key in keys_of(kind)]
    suggestion = closest(name, known, synonyms.KEYS) or _elsewhere(model, name)
    _, parent = walk(root, path)
    mark = parent.keys.get(name, parent.mark)
    listed = list(dict.fromkeys(known))
    allowed = ", ".join(listed[:MAX_LISTED]) + (", ..." if len(listed) > MAX_LISTED else "")
    return problem_at(mark, dotted((*at, *path, name)), f"unknown key {shown(name)}", allowed or None, suggestion)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Names of the keys of a section as the document writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _elsewhere(model: type[BaseModel], name: str) -> str | None:
    """The key of another section with this name (or a synonym of it)."""
    folded = name.casefold().replace("-", "_")
    wanted = {folded, synonyms.KEYS.get(folded, folded)}
    for section, field in model.model_fields.items():
        for kind in _models_in(field.annotation):
            for key in keys_of(kind):
                if key in wanted:
                    return f"{section}.{key}"
    return None


def _models_at(model: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    """The sections a document may have at `path`."""
    current: list[Any] = [model]
    for step in path:
        following: list[Any] = []
        for kind in current:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                by_name = {field.alias or name: field for name, field in kind.model_fields.items()}
                if step in by_name:
                    following.extend(_arguments(by_name[str(step)].annotation))
            else:  # list[...], Mapping[...]
                following.extend(a for argument in typing.get_args(kind) for a in _arguments(argument))
        current = following
    return [kind for kind in current if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _arguments(annotation: Any) -> list[Any]:
    """The alternatives of a union, without Annotated wrappers."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _arguments(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [a for argument in typing.get_args(annotation) for a in _arguments(argument)]
    return [annotation]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    return [a for a in _arguments(annotation) if isinstance(a, type) and issubclass(a, BaseModel)]


def field_model(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel] | None:
    """The section at `path`, None where there is none or more than one."""
    found = _models_at(model, path)
    return found[0] if len(found) == 1 else None


def models_within(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every section named anywhere in an annotation, inside lists and mappings too."""
    for kind in _arguments(annotation):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind
        else:
            for argument in typing.get_args(kind):
                yield from models_within(argument)

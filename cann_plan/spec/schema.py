"""JSON Schema (draft 2020-12) of the documents a user writes, shorthands included, for editors and other tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from cann_plan.spec.base import JsonSchema, Section
from cann_plan.spec.cluster import ClusterSpec
from cann_plan.spec.device import DeviceSpec
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.quantity import UNKNOWN, Figure
from cann_plan.spec.server import ServerSpec
from cann_plan.spec.validation import models_within

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: Final[dict[str, type[BaseModel]]] = {
    "plan": PlanSpec, "model": ModelSpec, "cluster": ClusterSpec, "server": ServerSpec, "device": DeviceSpec,
}  # fmt: skip
NAMED: Final = frozenset({"ModelSpec", "ClusterSpec", "ServerSpec", "DeviceSpec"})
"""Sections that may be a preset name or path, and may extend one."""


def plan_schema() -> JsonSchema:
    """Schema of the plan file."""
    return document_schema("plan")


def document_schema(kind: str) -> JsonSchema:
    """Schema of one kind of document (a key of `DOCUMENTS`). Raises KeyError."""
    model = DOCUMENTS[kind]
    classes = {cls.__name__: cls for cls in (model, *_all_models(model))}
    schema = model.model_json_schema()
    definitions: dict[str, JsonSchema] = schema.pop("$defs", {})
    for name, definition in definitions.items():
        definitions[name] = _widened(definition, classes.get(str(definition.get("title"))))
    _extendable(schema)
    if kind == "plan":
        properties = schema["properties"]
        for key in ("model", "cluster"):
            properties[key]["anyOf"].insert(0, {"type": "string", "minLength": 1})
        properties["parallel"].setdefault("description", "layout")
    head: JsonSchema = {"$schema": DIALECT, "$id": f"cann-plan/{kind}/1", "title": f"cann-plan {kind}"}
    rest: JsonSchema = {key: value for key, value in schema.items() if key != "title"}
    return {**head, **rest, "$defs": definitions} if definitions else {**head, **rest}


def _all_models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    seen: set[type[BaseModel]] = {model}
    pending = [model]
    while pending:
        for field in pending.pop().model_fields.values():
            for inner in models_within(field.annotation):
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)
                    yield inner


def _widened(definition: JsonSchema, cls: type[BaseModel] | None) -> JsonSchema:
    """A section's schema with the other forms a document may use for it."""
    properties: dict[str, Any] = definition.get("properties", {})
    if definition.get("title") in NAMED:
        _extendable(definition)
    if cls is None:
        return definition
    if issubclass(cls, Figure):
        properties["value"] = {"anyOf": [properties["value"], {"const": UNKNOWN}]}
        forms: list[JsonSchema] = [properties["value"]]
    elif issubclass(cls, Section):
        forms = [properties[form] if isinstance(form, str) else form for form in cls.accepts]
    else:
        return definition
    bare = [{k: v for k, v in form.items() if k not in ("title", "default", "description")} for form in forms]
    return {"anyOf": [definition, *bare, {"type": "null"}]}


def _extendable(schema: JsonSchema) -> None:
    """Allow `extends`, which may bring every required key."""
    if "properties" in schema:
        schema["properties"].setdefault("extends", {"type": "string", "description": "preset or path to start from"})
        schema.pop("required", None)

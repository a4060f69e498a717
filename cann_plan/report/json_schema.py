"""JSON Schema of a contract document, made from its typed dictionary.

Objects stay open (`additionalProperties` is left out) so that a new key within the same schema id breaks nobody;
`strict=True` closes them, which is what the tests use to notice a key that the contract does not know.
"""

import types
from typing import Any, ForwardRef, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from typing import is_typeddict as _is_typeddict

from cann_plan.planner.contract import DOCUMENTS
from cann_plan.report.key_units import unit_of

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
}


def document_schema(command: str, *, strict: bool = False) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the document `command` prints.

    Raises:
        KeyError: there is no such document.
    """
    document = DOCUMENTS[command]
    definitions: dict[str, Any] = {}
    root = _object(document, definitions, strict)
    schema = {"$schema": _DRAFT, "title": f"cann-plan {command}", **root}
    if definitions:
        schema["$defs"] = dict(sorted(definitions.items()))
    return schema


def _object(document: type, definitions: dict[str, Any], strict: bool) -> dict[str, Any]:
    hints = get_type_hints(document, include_extras=True)
    required = [key for key in hints if key in document.__required_keys__]  # type: ignore[attr-defined]
    properties = {key: _described(key, _schema(hint, definitions, strict)) for key, hint in hints.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if document.__doc__ and not document.__doc__.startswith("dict("):
        schema["description"] = " ".join(document.__doc__.split())
    if strict:
        schema["additionalProperties"] = False
    return schema


def _described(key: str, schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema or "const" in schema:
        return schema
    unit = unit_of(key)
    return {**schema, "description": unit} if unit else schema


def _schema(hint: Any, definitions: dict[str, Any], strict: bool) -> dict[str, Any]:
    if hint is Any:
        return {}
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if _is_typeddict(hint):
        name = hint.__name__
        if name not in definitions:
            definitions[name] = {}  # placeholder, so that a type that refers to itself ends
            definitions[name] = _object(hint, definitions, strict)
        return {"$ref": f"#/$defs/{name}"}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Required):
        return _schema(arguments[0], definitions, strict)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union([_schema(argument, definitions, strict) for argument in arguments])
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], definitions, strict)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions, strict)}
    if isinstance(hint, ForwardRef):
        raise TypeError(f"unresolved type {hint.__forward_arg__} in the contract")
    raise TypeError(f"no JSON Schema for {hint!r}")


def _union(options: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(option) == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}

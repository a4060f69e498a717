"""The presets that ship with the tool as documents: listing them, finding one by name or alias, showing it."""

from collections.abc import Mapping
from typing import Any

from cann_plan.planner.contract import PresetDocument, PresetItem, PresetsDocument
from cann_plan.spec import presets
from cann_plan.spec.errors import closest


class PresetError(ValueError):
    """No preset, or more than one, has this name; `allowed` and `suggestion` say which could be meant."""

    def __init__(self, message: str, allowed: str | None, suggestion: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.allowed = allowed
        self.suggestion = suggestion


def kinds() -> list[str]:
    """Kinds of presets that have any: clusters, devices, models, ..."""
    return sorted(kind for kind in presets.KINDS if presets.names(kind))


def list_presets(kind: str | None = None) -> PresetsDocument:
    """Every preset, or those of one kind.

    Raises:
        PresetError: there is no such kind.
    """
    if kind is not None and kind not in presets.KINDS:
        raise PresetError(f"no kind of preset named {kind!r}", ", ".join(kinds()), closest(kind, kinds()))
    items: list[PresetItem] = [
        {"kind": item.kind, "name": item.name, "path": item.path, "summary": _summary(item)}
        for item in presets.all_presets([kind] if kind else kinds())
    ]
    return {"schema": "cann-plan/presets/1", "presets": items}


def show_preset(name: str) -> PresetDocument:
    """One preset with its text. `name` is a name, an alias, or `kind/name`.

    Raises:
        PresetError: no preset, or more than one, has this name.
    """
    item = find_preset(name)
    return {
        "schema": "cann-plan/preset/1",
        "kind": item.kind,
        "name": item.name,
        "path": item.path,
        "content": item.node().plain(),
        "text": item.text(),
    }


def find_preset(name: str) -> presets.Preset:
    """The preset `name`; names go before aliases.

    Raises:
        PresetError: no preset, or more than one, has this name.
    """
    kind, _, wanted = name.strip().rpartition("/")
    if kind and kind not in presets.KINDS:
        raise PresetError(f"no kind of preset named {kind!r}", ", ".join(kinds()), closest(kind, kinds()))
    known = [kind] if kind else kinds()
    found = [item for item in (presets.find(each, wanted) for each in known) if item is not None]
    exact = [item for item in found if item.name.casefold() == wanted.casefold()]
    chosen = exact or found
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        allowed = ", ".join(f"{item.kind}/{item.name}" for item in chosen)
        raise PresetError(f"{name!r} names more than one preset", allowed, None)
    candidates = [candidate for each in known for candidate in presets.names(each)]
    raise PresetError(f"no preset named {name!r}", None, closest(wanted, candidates))


def _summary(item: presets.Preset) -> str | None:
    content: Mapping[str, Any] = item.node().plain()
    parts: list[str] = []
    if "peak" in content:  # a device
        parts += [str(content.get("vendor", "")), _figure(content.get("memory", {}).get("capacity"))]
        precision = next((name for name in ("bf16", "fp16", "fp32") if name in content["peak"]), None)
        if precision:
            parts.append(f"{precision} {_figure(content['peak'][precision])}")
    elif "devices_per_node" in content:  # a server
        parts.append(f"{content['devices_per_node']} x {content.get('device')} per node")
    elif "hidden_size" in content:  # a model
        parts.append(f"{content.get('layers')} layers, hidden size {content['hidden_size']}")
        parts.append(_source(content.get("source")))
    return ", ".join(part for part in parts if part) or item.description() or None


def _figure(value: object) -> str:
    return str(value.get("value", "")) if isinstance(value, Mapping) else str(value or "")


def _source(value: object) -> str:
    return value if isinstance(value, str) else ""

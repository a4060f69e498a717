"""The presets that ship with the tool: listing them, finding one by name or alias, reading it."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from cann_plan.planner.contract import PresetDocument, PresetItem, PresetsDocument
from cann_plan.spec.hardware_presets import preset_directory

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PresetError(ValueError):
    """No preset, or more than one, has this name; `allowed` and `suggestion` say which could be meant."""

    def __init__(self, message: str, allowed: str | None, suggestion: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.allowed = allowed
        self.suggestion = suggestion


def root() -> Path:
    """The folder that holds one folder per kind."""
    return preset_directory("devices").parent


def kinds() -> list[str]:
    """Kinds of presets: clusters, devices, models, ..."""
    return sorted(folder.name for folder in root().iterdir() if folder.is_dir() and any(folder.glob("*.yaml")))


def names(kind: str) -> list[str]:
    """Names of one kind, without aliases; empty for a kind that does not exist."""
    return sorted(file.stem for file in (root() / kind).glob("*.yaml"))


def list_presets(kind: str | None = None) -> PresetsDocument:
    """Every preset, or those of one kind.

    Raises:
        PresetError: there is no such kind.
    """
    if kind is not None and kind not in kinds():
        raise PresetError(f"no kind of preset named {kind!r}", ", ".join(kinds()), _close(kind, kinds()))
    items: list[PresetItem] = []
    for file in _files(kind):
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
        items.append({"kind": file.parent.name, "name": file.stem, "path": str(file), "summary": _summary(content)})
    return {"schema": "cann-plan/presets/1", "presets": items}


def show_preset(name: str) -> PresetDocument:
    """One preset with its text. `name` is a name, an alias, or `kind/name`.

    Raises:
        PresetError: no preset, or more than one, has this name.
    """
    file = find_preset(name)
    text = file.read_text(encoding="utf-8")
    return {
        "schema": "cann-plan/preset/1",
        "kind": file.parent.name,
        "name": file.stem,
        "path": str(file),
        "content": yaml.load(text, Loader=_LOADER),
        "text": text,
    }


def find_preset(name: str) -> Path:
    """The file of the preset `name`; a name goes before an alias.

    Raises:
        PresetError: no preset, or more than one, has this name.
    """
    kind, _, wanted = name.strip().lower().rpartition("/")
    files = list(_files(kind or None))
    found = [file for file in files if file.stem.lower() == wanted] or [
        file for file in files if wanted in _aliases(file)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        allowed = ", ".join(f"{file.parent.name}/{file.stem}" for file in found)
        raise PresetError(f"{name!r} names more than one preset", allowed, None)
    raise PresetError(f"no preset named {name!r}", None, _close(wanted, [file.stem for file in files]))


def _files(kind: str | None) -> Iterator[Path]:
    for folder in [kind] if kind else kinds():
        yield from sorted((root() / folder).glob("*.yaml"))


def _aliases(file: Path) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        line = next((line for line in lines if line.startswith("aliases:")), "aliases: []")
    return [str(alias).lower() for alias in yaml.load(line, Loader=_LOADER)["aliases"] or []]


def _close(name: str, candidates: list[str]) -> str | None:
    return next(iter(get_close_matches(name, candidates, n=1, cutoff=0.5)), None)


def _summary(content: Mapping[str, Any]) -> str | None:
    for key in ("description", "summary", "network", "reference"):
        if isinstance(content.get(key), str):
            return str(content[key])
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
    return ", ".join(part for part in parts if part) or None


def _figure(value: object) -> str:
    return str(value.get("value", "")) if isinstance(value, Mapping) else str(value or "")


def _source(value: object) -> str:
    return value if isinstance(value, str) else ""

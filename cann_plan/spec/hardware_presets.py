"""Device, server and cluster presets by name or alias, and a cluster document resolved against them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

import cann_plan
from cann_plan.spec.cluster import Cluster, ClusterError, ClusterSpec, resolve
from cann_plan.spec.device import DeviceSpec
from cann_plan.spec.server import ServerSpec

Kind = Literal["devices", "servers", "clusters"]
KINDS: Final[tuple[Kind, ...]] = ("devices", "servers", "clusters")

# The usual cluster of a device, for documents that name only the device.
DEFAULT_CLUSTERS: Final[Mapping[str, str]] = {
    "ascend-910a-32g": "atlas-800-9000",
    "ascend-910b-64g": "atlas-900-a2",
    "ascend-910b1-64g": "atlas-900-a2",
    "ascend-910b3-64g": "atlas-900-a2",
    "ascend-910b4-64g": "atlas-800t-a2",
    "ascend-910b4-32g": "atlas-800t-a2",
    "ascend-910c-die-64g": "atlas-900-a3",
    "ascend-910c-560t-die-64g": "atlas-800t-a3",
    "ascend-950pr-112g": "atlas-350",
    "ascend-950pr-128g": "atlas-850",
    "ascend-950dt-144g": "atlas-850",
    "v100-16g-sxm": "dgx-2",
    "v100-32g-sxm": "dgx-2",
    "a100-40g-sxm": "dgx-a100-40g",
    "a100-80g-sxm": "dgx-a100",
    "a100-80g-pcie": "workstation",
    "a800-80g-sxm": "hgx-a800",
    "h100-80g-sxm": "dgx-h100",
    "h100-80g-pcie": "workstation",
    "h100-94g-nvl": "workstation",
    "h100-96g-hbm2e": "hgx-h100-96g",
    "h800-80g-sxm": "hgx-h800",
    "h20-96g": "hgx-h20",
    "h200-141g-sxm": "dgx-h200",
    "gh200-96g": "workstation",
    "b200-180g-sxm": "dgx-b200",
    "b300-288g-sxm": "dgx-b300",
    "gb200-nvl72": "gb200-nvl72",
    "gb300-nvl72": "gb300-nvl72",
    "l40s-48g": "l40s-8",
    "l40-48g": "l40s-8",
    "a40-48g": "workstation",
    "t4-16g": "workstation",
    "rtx3090-24g": "workstation",
    "rtx4090-24g": "workstation",
    "rtx-a6000-48g": "workstation",
    "mi250x-gcd-64g": "frontier",
    "mi300x-192g": "mi300x-platform",
    "mi325x-256g": "mi325x-platform",
    "mi350x-288g": "mi355x-platform",
    "mi355x-288g": "mi355x-platform",
    "tpu-v3": "tpu-v3",
    "tpu-v4": "tpu-v4",
    "tpu-v5e": "tpu-v5e",
    "tpu-v5p": "tpu-v5p",
    "tpu-v6e": "tpu-v6e",
    "tpu-v7x": "tpu-v6e",
    "gaudi2-96g": "gaudi2-8",
    "gaudi3-128g": "gaudi3-8",
}


class UnknownPresetError(ValueError):
    """No preset has this name or alias; `suggestion` is the nearest one."""

    def __init__(self, kind: Kind, name: str) -> None:
        known = sorted(_index(kind))
        near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        super().__init__(f"no preset {name!r} in {kind}{f'; did you mean {near[0]!r}?' if near else ''}")
        self.kind = kind
        self.name = name
        self.allowed = tuple(preset_names(kind))
        self.suggestion = near[0] if near else None


def preset_directory(kind: Kind) -> Path:
    """Directory of the shipped presets: inside the wheel, or beside the package in a source tree."""
    package = Path(cann_plan.__file__).resolve().parent
    inside = package / "presets" / kind
    return inside if inside.is_dir() else package.parent / "presets" / kind


@cache
def preset_names(kind: Kind) -> tuple[str, ...]:
    """Names of the shipped presets, without aliases."""
    return tuple(sorted(path.stem for path in preset_directory(kind).glob("*.yaml")))


@cache
def _index(kind: Kind) -> Mapping[str, str]:
    """Lower-case name or alias -> preset name. Reads only the line of aliases of each file."""
    index: dict[str, str] = {}
    for name in preset_names(kind):
        index[name.lower()] = name
        with (preset_directory(kind) / f"{name}.yaml").open(encoding="utf-8") as file:
            line = next((line for line in file if line.startswith("aliases:")), "aliases: []")
        for alias in line.removeprefix("aliases:").strip().strip("[]").split(","):
            if alias.strip():
                index.setdefault(alias.strip().strip("'\"").lower(), name)
    return index


def canonical_name(kind: Kind, name: str) -> str:
    """The preset a name or alias (any case) means. Raises UnknownPresetError."""
    found = _index(kind).get(name.strip().lower())
    if found is None:
        raise UnknownPresetError(kind, name)
    return found


def preset_document(kind: Kind, name: str) -> dict[str, Any]:
    """The document of a preset as written. Raises UnknownPresetError."""
    path = preset_directory(kind) / f"{canonical_name(kind, name)}.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    if not isinstance(document, dict):
        raise ValueError(f"{path}: not a mapping")
    return document


@cache
def _device(name: str) -> DeviceSpec:
    return DeviceSpec.model_validate(preset_document("devices", name))


@cache
def _server(name: str) -> ServerSpec:
    return ServerSpec.model_validate(preset_document("servers", name))


def load_device(name: str) -> DeviceSpec:
    """A device preset by name or alias. Raises UnknownPresetError."""
    return _device(canonical_name("devices", name))


def load_server(name: str) -> ServerSpec:
    """A server preset by name or alias. Raises UnknownPresetError."""
    return _server(canonical_name("servers", name))


def load_cluster_spec(name: str) -> ClusterSpec:
    """A cluster preset by name or alias, not yet resolved. Raises UnknownPresetError."""
    return ClusterSpec.model_validate(preset_document("clusters", name))


def extended(kind: Kind, document: Mapping[str, Any]) -> dict[str, Any]:
    """`document` on top of the preset its `extends` names; mappings merge key by key, everything else replaces."""
    own = {key: value for key, value in document.items() if key != "extends"}
    parent = document.get("extends")
    if parent is None:
        return own
    base = preset_document(kind, str(parent))
    own.setdefault("aliases", [])
    if kind == "clusters" and ("nodes" in own) != ("devices" in own):  # one of them replaces whichever the preset has
        base = {key: value for key, value in base.items() if key not in ("nodes", "devices")}
    return _merged(base, own)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        sourced = isinstance(below, dict) and "value" in below  # a stated figure replaces value and source together
        merge = isinstance(below, dict) and isinstance(value, Mapping) and not sourced
        result[key] = _merged(result[key], value) if merge else value
    return result


def resolve_cluster(document: str | Mapping[str, Any] | ClusterSpec) -> Cluster:
    """A cluster by preset name, mapping (optional `extends`) or validated section, with server and device resolved.

    A name that is no cluster but a device means the usual cluster of that device. Raises UnknownPresetError,
    ClusterError, pydantic.ValidationError.
    """
    if isinstance(document, str):
        if document.strip().lower() not in _index("clusters") and document.strip().lower() in _index("devices"):
            device = canonical_name("devices", document)
            return resolve_cluster({"extends": default_cluster_for_device(device), "device": device})
        return resolve_cluster(load_cluster_spec(document))
    spec = document if isinstance(document, ClusterSpec) else _validated(document)
    server = spec.server if isinstance(spec.server, ServerSpec) else load_server(spec.server)
    chosen = spec.device if spec.device is not None else server.device
    return resolve(spec, server, chosen if isinstance(chosen, DeviceSpec) else load_device(chosen))


def _validated(document: Mapping[str, Any]) -> ClusterSpec:
    merged = extended("clusters", document)
    if "server" not in merged and isinstance(merged.get("device"), str):
        usual = preset_document("clusters", default_cluster_for_device(merged["device"]))
        merged = _merged({k: v for k, v in usual.items() if k not in ("nodes", "aliases")}, merged)
    for field, kind in (("server", "servers"), ("device", "devices")):
        value = merged.get(field)
        if isinstance(value, Mapping) and "extends" in value:
            merged[field] = extended(kind, value)  # type: ignore[arg-type]
    if "server" not in merged:
        raise ClusterError("server", "a cluster needs `extends`, `server` or `device`")
    return ClusterSpec.model_validate(merged)


def default_cluster_for_device(name: str) -> str:
    """Cluster preset of the usual server of a device (name or alias). Raises UnknownPresetError."""
    return DEFAULT_CLUSTERS[canonical_name("devices", name)]

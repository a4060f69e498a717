"""From the words in which published runs describe their hardware to a cluster document."""

from __future__ import annotations

import re
from typing import Any, Final

from cann_plan.spec.hardware_presets import (
    canonical_name,
    default_cluster_for_device,
    load_cluster_spec,
    load_device,
    load_server,
)

# Systems that publications name, by what they write; the device of the system must be the device of the run.
_NAMED: Final = (
    (re.compile(r"atlas 800t a2|atlas 800 a2\b", re.I), "atlas-800t-a2"),
    (re.compile(r"atlas 900 a2", re.I), "atlas-900-a2"),
    (re.compile(r"box16", re.I), "atlas-200t-a2-box16"),
    (re.compile(r"cloudmatrix ?-?384", re.I), "cloudmatrix384"),
    (re.compile(r"atlas 900 a3|superpod|supernode", re.I), "atlas-900-a3"),
    (re.compile(r"atlas 800[ti]? a3|a3 box8", re.I), "atlas-800t-a3"),
    (re.compile(r"jean zay", re.I), "jean-zay-a100"),
    (re.compile(r"\(a3\)|a3-high", re.I), "gcp-a3-high"),
    (re.compile(r"a3-mega", re.I), "gcp-a3-mega"),
    (re.compile(r"p4d\.", re.I), "aws-p4d"),
    (re.compile(r"p4de\.", re.I), "aws-p4de"),
    (re.compile(r"p5\.", re.I), "aws-p5"),
    (re.compile(r"grand teton", re.I), "meta-h100-24k"),
)
# "1600 Gbps per node", "8 x 200 Gbit/s per node", "4 x Omni-Path 100 Gbps per node"; "400 Gbps InfiniBand per GPU".
_RATE: Final = re.compile(
    r"(?:(\d+)\s*x\s*(?:[A-Za-z-]+\s+)?)?(\d+(?:\.\d+)?)\s*G(?:bps|b/s|bit/s)[^;,()]*?\bper\s+(node|gpu|npu|device)",
    re.I,
)


def cluster_from_words(
    device: str, hardware: str = "", network: str = "", devices_per_node: int | None = None
) -> dict[str, Any]:
    """A cluster document for a run on `device`: the system its words name, else the usual cluster of the device.

    A rate between nodes that `network` states ("1600 Gbps per node", "200 Gbps per NPU") replaces the one of the
    preset. Raises UnknownPresetError for a device nobody knows.
    """
    name = canonical_name("devices", device)
    words = f"{hardware}; {network}"
    cluster = next((c for pattern, c in _NAMED if pattern.search(words) and _holds(c, name)), None)
    preset = cluster or default_cluster_for_device(name)
    document: dict[str, Any] = {"extends": preset, "device": name}
    server = load_server(str(load_cluster_spec(preset).server))
    if devices_per_node is not None and devices_per_node < server.devices_per_node:
        document["devices_per_node"] = devices_per_node
    rate = _stated_rate(network, devices_per_node or server.devices_per_node)
    tiers = load_cluster_spec(preset).scale_out
    if rate is not None and len(tiers) == 1:
        stated = {"value": f"{rate:.6g} GB/s", "source": "network as the publication states it"}
        tier = tiers[0].model_dump(mode="python", exclude_unset=True)
        document["scale_out"] = [tier | {"bandwidth": stated}]
    return document


def _holds(cluster: str, device: str) -> bool:
    """Whether the system is built of this device, or of another bin or memory size of it."""
    spec = load_cluster_spec(cluster)
    own = load_device(str(spec.device or load_server(str(spec.server)).device))
    other = load_device(device)
    return own.name == device or (own.vendor == other.vendor == "Huawei" and own.family == other.family)


def _stated_rate(network: str, devices_per_node: int) -> float | None:
    """GB/s per device and direction between nodes, None where the words give none."""
    found = _RATE.search(network)
    if found is None:
        return None
    ports, gigabits, unit = found.groups()
    total = float(gigabits) * float(ports or 1)
    return total / 8.0 / (devices_per_node if unit.lower() == "node" else 1)

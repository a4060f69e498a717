"""Topologies by name or description, fitted to a number of servers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from cann_plan.network.topology import shapes
from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.components import OPTICAL
from cann_plan.network.topology.composite import Composite
from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.graph_topology import twisted_torus
from cann_plan.network.topology.hyperx import HyperX
from cann_plan.network.topology.torus import Torus
from cann_plan.records import dataclass

RADIX: Final = 64
"""Ports of a switch at the rate of one adapter: Quantum-2 64 x 400G, SN5600 64 x 800G (stas00/ml-engineering)."""
MULTI_PLANES: Final = 8
"""Planes a port is split into: 800G as 8 x 100G on 512-port switches (OpenAI MRC)."""
POD_SERVERS: Final = 32
"""Servers in a super-pod: the 32-node scalable unit of DGX SuperPOD H100 (stas00/ml-engineering)."""
POD_TAPER: Final = 7.0
"""Oversubscription between pods: Meta's 24K cluster (glennklockwood.com)."""
MESH_POD: Final = (8, 4, 4)
"""Servers of 8 in a UB-Mesh pod: 8 in a rack, 4 x 4 racks, 1,024 devices (arXiv 2503.20377)."""
MESH_TAPER: Final = 4.0
"""Oversubscription between UB-Mesh pods: assumption, the paper's figure was not found."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: what it is in a few words, the keys a description may set, and its builder."""

    title: str
    keys: tuple[str, ...]
    build: Callable[[str, int, int, Mapping[str, Any]], Fabric]


def _flat(name: str, topology: Topology, nodes: int, per_node: int, **more: Any) -> Fabric:
    """All adapters of a server on the same switch."""
    return Fabric(name, topology, nodes, per_node, 1, topology.components(), **more)


def _rails(name: str, topology: Topology, nodes: int, per_node: int, planes: int | None = None, **more: Any) -> Fabric:
    """One plane per adapter of a server (or `planes`), each with its share of the server's injection."""
    copies = planes or per_node
    parts = topology.components().times(copies, 1.0 / copies)
    more.setdefault("joined", copies != per_node)
    return Fabric(name, topology, nodes, per_node, copies, parts, **more)


def _switch(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    note = f"one ideal switch of {nodes * per_node} ports: a bound, not a product"
    return _flat(name, FatTree((nodes,), lanes=per_node, link=1.0 / per_node), nodes, per_node, note=note)


def _fat_tree(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    radix, taper = int(values.get("radix", RADIX)), float(values.get("taper", 1.0))
    levels = values.get("levels")
    return _flat(name, shapes.fat_tree(nodes, per_node, radix, taper, levels=levels), nodes, per_node)


def _rail_optimised(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    rail, whole = shapes.rail_tree(nodes, per_node, int(values.get("radix", RADIX)))
    return Fabric(name, rail, nodes, per_node, per_node, whole, note="traffic between rails goes by the "
                  "links inside a server")  # fmt: skip


def _rail_only(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    tree = shapes.fat_tree(nodes, 1, int(values.get("radix", RADIX)), access=OPTICAL)
    return _rails(name, tree, nodes, per_node, note="rails are joined only inside servers")


def _multi_plane(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    planes = int(values.get("planes", MULTI_PLANES))
    radix = int(values.get("radix", RADIX)) * planes
    tree = shapes.fat_tree(nodes, per_node, radix, float(values.get("taper", 1.0)))
    note = f"every port split into {planes}; a failed plane takes 1/{planes} of the bandwidth"
    return _rails(name, tree, nodes, per_node, planes, note=note, joined=True)


def _dragonfly(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    from cann_plan.network.topology.dragonfly import Dragonfly

    given = [key for key in ("terminals", "routers", "global_ports", "groups") if key in values]
    if given:
        missing = {"terminals", "routers", "global_ports", "groups"} - set(given)
        if missing:
            raise ValueError(f"a dragonfly needs {sorted(missing)[0]} beside {given[0]}")
        ports = int(values["terminals"])
        if ports % per_node:
            raise ValueError(f"terminals must be a multiple of the {per_node} adapters of a server")
        shape = Dragonfly(ports // per_node, int(values["routers"]), int(values["global_ports"]),
                          int(values["groups"]), per_node, 1.0 / per_node)  # fmt: skip
        return _flat(name, shape, nodes, per_node)
    return _flat(name, shapes.dragonfly(nodes, per_node, int(values.get("radix", RADIX))), nodes, per_node)


def _dragonfly_plus(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    return _flat(name, shapes.dragonfly_plus(nodes, per_node, int(values.get("radix", RADIX))), nodes, per_node)


def _torus(axes: int) -> Callable[[str, int, int, Mapping[str, Any]], Fabric]:
    def build(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
        shape = _shape(values, nodes) or shapes.even_axes(nodes, int(values.get("axes", axes)))
        if values.get("twisted"):
            return _rails(name, twisted_torus(shape), nodes, per_node)
        torus = Torus(shape, bool(values.get("wrap", True)))
        return _rails(name, torus, nodes, per_node, note="every adapter has a torus of its own (rails)")

    return build


def _hyperx(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    return _flat(name, shapes.hyperx(nodes, per_node, int(values.get("radix", RADIX))), nodes, per_node)


def _full_mesh(axes: int) -> Callable[[str, int, int, Mapping[str, Any]], Fabric]:
    def build(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
        shape = _shape(values, nodes) or shapes.even_axes(nodes, int(values.get("axes", axes)))
        mesh = HyperX(shape, axis_shares=tuple(values.get("axis_shares", ())))
        ports = sum(length - 1 for length in shape)
        return _rails(name, mesh, nodes, per_node, note=f"every adapter is split into {ports} ports")

    return build


def _ub_mesh(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    shape = tuple(values.get("shape", MESH_POD))
    size = math.prod(shape)
    if nodes <= size:
        shape = shape if nodes == size else shapes.even_axes(nodes, 3)
        return _rails(name, HyperX(shape), nodes, per_node, note="inside one pod")
    pods = -(-nodes // size)
    taper = float(values.get("taper", MESH_TAPER))
    joined = Composite(HyperX(shape), FatTree((pods,)), taper, int(values.get("radix", RADIX)))
    note = f"pods of {size * per_node} devices, {taper:g}:1 between them"
    return _rails(name, joined, nodes, per_node, note=note)


def _super_pod(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    size, radix = int(values.get("pod_servers", POD_SERVERS)), int(values.get("radix", RADIX))
    if nodes <= size:
        return _flat(name, shapes.fat_tree(nodes, per_node, radix), nodes, per_node, note="inside one pod")
    pods = -(-nodes // size)
    taper = float(values.get("taper", POD_TAPER))
    inner = shapes.fat_tree(size, per_node, radix)
    joined = Composite(inner, shapes.fat_tree(pods, 1, radix), taper, radix, per_node)
    return _flat(name, joined, nodes, per_node, note=f"pods of {size * per_node} devices, {taper:g}:1 between them")


def _composed(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    """Any topology inside pods, any other between them; both see servers (or pods) with `rails` planes."""
    if "inner" not in values or "outer" not in values or "pod_servers" not in values:
        raise ValueError("a composition needs inner, outer and pod_servers")
    size = int(values["pod_servers"])
    pods = -(-nodes // size)
    inner = build_fabric(values["inner"], size, per_node)
    outer = build_fabric(values["outer"], pods, 1)
    topology = Composite(
        inner.topology, outer.topology, float(values.get("taper", 1.0)), int(values.get("radix", RADIX))
    )
    if inner.topology.endpoints != size:
        raise ValueError(f"the inner topology takes {inner.topology.endpoints} servers, not {size}")
    if inner.planes > 1:
        return _rails(name, topology, nodes, per_node, inner.planes)
    return _flat(name, topology, nodes, per_node)


def _file(name: str, nodes: int, per_node: int, values: Mapping[str, Any]) -> Fabric:
    from cann_plan.network.topology.read import read_topology

    return read_topology(str(values["file"]), name, nodes, per_node)


def _shape(values: Mapping[str, Any], nodes: int) -> tuple[int, ...] | None:
    if "shape" not in values:
        return None
    shape = tuple(int(length) for length in values["shape"])
    if math.prod(shape) < nodes:
        raise ValueError(f"shape {'x'.join(map(str, shape))} holds {math.prod(shape)} servers, {nodes} are needed")
    return shape


FAMILIES: Final[Mapping[str, Family]] = {
    "switch": Family("one ideal switch", (), _switch),
    "fat-tree": Family("non-blocking fat tree", ("radix", "taper", "levels"), _fat_tree),
    "rail-optimised": Family("fat tree with one leaf per rail", ("radix",), _rail_optimised),
    "rail-only": Family("rails joined only inside servers", ("radix",), _rail_only),
    "multi-plane": Family("fat trees of split ports", ("radix", "planes", "taper"), _multi_plane),
    "dragonfly": Family(
        "groups of fully joined routers", ("radix", "terminals", "routers", "global_ports", "groups"), _dragonfly
    ),
    "dragonfly-plus": Family("groups of leaves and spines", ("radix",), _dragonfly_plus),
    "torus-2d": Family("2-D torus", ("shape", "axes", "wrap", "twisted"), _torus(2)),
    "torus-3d": Family("3-D torus", ("shape", "axes", "wrap", "twisted"), _torus(3)),
    "ring": Family("ring", ("shape", "wrap"), _torus(1)),
    "hyperx": Family("grid of switches, lines fully joined", ("radix",), _hyperx),
    "full-mesh": Family("every server joined to every other", ("shape", "axes", "axis_shares"), _full_mesh(1)),
    "full-mesh-3d": Family("3-D full mesh", ("shape", "axes", "axis_shares"), _full_mesh(3)),
    "ub-mesh": Family("pods of n-D full mesh", ("shape", "taper", "radix"), _ub_mesh),
    "super-pod": Family("non-blocking pods, tapered between", ("pod_servers", "taper", "radix"), _super_pod),
    "composed": Family(
        "one topology in pods, one between", ("inner", "outer", "pod_servers", "taper", "radix"), _composed
    ),
    "graph": Family("a graph from a file", ("file",), _file),
}
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "fat-tree-2to1": {"family": "fat-tree", "taper": 2.0},
    "torus": {"family": "torus-3d"},
}
COMMON_KEYS: Final = ("family", "name", "routing", "queue_pairs")
DEFAULT: Final = (
    "fat-tree", "fat-tree-2to1", "rail-optimised", "rail-only", "dragonfly", "torus-3d", "hyperx", "ub-mesh",
    "super-pod",
)  # fmt: skip
"""What is compared when nothing is asked for."""


def names() -> tuple[str, ...]:
    """Every name `build_fabric` knows (those that need a description left out)."""
    return tuple(name for name in (*FAMILIES, *PRESETS) if name not in ("composed", "graph"))


def build_fabric(what: str | Mapping[str, Any], nodes: int, per_node: int) -> Fabric:
    """The network of a name, a description or a file, for `nodes` servers of `per_node` devices.

    A description is a mapping with `family` and keys of that family, `routing` and `queue_pairs`. A string with a dot
    or slash names a file (edge list or Ascend topology JSON).

    Raises:
        ValueError: unknown names or keys, or figures that do not fit each other; the message says what is allowed.
    """
    if isinstance(what, str):
        values: dict[str, Any] = {"family": "graph", "file": what} if _is_file(what) else {"family": what}
        name = what
    else:
        values = dict(what)
        name = str(values.get("name", values.get("family", "topology")))
    asked = str(values.get("family", ""))
    if asked in PRESETS:
        values = {**PRESETS[asked], **{k: v for k, v in values.items() if k != "family"}}
    family = FAMILIES.get(str(values.get("family")))
    if family is None:
        raise ValueError(f"unknown topology {asked!r}; allowed: {', '.join(names())}, a file or a mapping with family")
    unknown = set(values) - set(family.keys) - set(COMMON_KEYS)
    if unknown:
        allowed = ", ".join((*family.keys, *COMMON_KEYS))
        raise ValueError(f"topology {asked}: unknown key {sorted(unknown)[0]!r}; allowed: {allowed}")
    try:
        fabric = family.build(name, nodes, per_node, values)
    except (TypeError, KeyError) as error:
        raise ValueError(f"topology {name}: {error}") from error
    return _with_common(fabric, values)


def _with_common(fabric: Fabric, values: Mapping[str, Any]) -> Fabric:
    from dataclasses import replace

    from cann_plan.network.topology.routing import routing_name

    routing = routing_name(str(values.get("routing", fabric.routing)))
    return replace(fabric, routing=routing, queue_pairs=int(values.get("queue_pairs", fabric.queue_pairs)))


def _is_file(text: str) -> bool:
    return "/" in text or text.endswith((".json", ".txt", ".csv", ".yaml", ".yml", ".edges"))

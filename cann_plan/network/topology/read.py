"""Topologies from files: an edge list, or the topology file of Ascend 950 drivers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.graph_topology import GraphTopology
from cann_plan.units import Dimension, parse

MOST_ENDPOINTS = 4096
"""Endpoints of a file: the generic engine routes 4,096 within seconds."""


class Link(NamedTuple):
    """One cable of a file, both ways: vertex names, bytes/s or ports, class name."""

    one: str
    other: str
    capacity: float
    kind: str


def read_topology(path: str, name: str, nodes: int, per_node: int) -> Fabric:
    """The fabric of a file whose endpoints are the servers, or the devices of the servers in rank order.

    Of a file of devices only the links that leave a server count: those inside belong to the server. What an endpoint
    injects is what its links carry; links get their share of it.

    Raises:
        ValueError: the file cannot be read or describes another number of servers and devices.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"topology file {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        links = ascend_links(json.loads(text)) if text.lstrip().startswith("{") else list(edge_links(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"topology file {path}: line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise ValueError(f"topology file {path}: {error}") from error
    ends = [int(vertex) for link in links for vertex in (link.one, link.other) if vertex.isdigit()]
    if not ends:
        raise ValueError(f"topology file {path}: no endpoints; endpoints are named 0, 1, 2, ...")
    count = max(ends) + 1
    if set(ends) != set(range(count)):
        missing = min(set(range(count)) - set(ends))
        raise ValueError(f"topology file {path}: endpoint {missing} has no link")
    if count > MOST_ENDPOINTS:
        raise ValueError(f"topology file {path}: {count} endpoints, at most {MOST_ENDPOINTS}")
    if count not in (nodes, nodes * per_node):
        raise ValueError(
            f"topology file {path}: {count} endpoints, but the cluster has {nodes} servers of {per_node} devices"
        )
    merge = per_node if count == nodes * per_node and per_node > 1 else 1
    topology = GraphTopology(graph_of(links, count, merge), title=Path(path).name)
    return Fabric(name, topology, nodes, per_node, 1, topology.components(), routing="minimal")


def edge_links(text: str) -> Iterable[Link]:
    """Lines `one other [bandwidth] [kind]`; endpoints are whole numbers from 0, other names are switches.

    `#` starts a comment. Bandwidth as "25 GB/s" without the space, "200Gbit/s" or a plain number of bytes/s; default 1
    share each. Raises ValueError with the line.
    """
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].replace(",", " ").split()
        if not words:
            continue
        if not 2 <= len(words) <= 4 or words[0] == words[1]:
            raise ValueError(f"line {number}: expected `one other [bandwidth] [kind]`, found {line.strip()[:60]!r}")
        capacity = 1.0
        if len(words) > 2:
            try:
                capacity = parse(words[2], Dimension.BANDWIDTH)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            if not capacity > 0:
                raise ValueError(f"line {number}: bandwidth must be positive")
        yield Link(_name(words[0]), _name(words[1]), capacity, words[3] if len(words) > 3 else "link")


def _name(word: str) -> str:
    return str(int(word)) if word.isdigit() else word


def ascend_links(document: Any) -> list[Link]:
    """Links of an Ascend 950 topology file (version 2.0: peer_list, edge_list).

    PEER2PEER edges join two devices, PEER2NET edges a device and the network of (net_layer, topo_instance_id); each
    port counts one share. Edges of further protocols over the same ports are the same cable; links of the host are left
    out. Source: HCCL hcomm topology file, docs of root_info_generate. Raises ValueError.
    """
    edges = document.get("edge_list") if isinstance(document, dict) else None
    if not isinstance(edges, list):
        raise ValueError("expected an edge list, or JSON with edge_list")
    found: dict[tuple[str, str, tuple[str, ...]], Link] = {}
    for place, edge in enumerate(edges):
        if not isinstance(edge, dict) or "local_a" not in edge:
            raise ValueError(f"edge_list[{place}]: no local_a")
        if edge.get("position", "DEVICE") != "DEVICE":
            continue
        layer = edge.get("net_layer", 0)
        ports = tuple(str(port) for port in edge.get("local_a_ports", ())) or ("?",)
        kind = f"layer {layer} {edge.get('topo_type', '')}".strip()
        if edge.get("link_type") == "PEER2NET":
            other = f"net {layer}.{edge.get('topo_instance_id', 0)}"
        elif "local_b" in edge:
            other = str(int(edge["local_b"]))
        else:
            raise ValueError(f"edge_list[{place}]: no local_b")
        one = str(int(edge["local_a"]))
        found.setdefault((one, other, ports), Link(one, other, float(len(ports)), kind))
    back = {(link.other, link.one) for link in found.values()}
    # a file may list both directions of a cable
    return [link for link in found.values() if (link.one, link.other) not in back or link.one < link.other]


def graph_of(links: list[Link], endpoints: int, merge: int = 1) -> Graph:
    """A graph of links between named vertices; `merge` consecutive endpoints become one, links inside are dropped.

    Capacities become shares of what the endpoint with most outgoing capacity injects.
    """
    count = endpoints // merge
    places: dict[str, int] = {}

    def place(vertex: str) -> int:
        if vertex.isdigit():
            return int(vertex) // merge
        return places.setdefault(vertex, count + len(places))

    ends = [(place(link.one), place(link.other)) for link in links]
    out = np.zeros(count)
    for (one, other), link in zip(ends, links, strict=True):
        for vertex in {one, other} if one != other else ():
            if vertex < count:
                out[vertex] += link.capacity
    most = float(out.max(initial=0.0)) or 1.0
    bundles = [
        (link.kind, [one], [other], link.capacity / most)
        for (one, other), link in zip(ends, links, strict=True)
        if one != other
    ]
    return join(count, count + len(places), bundles)

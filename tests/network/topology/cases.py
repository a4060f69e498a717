"""Topologies and traffic that several tests look at."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.dragonfly_plus import DragonflyPlus
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.hyperx import HyperX
from cann_plan.network.topology.torus import Torus
from cann_plan.network.topology.traffic import Flows, Groups

BIG = 16384


@cache
def reference() -> dict[str, Any]:
    """The reference file."""
    text = (Path(__file__).parents[2] / "data" / "topology_reference.yaml").read_text()
    return yaml.safe_load(text)


def balanced_tree(down: tuple[int, ...]) -> FatTree:
    """A non-blocking tree whose units have one uplink and one switch above per endpoint."""
    sizes = np.cumprod(down)[:-1].tolist()
    return FatTree(tuple(down), tuple(sizes), tuple(sizes))


BIG_ONES = {
    "fat tree 2 to 1": FatTree((32, 32, 16), (16, 512), (16, 128)),
    "rail-optimised": FatTree((32, 32, 16), (32, 1024), (32, 256)),
    "dragonfly": Dragonfly(8, 16, 8, 128),
    "torus 3d": Torus((16, 32, 32)),  # the reference numbers the last axis fastest
    "torus 2d": Torus((128, 128)),
    "hyperx": HyperX((128, 128)),
    "full mesh 4d": HyperX((8, 8, 16, 16)),
}

SMALL_ONES = {
    "fat tree": balanced_tree((4, 4, 4)),
    "tapered tree": FatTree((4, 4, 4), (2, 4), (2, 2)),
    "torus": Torus((4, 3, 6)),
    "open torus": Torus((4, 5, 3), wrap=False),
    "ring": Torus((9,)),
    "hyperx": HyperX((3, 4), terminals=3, trunk=(2, 1)),
    "full mesh": HyperX((4, 3, 5)),
    "dragonfly": Dragonfly(2, 4, 2, 9),
    "wide dragonfly": Dragonfly(2, 4, 4, 5),
    "dragonfly+": DragonflyPlus(3, 4, 4, 4, 5),
}


def rail_positions(nodes: int = BIG // 8, rails: int = 8, segment: int = 32) -> np.ndarray:
    """Endpoint of each rank where adapter r of a server is on leaf (segment, r)."""
    rank = np.arange(nodes * rails)
    node, rail = rank // rails, rank % rails
    return ((node // segment) * rails + rail) * segment + node % segment


def group_members(endpoints: int, size: int, stride: int) -> np.ndarray:
    """All groups {base + i stride}, (groups, size)."""
    ranks = np.arange(endpoints)
    base = ranks[(ranks // stride) % size == 0]
    return base[:, None] + np.arange(size)[None, :] * stride


def ring_flows(members: np.ndarray, endpoints: int) -> Flows:
    return Flows.of(endpoints, members.reshape(-1), np.roll(members, -1, axis=1).reshape(-1))


def pattern(name: str, place: np.ndarray) -> Flows | Groups:
    """Traffic of a pattern of the reference file with ranks at `place`."""
    n = place.shape[0]
    if name == "tp8_ring":
        return ring_flows(place[group_members(n, 8, 1)], n)
    if name == "dp_ring":
        return ring_flows(place[group_members(n, 16, 64)], n)
    if name == "pp_send":
        start = np.arange(n - 4096)
        return Flows.of(n, place[start], place[start + 4096])
    stride = 1 if name == "ep_contiguous" else 8
    return Groups.of(n, place[group_members(n, 64, stride)])


def worst_inside(loads) -> float:
    """Load of the worst link that is no adapter."""
    return max(item.worst for item in loads.classes if item.name != "adapter")

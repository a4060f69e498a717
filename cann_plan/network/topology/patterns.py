"""Traffic of a communication group's collective between servers."""

from __future__ import annotations

import numpy as np

from cann_plan.network.groups import Group
from cann_plan.network.topology.traffic import FloatArray, Flows, Groups, IntArray, Traffic
from cann_plan.records import dataclass

_FEW_PEERS = 12  # groups up to this size are listed flow by flow; larger ones are counted
_MOST_DISTANCES = 24  # powers of two looked at by recursive algorithms


@dataclass(frozen=True, slots=True)
class ServerGroups:
    """The servers of every communication group that is active at once.

    `members` (groups, size): servers in rank order. Sibling groups on the same servers (one per device of a server)
    are listed once; `weight` (groups,): their share of the devices of a server, so that no server sends more than one
    unit in all.
    """

    members: IntArray
    weight: FloatArray

    @property
    def size(self) -> int:
        """Servers per group."""
        return int(self.members.shape[1])


def server_groups(group: Group, nodes: int, per_node: int) -> ServerGroups | None:
    """Servers of the groups {base + i stride + j outer_stride}; None where no group leaves a server.

    Groups that servers cut unequally each count by the devices they use; shorter ones repeat their last server.
    """
    plain = _aligned(group, nodes, per_node)
    if plain is not None:
        return ServerGroups(plain, np.ones(plain.shape[0])) if plain.shape[1] > 1 else None
    ranks = np.arange(nodes * per_node)
    offsets = (
        np.arange(group.outer_size)[:, None] * group.outer_stride + np.arange(group.size)[None, :] * group.stride
    ).reshape(-1)
    first = ((ranks // group.stride) % group.size == 0) & ((ranks // group.outer_stride) % group.outer_size == 0)
    first &= ranks + offsets[-1] < ranks.shape[0]
    servers = (ranks[first][:, None] + offsets[None, :]) // per_node
    rows: dict[tuple[int, ...], float] = {}
    for row in servers.tolist():
        visited = tuple(dict.fromkeys(row))
        rows[visited] = rows.get(visited, 0.0) + len(row) / len(visited) / per_node
    wide = sorted(row for row in rows if len(row) > 1)
    if not wide:
        return None
    size = max(len(row) for row in wide)
    members = np.array([row + row[-1:] * (size - len(row)) for row in wide], dtype=np.int64)
    weight = np.array([rows[row] for row in wide])
    busiest = np.bincount(members.reshape(-1), weights=np.repeat(weight, size)).max()
    return ServerGroups(members, weight / max(1.0, float(busiest)))


def _aligned(group: Group, nodes: int, per_node: int) -> IntArray | None:
    """Servers of groups that are cut evenly by servers, one row per set of servers, else None."""
    parts: list[tuple[int, int]] = []
    for size, stride in ((group.size, group.stride), (group.outer_size, group.outer_stride)):
        if size == 1:
            continue
        if stride % per_node == 0:
            parts.append((size, stride // per_node))
        elif per_node % stride == 0 and size * stride <= per_node and per_node % (size * stride) == 0:
            continue
        elif per_node % stride == 0 and (size * stride) % per_node == 0:
            parts.append((size * stride // per_node, 1))
        else:
            return None
    server = np.arange(nodes)
    keep = np.ones(nodes, dtype=bool)
    offsets = np.zeros(1, dtype=np.int64)
    span = 1
    for size, stride in parts:
        keep &= (server // stride) % size == 0
        offsets = (np.arange(size)[:, None] * stride + offsets[None, :]).reshape(-1)
        span += (size - 1) * stride
    base = server[keep]
    members: IntArray = base[base + span <= nodes][:, None] + offsets[None, :]
    return members if members.size else None


def ring(groups: ServerGroups, place: IntArray, endpoints: int) -> Flows:
    """Every member to the next, the last to the first."""
    return _shifted(groups, place, endpoints, 1)


def _shifted(groups: ServerGroups, place: IntArray, endpoints: int, distance: int) -> Flows:
    """Every member to the one `distance` further on, round the end."""
    members = groups.members
    target = np.roll(members, -distance, axis=1)
    weight = np.repeat(groups.weight, members.shape[1])
    return Flows.of(endpoints, place[members].reshape(-1), place[target].reshape(-1), weight)


def chain(groups: ServerGroups, place: IntArray, endpoints: int) -> Flows:
    """Every member but the last to the next: messages between pipeline stages."""
    members = groups.members
    weight = np.repeat(groups.weight, members.shape[1] - 1)
    return Flows.of(endpoints, place[members[:, :-1]].reshape(-1), place[members[:, 1:]].reshape(-1), weight)


def all_to_all(groups: ServerGroups, place: IntArray, endpoints: int) -> Traffic:
    """Every member to every other, one unit sent by each."""
    members = place[groups.members]
    share = 1.0 / max(1, groups.size - 1)
    once = int(np.bincount(members.reshape(-1)).max()) == 1
    if once and groups.size > _FEW_PEERS and bool((groups.weight == groups.weight[0]).all()):
        return Groups.of(endpoints, members, share * float(groups.weight[0]))
    one, other = np.nonzero(~np.eye(groups.size, dtype=bool))
    weight = share * np.repeat(groups.weight, one.shape[0])
    return Flows.of(endpoints, members[:, one].reshape(-1), members[:, other].reshape(-1), weight)


def doubling(groups: ServerGroups, place: IntArray, endpoints: int) -> list[tuple[Flows, float]]:
    """Recursive halving or doubling: (flows, share of all bytes) for distances 1, 2, 4, ...

    Half of the bytes go to the nearest partner, half as many to each partner twice as far (HCCL NHR keeps its largest
    transfers between close ranks; halving-doubling with the distance doubled).
    """
    steps = min(_MOST_DISTANCES, max(1, int(groups.size - 1).bit_length()))
    shares = [0.5**step for step in range(1, steps + 1)]
    total = sum(shares)
    result = []
    for step, part in enumerate(shares):
        result.append((_shifted(groups, place, endpoints, 1 << step), part / total))
    return result

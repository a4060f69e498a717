"""The scale-out network of a cluster, replaced by a topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cann_plan.network.levels import Level, Network
from cann_plan.network.library import CommunicationOptions, default_efficiency
from cann_plan.network.table import CommunicationTable
from cann_plan.network.topology.catalogue import build_fabric
from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.table import TopologyTable
from cann_plan.network.transport import with_transport
from cann_plan.planner.assumptions import PlanError
from cann_plan.records import dataclass

if TYPE_CHECKING:
    from cann_plan.planner.job import Job
    from cann_plan.spec.cluster import Cluster

PLACEMENTS: Final = {"contiguous": "compact", "scattered": "random", "compact": "compact", "random": "random"}
"""Words of plans and of the command line for where servers lie."""


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """A cluster's network cut at the servers (or scale-up domains).

    Attributes:
        inside: levels that stay.
        level: the innermost level between servers: what one device injects, latency, efficiency.
        nodes, per_node: servers and devices of each.
    """

    network: Network
    inside: tuple[Level, ...]
    level: Level
    nodes: int
    per_node: int

    def with_injection(self, bandwidth: float) -> ScaleOut:
        """The same with every device injecting `bandwidth` bytes/s."""
        return replace(self, level=replace(self.level, bandwidth=bandwidth))


def own_table(job: Job) -> CommunicationTable:
    """The communication table of a job on its cluster's own network."""
    table = job.problem.communication
    assert isinstance(table, CommunicationTable)  # build_job makes no other
    return table


@dataclass(frozen=True, slots=True)
class TopologyNetwork(Network):
    """A network whose outermost level is a topology: what `table_on` needs to make its table."""

    cut: ScaleOut | None = None
    fabric: Fabric | None = None
    routing: str | None = None
    placement: str = "compact"


def with_topology(
    cluster: Cluster, network: Network, routing: str | None = None, placement: str | None = None
) -> Network:
    """The network with `cluster.topology` in place of its levels between servers; unchanged where none is stated.

    Raises:
        PlanError: an unknown topology, or one server only.
    """
    stated = cluster.spec.topology
    if stated is None:
        return network
    cut = scale_out(network, cluster.devices)
    fabric = fabric_for(stated, cut, "cluster.topology")
    level = replace(
        cut.level, name=fabric.name, kind="switch", size=max(2, fabric.nodes), oversubscription=1.0, dimensions=()
    )
    return TopologyNetwork(
        (*cut.inside, level), network.library, network.generation, len(cut.inside), cut, fabric, routing,
        placement or "compact",
    )  # fmt: skip


def table_on(network: Network, options: CommunicationOptions) -> CommunicationTable:
    """The table of a network, with or without a topology."""
    if isinstance(network, TopologyNetwork) and network.cut is not None and network.fabric is not None:
        return topology_table(
            network.cut, network.fabric, options, routing=network.routing, placement=network.placement
        )
    return CommunicationTable(network, options)


def scale_out(network: Network, devices: int) -> ScaleOut:
    """Cut the network of `devices` devices at the levels its library treats as inside one server.

    Raises:
        PlanError: one server only, or servers that are not full.
    """
    inside = network.levels[: network.node_levels]
    per_node = 1
    for level in inside:
        per_node *= level.size
    if network.node_levels >= len(network.levels) or devices <= per_node:
        raise PlanError(
            "cluster", f"{devices} devices are one server: no network between servers to replace",
            "at least two servers",
        )  # fmt: skip
    if devices % per_node:
        raise PlanError("cluster", f"{devices} devices are not whole servers of {per_node}")
    index = network.node_levels
    level = network.levels[index]
    if level.efficiency is None:
        level = replace(level, efficiency=default_efficiency(network, index))
    links = 1.0
    if level.kind in ("ring", "full-mesh", "pair"):  # what all links of a device carry together
        links = float(level.size - 1) if level.kind != "ring" else 2.0
    level = replace(level, bandwidth=level.bandwidth * links)
    return ScaleOut(network, inside, level, devices // per_node, per_node)


def fabric_for(what: str | Mapping[str, Any], cut: ScaleOut, path: str = "--topologies") -> Fabric:
    """The fabric of a name, description or file for the cluster's servers.

    Raises:
        PlanError: at `path`.
    """
    try:
        return build_fabric(what, cut.nodes, cut.per_node)
    except ValueError as error:
        message, _, allowed = str(error).partition("; allowed: ")
        raise PlanError(path, message, allowed or None) from error


def topology_table(
    cut: ScaleOut, fabric: Fabric, options: CommunicationOptions | None = None, *, routing: str | None = None,
    placement: str = "compact", seed: int = 0,
) -> TopologyTable:  # fmt: skip
    """Times of collectives with the scale-out levels replaced by `fabric`.

    Raises:
        PlanError: an unknown routing or placement.
    """
    network = cut.network
    chosen = options or CommunicationOptions()
    assumed = default_efficiency(network, network.node_levels)
    level = with_transport(
        network.with_levels((*cut.inside, cut.level)), chosen.transport, chosen.tcp_cores, assumed
    ).levels[-1]
    try:
        return TopologyTable(
            cut.inside, level, fabric, network.library, network.generation,
            replace(chosen, transport="rdma"), routing=routing, placement=PLACEMENTS.get(placement, placement),
            seed=seed,
        )  # fmt: skip
    except ValueError as error:
        message, _, allowed = str(error).partition("; allowed: ")
        raise PlanError("--routing" if "routing" in message else "--placement", message, allowed or None) from error

"""`network:` and the cluster's links to what the cost models read: times of collectives, compression of gradients."""

from __future__ import annotations

from typing import Final

from cann_plan.cost.problem import StateBytes
from cann_plan.network.compression import KINDS, NO_COMPRESSION, NOTES, Compression
from cann_plan.network.levels import Network
from cann_plan.network.library import CommunicationOptions, default_efficiency
from cann_plan.network.table import CommunicationTable
from cann_plan.network.transport import TCP_CORES, transport_uses
from cann_plan.planner.assumptions import Assumptions, PlanError, Warnings
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.device import UnknownFigureError
from cann_plan.spec.plan import PlanSpec

MAKERS: Final = {"hccl": "Huawei", "nccl": "NVIDIA", "rccl": "AMD"}
"""Whose devices a collective library drives (its own documentation)."""


def collective_library(plan: PlanSpec, cluster: Cluster) -> str:
    """The library the plan names, else the cluster's.

    Raises:
        PlanError: the named library does not drive the cluster's devices.
    """
    stated = plan.network.library
    if stated is None or stated == cluster.library:
        return cluster.library
    maker, vendor = MAKERS.get(stated), cluster.device.vendor
    if maker is not None and vendor is not None and vendor != maker:
        fitting = ", ".join([*(name for name, whose in MAKERS.items() if whose == vendor), "ideal"])
        raise PlanError("network.library", f"{stated.upper()} does not drive devices of {vendor}", fitting)
    return stated


def network_of(cluster: Cluster, library: str | None = None) -> Network:
    """The cluster's levels as the network model reads them, with `library` in place of the cluster's when given.

    Raises:
        PlanError: nobody states a bandwidth or latency of a level.
    """
    try:
        return Network.from_levels(
            cluster.network_levels(), library=library or cluster.library, generation=cluster.generation,
            node_levels=min(cluster.node_levels, max(len(cluster.levels), 1)),
        )  # fmt: skip
    except UnknownFigureError as error:
        raise PlanError("cluster", str(error)) from error


def communication_table(
    plan: PlanSpec, cluster: Cluster, library: str, assumptions: Assumptions, warnings: Warnings
) -> CommunicationTable:
    """Times of collectives as the plan's algorithm and transport give them.

    Raises:
        PlanError: nobody states a bandwidth or latency of a level.
    """
    network = network_of(cluster, library)
    transport = plan.network.transport or "rdma"
    cores = TCP_CORES
    if transport == "tcp":
        cores = _tcp_cores(cluster, assumptions)
        _say_tcp(network, cluster, cores, warnings)
    options = CommunicationOptions(plan.network.algorithm or "auto", transport, cores)
    if cluster.spec.topology is not None:
        from cann_plan.planner.topology_network import table_on, with_topology

        return table_on(with_topology(cluster, network, plan.network.routing, plan.network.placement), options)
    for name in ("routing", "placement"):
        if getattr(plan.network, name) not in (None, "contiguous"):
            raise PlanError(f"network.{name}", f"a {name} needs a topology", "cluster.topology beside it")
    return CommunicationTable(network, options)


def _tcp_cores(cluster: Cluster, assumptions: Assumptions) -> float:
    """Cores per device at the receiver: half of the device's share of the host (the other half sends), at most 4."""
    held = cluster.host.cores.value
    cores = TCP_CORES if held is None else min(TCP_CORES, held / cluster.devices_per_node / 2.0)
    source = "NCCL's 4 socket threads per adapter" if cores == TCP_CORES else f"host has {held} cores"
    assumptions.add("network.tcp_cores", f"{cores:g} per device at the receiver", source)
    return cores


def _say_tcp(network: Network, cluster: Cluster, cores: float, warnings: Warnings) -> None:
    """What TCP takes: host cores, share of the line rate, time per message."""
    held = cluster.host.cores.value
    assumed = default_efficiency(network, len(network.levels) - 1)
    for use in transport_uses(network, "tcp", cores, assumed):
        busy = use.cores * cluster.devices_per_node
        of_host = f" of {held}" if held is not None else ""
        warnings.add(
            "tcp_transport",
            "network.transport",
            f"TCP on {use.level}: {use.line_fraction:.0%} of the line rate, {use.latency * 1e6:.0f} us per message, "
            f"{busy:.0f} host cores per node{of_host} copy data while it runs and are not left to data loading",
        )


def gradient_compression(plan: PlanSpec, states: StateBytes, warnings: Warnings) -> Compression:
    """How gradients travel, with what that costs in accuracy as a warning."""
    stated = plan.network.compression
    if stated.kind is None or stated.kind == "none":
        if stated.ratio is not None:
            raise PlanError("network.compression.ratio", "a ratio without a kind of compression", ", ".join(KINDS[1:]))
        return NO_COMPRESSION
    compression = Compression(stated.kind, stated.ratio)
    share = compression.wire_share(states.reduce)
    path = "network.compression"
    if share >= 1.0:
        warnings.add(
            "no_compression", path, f"{stated.kind} sends no fewer bytes: gradients are exchanged in "
            f"{states.reduce:g} bytes per element already",
        )  # fmt: skip
        return compression
    text = f"gradients travel as {stated.kind}, {share:.2g} of the bytes: {NOTES[stated.kind]}"
    if compression.sparse:
        text += "; the residual it keeps (one gradient-sized tensor) is not in the memory figures"
    warnings.add("lossy_gradients", path, text)
    return compression

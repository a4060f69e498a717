"""The network a collective runs on: a cluster (preset, file) or a topology file."""

from __future__ import annotations

from pathlib import Path

from cann_plan.network.levels import Network
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.communication import network_of
from cann_plan.planner.topology_network import with_topology
from cann_plan.spec.cluster import Cluster, ClusterError, ClusterSpec, resolve
from cann_plan.spec.device import DeviceSpec
from cann_plan.spec.errors import SpecError, problem_at
from cann_plan.spec.link_file import read_link_file
from cann_plan.spec.node import Mark, Node, Source
from cann_plan.spec.references import Resolver
from cann_plan.spec.server import ServerSpec
from cann_plan.spec.validation import validate


def network_of_file(path: str | Path) -> Network:
    """The network in a topology file ("-": standard input).

    Raises:
        SpecError: located problems of the file.
    """
    spec = read_link_file(path)
    inside = 1 if spec.node_levels is None else spec.node_levels
    return Network.from_levels(spec.network_levels(), spec.library, spec.generation or "", inside)


def network_of_cluster(reference: str, span: int | None) -> Network:
    """The network of a cluster preset or file; without a stated number of servers as many as `span` devices need
    (one server for None).

    Raises:
        SpecError: located problems of the reference or the document.
        PlanError: the cluster cannot have so many servers, or nobody states a bandwidth or latency.
    """
    cluster = load_cluster(reference)
    if not cluster.nodes_stated and span is not None:
        try:
            cluster = cluster.with_nodes(max(1, -(-span // cluster.devices_per_node)))
        except ClusterError as error:
            raise PlanError("--ranks", error.message, error.allowed) from error
    return with_topology(cluster, network_of(cluster))


def load_cluster(reference: str) -> Cluster:
    """A cluster by preset name or path, with server and device resolved.

    Raises:
        SpecError: located problems of the reference or the document.
    """
    mark = Mark(Source(f"--cluster {reference}"[:200], Path.cwd()))
    resolver = Resolver()
    node = resolver.cluster(Node(reference, mark))
    if node is None or resolver.problems:
        raise SpecError(resolver.problems)
    spec, problems = validate(ClusterSpec, node, ("cluster",))
    if problems or spec is None:
        raise SpecError(problems)
    server, device = spec.server, spec.device
    if not isinstance(server, ServerSpec) or not isinstance(device, DeviceSpec):
        raise SpecError([problem_at(node.mark, "cluster", "has no server or no device")])
    try:
        return resolve(spec, server, device)
    except ClusterError as error:
        raise SpecError([problem_at(node.mark, f"cluster.{error.path}", error.message, error.allowed)]) from error

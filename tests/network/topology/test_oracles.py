"""Structural loads against a generic engine and a linear program."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.network.topology.composite import Composite
from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.ecmp import class_loads, ecmp_loads
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.hyperx import HyperX
from cann_plan.network.topology.linear_program import least_worst_load
from cann_plan.network.topology.torus import Torus
from cann_plan.network.topology.traffic import Flows, Groups
from tests.network.topology.cases import SMALL_ONES, balanced_tree, reference

SYMMETRIC = ("fat tree", "tapered tree", "torus", "hyperx", "full mesh", "dragonfly+")
BIGGER = {
    "fat tree of 1,024": balanced_tree((8, 8, 16)),
    "torus of 512": Torus((8, 8, 8)),
    "full mesh of 512": HyperX((8, 8, 8)),
    "hyperx of 1,024": HyperX((8, 8), terminals=16, trunk=(2, 2)),
}


def engine(graph: Graph, flows: Flows):
    return class_loads(graph, ecmp_loads(graph, flows))


@pytest.mark.parametrize("name", [*SYMMETRIC, *BIGGER])
def test_uniform_traffic_on_the_plain_graph(name):
    """Even splitting over shortest paths and the structure's routing load symmetric topologies alike."""
    topology = {**SMALL_ONES, **BIGGER}[name]
    everyone = Groups.everyone(topology.endpoints)
    found = engine(topology.graph(), everyone.flows())
    structural = topology.minimal(everyone)
    for item in found.classes:
        stem = item.name.removesuffix(" link")
        ours = [c for c in structural.classes if c.name.startswith(stem)]
        assert max(c.worst for c in ours) == pytest.approx(item.worst)


def layered(topology: Torus | HyperX | Dragonfly) -> tuple[Graph, np.ndarray]:
    """A graph whose strictly shortest paths are the structure's own routes, and the vertex where a flow ends.

    One copy of the switches per leg of a route; a flow enters on the first and leaves on the last. Changing copies
    costs a link without load, so that all routes of a flow have equal numbers of links.
    """
    endless = math.inf
    bundles = []
    if isinstance(topology, Dragonfly):
        a, g = topology.routers, topology.groups
        routers = a * g
        copies = 4  # local, global, local
        for leg in (0, 2):
            for group in range(g):
                for one in range(group * a, group * a + a):
                    for other in range(group * a, group * a + a):
                        stays = one == other
                        name, capacity = ("stay", endless) if stays else ("local link", topology.link)
                        bundles.append((name, leg * routers + one, (leg + 1) * routers + other, capacity))
        for one, other in zip(*topology.global_links(), strict=True):
            bundles.append(("global link", routers + one, 2 * routers + other, topology.link))
            bundles.append(("global link", routers + other, 2 * routers + one, topology.link))
        per = topology.terminals
        count = routers
    else:
        shape = topology.shape
        count = math.prod(shape)
        copies = len(shape) + 1
        per = getattr(topology, "terminals", 0) or 1
        graph = topology.graph()
        offset = graph.vertices - count
        for axis in range(len(shape)):
            for edge in np.flatnonzero(graph.kind == graph.kinds.index(f"axis {axis} link")):
                tail, head = graph.tail[edge] - offset, graph.head[edge] - offset
                bundles.append((f"axis {axis} link", axis * count + tail, axis * count + head, graph.capacity[edge]))
            bundles += [("stay", axis * count + v, (axis + 1) * count + v, endless) for v in range(count)]
    kinds = tuple(dict.fromkeys(name for name, *_ in bundles))
    tail, head = (np.array([b[i] for b in bundles]) for i in (1, 2))
    kind = np.array([kinds.index(b[0]) for b in bundles])
    capacity = np.array([b[3] for b in bundles])
    vertices = copies * count
    graph = Graph(vertices, vertices, tail, head, capacity, kind, kinds)
    return graph, np.arange(topology.endpoints) // per


@pytest.mark.parametrize(
    "topology",
    [
        Torus((4, 3, 6)), Torus((4, 5, 3), wrap=False), Torus((2, 2, 7)), HyperX((4, 3, 5)),
        HyperX((3, 4), terminals=3, trunk=(2, 1)), Dragonfly(2, 4, 2, 9), Dragonfly(2, 4, 4, 5), Dragonfly(3, 2, 4, 3),
    ],
    ids=lambda t: f"{type(t).__name__} {t.summary}",
)  # fmt: skip
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_traffic_takes_the_routes_of_the_structure(topology, seed):
    random = np.random.default_rng(seed)
    n = topology.endpoints
    flows = Flows.of(n, random.integers(0, n, 60), random.integers(0, n, 60), random.integers(1, 5, 60))
    if isinstance(topology, Dragonfly):
        # traffic inside a group makes one local turn: the layers are for traffic between groups
        group = topology.terminals * topology.routers
        between = flows.source // group != flows.destination // group
        flows = Flows(n, flows.source[between], flows.destination[between], flows.weight[between])
    graph, home = layered(topology)
    last = graph.vertices - int(home.max()) - 1
    routed = engine(graph, Flows.of(graph.vertices, home[flows.source], last + home[flows.destination], flows.weight))
    structural = topology.minimal(flows)
    for name in graph.kinds:
        if name == "stay":
            continue
        worst = _folded(graph, routed, name, topology)
        assert structural.named(name).worst == pytest.approx(worst)


def _folded(graph, routed, name, topology) -> float:
    """Worst load of a class with the copies of one physical link added up."""
    if not isinstance(topology, Dragonfly) or name != "local link":
        return routed.named(name).worst
    units = routed.named(name).units
    mine = graph.kind == graph.kinds.index(name)
    routers = topology.routers * topology.groups
    key = (graph.tail[mine] % routers) * routers + graph.head[mine] % routers
    return float(np.bincount(key, weights=units).max())


@pytest.mark.parametrize("name", SMALL_ONES)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_flow_crosses_as_many_links_as_it_hops(name, seed):
    """Load conservation: units added up over all links are flows times their hops."""
    topology = SMALL_ONES[name]
    random = np.random.default_rng(seed)
    n = topology.endpoints
    flows = Flows.of(n, random.integers(0, n, 40), random.integers(0, n, 40), random.random(40))
    crossed = topology.minimal(flows).crossings
    hops = topology.hops(flows.source, flows.destination)
    expected = float((hops * flows.weight).sum())
    # an adapter class holds the larger of what an endpoint sends and receives
    sent, received = flows.sent(np.arange(n), n), flows.received(np.arange(n), n)
    adapters = 0.0 if topology.direct else 2 * float(np.maximum(sent, received).sum()) - 2 * flows.total
    crossed -= adapters
    if "dragonfly" in name and "+" not in name:
        # minimal routes of a dragonfly skip a local turn where a router is the gateway itself: hops are the longest
        assert crossed <= expected + 1e-9
        assert crossed >= float((np.minimum(hops, 3) * flows.weight).sum()) - 1e-9
    else:
        assert crossed == pytest.approx(expected)


@pytest.mark.parametrize("name", SMALL_ONES)
def test_hops_and_diameter_are_those_of_the_graph(name):
    topology = SMALL_ONES[name]
    between = topology.graph().hops_between
    if name == "wide dragonfly":  # with four links per pair a gateway is near, but routes may take any of them
        assert topology.diameter > between.max()
    else:
        assert topology.diameter == between.max()
    n = topology.endpoints
    source, destination = np.divmod(np.arange(n * n), n)
    ours = topology.hops(source, destination).reshape(n, n)
    assert (ours >= between).all()
    if "dragonfly" not in name or "+" in name:
        assert (ours == between).all()


def test_the_graph_has_the_counted_cables():
    for topology in SMALL_ONES.values():
        parts = topology.components()
        leftover = 0  # global ports that a whole number of links per pair does not use
        if hasattr(topology, "global_ports"):
            switches = getattr(topology, "spines", None) or topology.routers
            g = topology.groups
            leftover = g * switches * topology.global_ports // 2 - g * (g - 1) // 2 * topology.parallel
        assert topology.graph().links == 2 * (parts.cable_count - leftover)


def test_a_composition_is_its_parts():
    pod, core = HyperX((4, 4)), FatTree((8,))
    whole = Composite(pod, core, taper=4.0)
    random = np.random.default_rng(5)
    n = whole.endpoints
    flows = Flows.of(n, random.integers(0, n, 300), random.integers(0, n, 300))
    apart = flows.source // 16 != flows.destination // 16
    loads = whole.minimal(flows)
    inside = [
        pod.minimal(Flows.of(16, flows.source[mine] % 16, flows.destination[mine] % 16))
        for each in range(8)
        for mine in [~apart & (flows.source // 16 == each)]
    ]
    assert loads.named("pod axis 0 link").worst == max(item.named("axis 0 link").worst for item in inside)
    between = core.minimal(Flows.of(8, flows.source[apart] // 16, flows.destination[apart] // 16))
    assert loads.named("pod uplink").worst == between.named("adapter").worst
    assert loads.named("pod uplink").capacity == 16 / 4.0
    # on the graph, messages between pods take the gateways; a 4 x 4 mesh never sends neighbours that way
    routed = engine(whole.graph(), Flows(n, flows.source[apart], flows.destination[apart], flows.weight[apart]))
    assert routed.named("core adapter").worst == between.named("adapter").worst


def test_the_linear_program_is_never_above_the_structure():
    for case in reference()["optimum"]:
        shape = tuple(case.get("shape", case.get("down")))
        builders = {"torus": Torus, "fat-tree": balanced_tree, "dragonfly": lambda s: Dragonfly(*s)}
        topology = builders[case["family"]](shape)
        unit = topology.link if case["family"] == "torus" else 1.0
        everyone = Groups.everyone(topology.endpoints)
        optimum = least_worst_load(topology.graph(), everyone.flows()) * unit
        structural = topology.minimal(everyone)
        worst = max(item.worst for item in structural.classes if item.name != "adapter")
        assert optimum == pytest.approx(case["optimum"], abs=1e-3)
        assert worst == pytest.approx(case["structural"])
        assert optimum <= worst * (1 + 1e-9)
        if "strict" in case:
            strict = engine(topology.graph(), everyone.flows())
            assert strict.named("global link").worst == pytest.approx(case["strict"])


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_routing_policy_beats_the_linear_program(seed):
    from cann_plan.network.topology.routing import ROUTINGS, route

    random = np.random.default_rng(seed)
    topology = Dragonfly(2, 2, 1, 3)
    n = topology.endpoints
    flows = Flows.of(n, np.arange(n), random.permutation(n))
    if not flows.source.size:
        return
    optimum = least_worst_load(topology.graph(), flows)
    for name in ROUTINGS:
        loads = route(topology, flows, name)
        worst = max(item.pressure for item in loads.classes if item.name != "adapter")
        assert worst >= optimum - 1e-6


def test_the_engine_splits_at_every_hop():
    # 0 - 2, 0 - 3, 2 - 1, 3 - 1 and 3 - 4 - 1: two shortest ways of two links
    graph = join(2, 5, [("link", [0, 0, 2, 3, 3, 4], [2, 3, 1, 1, 4, 1], 1.0)])
    units = ecmp_loads(graph, Flows.of(2, [0], [1], [3.0]))
    used = {(int(t), int(h)): u for t, h, u in zip(graph.tail, graph.head, units, strict=True) if u}
    assert used == {(0, 2): 1.5, (0, 3): 1.5, (2, 1): 1.5, (3, 1): 1.5}

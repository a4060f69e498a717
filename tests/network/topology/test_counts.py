"""Switches and cables of whole networks against their definitions and against generated topologies."""

import pytest

from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.fat_tree import FatTree
from cann_plan.network.topology.hyperx import HyperX
from cann_plan.network.topology.shapes import fat_tree
from cann_plan.network.topology.torus import Torus
from tests.network.topology.cases import reference

BUILT = {
    "fat tree radix 64": (fat_tree(16384, 1, 64), 1),
    "dragonfly": (Dragonfly(8, 16, 8, 128), 1),
    "torus 3d": (Torus((16, 32, 32)), 1),
    "torus 2d": (Torus((128, 128)), 1),
    "full mesh 4d": (HyperX((8, 8, 16, 16)), 1),
    "ub-mesh pod": (HyperX((8, 8, 4, 4)), 1),
    "spectrum-x": (FatTree((64, 64), (64,), (64,)), 1),
    "dcn+ single": (FatTree((64, 8), (8,), (8,)), 1),
    "dcn+ dual": (FatTree((128, 4), (8,), (4,)), 2),  # two planes of four leaves
    "hpn pod": (FatTree((128, 120), (60,), (60,)), 2),  # dual plane
}


@pytest.mark.parametrize("case", reference()["counts"], ids=lambda c: c["name"])
def test_counts(case):
    topology, planes = BUILT[case["name"]]
    parts = topology.components().times(planes)
    assert topology.endpoints == case["endpoints"]
    assert parts.switch_count == case["switches"]
    assert parts.fabric_cables == case["links"]
    if "access" in case:
        assert parts.cable_count - parts.fabric_cables == case["access"]
    if "radix" in case:
        assert list(parts.switches) == [case["radix"]]
    if case["switches"] == 0:
        assert 2 * parts.fabric_cables == case["ports"] * case["endpoints"]


@pytest.mark.parametrize(("radix", "endpoints", "switches"), [(64, 2048, 96), (64, 65536, 5120), (36, 648, 54)])
def test_full_fat_trees(radix, endpoints, switches):
    # r^2/2 endpoints on 3r/2 switches with two levels, r^3/4 on 5r^2/4 with three
    topology = fat_tree(endpoints, 1, radix)
    assert topology.endpoints == endpoints
    assert topology.components().switches == {radix: switches}
    assert topology.bisection == endpoints / 2
    assert topology.non_blocking


@pytest.mark.parametrize("taper", [1.0, 2.0, 3.0, 7.0])
def test_a_tapered_leaf_has_as_many_ports_as_the_radix(taper):
    topology = fat_tree(10000, 1, 64, taper)
    ports = topology.down[0] + topology.up[0]
    assert ports <= 64
    assert topology.down[0] / topology.up[0] == pytest.approx(taper, rel=0.1)


def test_bisections():
    assert Torus((32, 32, 16)).bisection == pytest.approx(2 * 16384 / 32 / 6)
    assert HyperX((8, 8), terminals=8).bisection == 8 * 16  # 8 rows of 4 x 4 links
    assert HyperX((8, 8), terminals=2).bisection == 64  # half of the endpoints
    assert Dragonfly(8, 16, 8, 128).bisection == 64 * 64
    # what leaves a torus across the middle of its longest axis, link by link
    torus = Torus((4, 6))
    graph = torus.graph()
    left = graph.tail // 4 < 3
    across = left & (graph.head // 4 >= 3)
    assert torus.bisection == pytest.approx(float(graph.capacity[across].sum()))

"""The answer of the collective command."""

import numpy as np
import pytest

from cann_plan.network import Network
from cann_plan.planner.collective import collective, collective_sweep, operation_of, sweep_sizes
from cann_plan.planner.collective_network import network_of_cluster

A2 = Network.from_levels(
    [
        {"name": "HCCS mesh", "kind": "full-mesh", "size": 8, "bandwidth": 28e9, "latency": 5e-7, "efficiency": 0.654},
        {"name": "RoCE", "kind": "switch", "size": 16, "bandwidth": 25e9, "latency": 1.5e-6, "efficiency": 0.8},
    ],
    "hccl",
    "a2",
)
KEYS = {
    "schema", "op", "bytes", "ranks", "algorithm", "time_s", "algorithm_gb_per_s", "bus_gb_per_s", "lower_bound_s",
    "bottleneck",
}  # fmt: skip


def test_all_reduce_of_one_server():
    answer = collective("all-reduce", 2**30, A2, 8)
    assert set(answer) == KEYS
    assert answer["schema"] == "cann-plan/collective/1"
    assert answer["op"] == "all_reduce"
    assert answer["bottleneck"] == "HCCS mesh"
    # hccl_test at 1.1 GB: 123.9 GB/s
    assert answer["bus_gb_per_s"] == pytest.approx(124, rel=0.05)
    assert answer["bus_gb_per_s"] == pytest.approx(2 * 7 / 8 * answer["algorithm_gb_per_s"])
    assert answer["time_s"] >= answer["lower_bound_s"] > 0


def test_algorithm_between_servers_can_be_named():
    ring = collective("all-reduce", 1e5, A2, 128, "ring")
    assert ring["algorithm"] == "ring"
    assert ring["time_s"] > collective("all-reduce", 1e5, A2, 128, "nhr")["time_s"]


def test_one_rank_moves_nothing():
    answer = collective("broadcast", 1e6, A2, 1)
    assert answer["time_s"] == 0.0
    assert answer["bus_gb_per_s"] is None


@pytest.mark.parametrize(("op", "ranks", "algorithm"), [("gossip", 8, "library"), ("all-reduce", 8, "magic")])
def test_unknown_names_are_refused(op, ranks, algorithm):
    with pytest.raises(ValueError, match="unknown"):
        collective(op, 1e6, A2, ranks, algorithm)


def test_more_ranks_than_devices_are_refused():
    with pytest.raises(ValueError, match="the network has 128") as caught:
        collective("all-reduce", 1e6, A2, 32, stride=8)
    assert caught.value.allowed == "at most 16"


def test_an_algorithm_the_links_do_not_offer_is_refused_with_those_they_do():
    with pytest.raises(ValueError, match="ring does not run all-to-all") as caught:
        collective("all-to-all", 1e6, A2, 128, "ring")
    assert "pairwise" in caught.value.allowed
    assert "ring" not in caught.value.allowed.split(", ")


@pytest.mark.parametrize("name", ["AllReduce", "all-reduce", "all_reduce", "ALLREDUCE"])
def test_operations_go_by_every_usual_spelling(name):
    assert operation_of(name) == "all_reduce"


def test_a_sweep_is_its_collectives():
    sweep = collective_sweep("all-reduce", 3e6, A2, 16, stride=8)
    assert [row["bytes"] for row in sweep["rows"]] == sweep_sizes(3e6)
    for row in sweep["rows"]:
        alone = collective("all-reduce", row["bytes"], A2, 16, stride=8)
        assert row == {name: alone[name] for name in row}
    assert np.all(np.diff([row["time_s"] for row in sweep["rows"]]) >= 0)


def test_sweep_sizes_end_at_the_largest():
    assert sweep_sizes(5000.0) == [1024.0, 2048.0, 4096.0, 5000.0]
    assert sweep_sizes(10.0) == [10.0]


@pytest.mark.parametrize(("ranks", "stride", "devices"), [(8, 1, 8), (16, 8, 128), (12, 1, 16)])
def test_a_cluster_without_a_size_gets_the_servers_the_ranks_need(ranks, stride, devices):
    assert network_of_cluster("atlas-900-a2", (ranks - 1) * stride + 1).devices == devices


def test_two_ranks_on_a_mesh_use_one_link_of_seven():
    # hccl_test on a full-mesh node: bus bandwidth 18 / 54 / 125 GB/s at 2 / 4 / 8 ranks
    measured = {2: 18.0, 4: 54.0, 8: 125.0}
    for ranks, bandwidth in measured.items():
        assert collective("all-reduce", 1e9, A2, ranks)["bus_gb_per_s"] == pytest.approx(bandwidth, rel=0.06)

"""The answer of the collective command."""

import pytest

from cann_plan.network import Network
from cann_plan.planner.collective import collective

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
    with pytest.raises(ValueError, match="the network has 128"):
        collective("all-reduce", 1e6, A2, 256)

"""`compare-topologies`: what must hold between networks, layouts, prices and the estimate."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from cann_plan.network.topology.catalogue import DEFAULT
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.choose import choose
from cann_plan.planner.compare_topologies import compare_topologies
from cann_plan.planner.compare_topologies_rows import TIE
from cann_plan.planner.contract_topologies import TopologiesDocument, TopologyRow
from cann_plan.planner.estimate import estimate
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.topology_claims import advice, gain, routing_cases
from cann_plan.planner.topology_network import fabric_for, own_table, scale_out, topology_table
from cann_plan.planner.topology_search import best_of, bounds, layout_space
from cann_plan.planner.topology_words import topologies_of
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan

PARALLEL = {"tensor": 8, "pipeline": 4, "micro_batch_size": 1, "zero_stage": 1, "sequence_parallel": True}


def plan(nodes=32, model="llama-2-70b", parallel=PARALLEL, cluster="atlas-900-a2", **more):
    document = {
        "model": model,
        "cluster": {"extends": cluster, "nodes": nodes} | more,
        "training": {"tokens": 1e12, "sequence_length": 4096, "global_batch_size": 1024},
    }
    return load_plan(document | ({"parallel": parallel} if parallel else {}))


@cache
def compared(nodes=32, **options) -> TopologiesDocument:
    return compare_topologies(plan(nodes), flips=False, **options)


def row(document, name) -> TopologyRow:
    return next(item for item in document["topologies"] if item["name"] == name)


def test_the_document_is_the_contract():
    document = compared()
    assert set(document) == set(TopologiesDocument.__annotations__) - {"skipped"}
    assert [item["name"] for item in document["topologies"]] != list(DEFAULT)
    assert {item["name"] for item in document["topologies"]} == set(DEFAULT)
    for item in document["topologies"]:
        assert set(item) == set(TopologyRow.__annotations__)
    assert sorted(item["rank"] for item in document["topologies"]) == list(range(1, len(DEFAULT) + 1))
    assert document["injection_gb_per_s"] == 25.0


@pytest.mark.parametrize("name", ["fat-tree", "fat-tree-2to1", "dragonfly", "torus-3d", "ub-mesh"])
def test_an_estimate_on_a_topology_is_the_row_of_the_comparison(name):
    alone = estimate(plan(topology=name))
    ours = row(compared(), name)
    assert alone["time"]["step_s"] == ours["step_s"]
    assert alone["time"]["goodput_days"] == pytest.approx(ours["training_days"])


def test_non_blocking_networks_are_as_fast_as_the_clusters_own_switch():
    document = compared()
    own = document["own_network"]["step_s"]
    assert own == estimate(plan())["time"]["step_s"]
    for name in ("fat-tree", "rail-optimised", "rail-only"):
        assert own <= row(document, name)["step_s"] <= own * 1.01


def test_ranks_follow_step_times_and_equal_ones_the_price():
    for key, rank in (("step_s", "rank"), ("step_s_best_layout", "rank_best_layout")):
        ordered = sorted(compared()["topologies"], key=lambda item: item[rank])
        for one, other in pairwise(ordered):
            assert one[key] <= other[key] * (1 + TIE)
            if one[key] > other[key]:
                assert one["cost"] <= other["cost"]


def test_another_layout_is_never_worse_than_the_held_one():
    for item in compared()["topologies"]:
        assert item["step_s_best_layout"] <= item["step_s"]
        assert item["training_days_best_layout"] <= item["training_days"]
        assert item["days_times_cost"] == pytest.approx(item["training_days"] * item["cost"])


@pytest.mark.parametrize("name", ["fat-tree", "torus-3d", "super-pod", "dragonfly"])
def test_bounding_finds_what_trying_all_layouts_finds(name):
    loaded = plan(16, "llama-2-7b", None)
    job = choose(loaded).job
    own = own_table(job)
    cut = scale_out(own.network, job.cluster.devices)
    space = layout_space(loaded, job.problem)
    table = topology_table(cut, fabric_for(name, cut), own.options)
    switch = topology_table(cut, fabric_for("switch", cut), own.options)
    found = best_of(table, bounds(space, switch))
    least = np.inf
    for _, block in space.blocks():
        result = evaluate(replace(space.problem, communication=table), block)
        least = min(least, float(np.where(result.feasible, result.step, np.inf).min()))
    assert found is not None
    assert found[0] == pytest.approx(least, rel=1e-3)


def test_more_bandwidth_is_never_slower():
    fast, slow = compared(injection=50e9), compared(injection=12.5e9)
    for name in DEFAULT:
        steps = [row(document, name)["step_s"] for document in (fast, compared(), slow)]
        assert steps == sorted(steps)
        best = [row(document, name)["step_s_best_layout"] for document in (fast, compared(), slow)]
        assert best == sorted(best)


def test_equal_cost_gives_cheap_networks_more_bandwidth():
    document = compared(equal="cost")
    costs = [item["cost"] for item in document["topologies"]]
    assert costs == pytest.approx([costs[0]] * len(costs))
    assert row(document, "fat-tree")["injection_gb_per_s"] == pytest.approx(25.0)
    assert row(document, "torus-3d")["injection_gb_per_s"] > 50.0
    assert row(document, "torus-3d")["step_s"] < row(compared(), "torus-3d")["step_s"]


def test_scattered_servers_are_not_faster():
    random = compared(placement="random")
    for name in ("fat-tree-2to1", "torus-3d", "super-pod"):
        assert row(random, name)["step_s"] >= row(compared(), name)["step_s"] * (1 - 1e-9)


def test_hashing_is_not_faster_than_spreading():
    hashed, spread = compared(routing="ecmp"), compared(routing="minimal")
    for name in DEFAULT:
        assert row(hashed, name)["step_s"] >= row(spread, name)["step_s"] * (1 - 1e-9)
    assert row(hashed, "fat-tree")["step_s"] > row(spread, "fat-tree")["step_s"]


def test_a_taper_names_the_link_that_costs():
    document = compare_topologies(
        plan(64), [{"family": "fat-tree", "taper": 4, "name": "thin"}, "fat-tree"], flips=False
    )
    thin = row(document, "thin")
    assert thin["step_s"] > row(document, "fat-tree")["step_s"]
    assert thin["hottest_link"]["link"].startswith("leaf")
    assert 1.0 < thin["hottest_link"]["slowdown"] <= 4.0 * 1.1
    assert "leaf" in thin["why"]
    assert document["buy"]["name"] in ("thin", "fat-tree")


def test_what_to_buy_is_the_cheapest_of_the_fastest():
    for document in (compared(), compared(routing="ecmp"), compared(placement="random")):
        rows = document["topologies"]
        fastest = min(item["step_s_best_layout"] for item in rows)
        equal = [item for item in rows if item["step_s_best_layout"] <= fastest * (1 + TIE)]
        assert document["buy"]["name"] == min(equal, key=lambda item: item["cost"])["name"]


def test_flips_are_real():
    document = compare_topologies(plan(64), ["fat-tree", "torus-3d", "fat-tree-2to1"])
    bought = document["buy"]["name"]
    for flip in document["buy"]["flips"]:
        assert flip["name"] != bought
        if flip["over"] == "injection_gb_per_s":
            there = compare_topologies(
                plan(64), ["fat-tree", "torus-3d", "fat-tree-2to1"], injection=flip["at"] * 1e9, flips=False
            )
            # with the layout free, the network to buy may differ again, but no longer be the first one and slower
            assert row(there, flip["name"])["step_s"] <= row(there, bought)["step_s"] * (1 + TIE)


def test_unknown_prices_are_said_and_parts_decide():
    document = compare_topologies(plan(16), ["fat-tree", "torus-3d"], prices=None, flips=False)
    assert all(item["power_w"] is None and "no source" in item["power_reason"] for item in document["topologies"])


def test_networks_that_cannot_be_built_are_left_out_with_the_reason():
    # an NVLink domain of 72 devices does not fit a switch of 64 ports, its rails do
    loaded = plan(64, "llama-2-7b", None, "gb200-nvl72")
    document = compare_topologies(loaded, ["fat-tree", "rail-only", "torus-2d"], flips=False)
    assert [item["name"] for item in document["skipped"]] == ["fat-tree"]
    assert "64 ports" in document["skipped"][0]["why"]
    assert {item["name"] for item in document["topologies"]} == {"rail-only", "torus-2d"}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"equal": "speed"}, "basis"), ({"routing": "magic"}, "routing"), ({"placement": "tidy"}, "placement")],
)
def test_wrong_options(options, words):
    with pytest.raises(PlanError, match=words):
        compare_topologies(plan(16), ["fat-tree"], flips=False, **options)


def test_one_server_has_no_network_to_replace():
    with pytest.raises(PlanError, match="one server"):
        compare_topologies(plan(1, "llama-2-7b", None), ["fat-tree"])


def test_names_of_topologies(tmp_path):
    assert topologies_of(None) == list(DEFAULT)
    assert topologies_of("dragonfly, torus-3d") == ["dragonfly", "torus-3d"]
    assert len(topologies_of("all")) > len(DEFAULT)
    file = tmp_path / "mine.yaml"
    file.write_text("{family: fat-tree, taper: 3}")
    assert topologies_of(str(file)) == [{"name": "mine", "family": "fat-tree", "taper": 3}]
    with pytest.raises(PlanError) as caught:
        topologies_of("dragonflies")
    assert caught.value.suggestion == "dragonfly"


def test_a_topology_in_a_plan_is_checked_where_it_stands():
    with pytest.raises(SpecError, match=r"cluster\.topology: unknown topology 'fatree'"):
        estimate(plan(topology="fatree"))
    with pytest.raises(SpecError, match=r"network\.routing.*needs a topology"):
        estimate(plan().override({"network.routing": "ecmp"}))
    hashed = estimate(plan(topology="fat-tree").override({"network.routing": "ecmp"}))
    assert hashed["time"]["step_s"] > estimate(plan(topology="fat-tree"))["time"]["step_s"]


def test_a_file_of_links_runs_a_plan(tmp_path):
    file = tmp_path / "star.txt"
    file.write_text("".join(f"{node} core 200GB/s\n" for node in range(16)))
    document = compare_topologies(plan(16), ["switch", str(file)], flips=False)
    star, switch = row(document, str(file)), row(document, "switch")
    assert star["step_s"] == pytest.approx(switch["step_s"])
    assert star["switches"] == 1


def test_routing_and_placement_gain():
    """Against hashed flows on scattered servers, spreading and placing saves communication; how much depends on the
    layout and on the taper."""
    cases = {(case.routing, case.placement): case for case in routing_cases(plan(64), "fat-tree-2to1")}
    worst, best = cases["ecmp", "random"], cases["topology-aware", "compact"]
    assert 0.0 < gain(worst, best) < 1.0
    assert worst.step_s > best.step_s
    assert cases["ecmp", "compact"].communication_s >= cases["minimal", "compact"].communication_s


def test_advice_is_checked_against_the_alternatives():
    told = advice(plan(64), ("torus-3d", "dragonfly"))
    assert told.best["name"] in ("torus-3d", "dragonfly")
    assert told.behind >= 0.0
    assert (told.behind <= TIE and told.cheaper <= 0.0) == (told.buy in ("torus-3d", "dragonfly"))

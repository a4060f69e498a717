"""Hash collisions, max-min fair rates and routing policies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.network.topology.collisions import expected_maximum, hashed_load
from cann_plan.network.topology.dragonfly import Dragonfly
from cann_plan.network.topology.fair_share import fair_rates
from cann_plan.network.topology.routing import ROUTINGS, route
from cann_plan.network.topology.traffic import Flows, Groups
from tests.network.topology.cases import SMALL_ONES, reference


@pytest.mark.parametrize("case", reference()["hashing"], ids=lambda c: f"{c['links']}-{c['flows']}")
def test_fullest_of_hashed_links(case):
    factor = expected_maximum(case["flows"], case["links"]) / (case["flows"] / case["links"])
    assert factor == pytest.approx(case["factor"], rel=0.01)


def test_sixteen_links_and_a_thousand_flows():
    # Meta, SIGCOMM 2024: more than 1.2 times the average
    assert abs(expected_maximum(1000, 16) / (1000 / 16) - 1.23) <= 0.02


def test_expected_maximum_by_enumeration():
    # 3 flows on 2 links: 2 of 8 outcomes put all on one link
    assert expected_maximum(3, 2) == pytest.approx((2 * 3 + 6 * 2) / 8)
    assert expected_maximum(2, 3) == pytest.approx((3 * 2 + 6 * 1) / 9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 400), st.integers(1, 64))
def test_the_fullest_link_holds_the_mean_and_no_more_than_all(flows, links):
    most = expected_maximum(flows, links)
    assert np.ceil(flows / links) - 1e-9 <= most <= flows + 1e-9


@settings(max_examples=30, deadline=None)
@given(st.floats(0.1, 50.0), st.integers(1, 32), st.sampled_from([1, 2, 8]))
def test_more_queue_pairs_never_collide_worse(units, links, pairs):
    even = units / links
    assert hashed_load(units, links, pairs) >= min(even, units) * (1 - 1e-9)
    assert hashed_load(units, links, 4 * pairs) <= hashed_load(units, links, pairs) * (1 + 1e-9) + 1e-9


def test_fair_rates_by_hand():
    # Bertsekas, Gallager: three links of 1; a long flow over all, one short flow on two of them, two on the third
    flow = np.array([0, 0, 0, 1, 2, 3, 3])
    link = np.array([0, 1, 2, 0, 1, 2, 0])
    rates = fair_rates(flow, link, np.array([1.0, 1.0, 1.0]), 4)
    assert rates == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1 / 3])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 10))
def test_fair_rates_fill_a_link_of_every_flow(seed, flows, links):
    """Max-min fairness: no link is overfull, and every flow crosses a full link on which nobody is faster."""
    random = np.random.default_rng(seed)
    crosses = random.random((flows, links)) < 0.4
    crosses[np.arange(flows), random.integers(0, links, flows)] = True
    flow, link = np.nonzero(crosses)
    capacity = random.uniform(0.5, 2.0, links)
    rates = fair_rates(flow, link, capacity, flows)
    used = np.bincount(link, weights=rates[flow], minlength=links)
    assert (used <= capacity * (1 + 1e-9)).all()
    full = used >= capacity * (1 - 1e-9)
    for each in range(flows):
        mine = link[flow == each]
        assert any(full[k] and rates[each] >= rates[flow[link == k]].max() * (1 - 1e-9) for k in mine)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_coarse_filling_stays_close(seed):
    random = np.random.default_rng(seed)
    flow = np.repeat(np.arange(200), 4)
    link = random.integers(0, 60, 800)
    exact = fair_rates(flow, link, np.ones(60), 200)
    coarse = fair_rates(flow, link, np.ones(60), 200, bucket=0.05)
    assert coarse.mean() == pytest.approx(exact.mean(), rel=0.03)


def test_a_permutation_over_hashed_uplinks():
    case = reference()["permutation"]
    hosts, leaves, pods = case["down"]
    n = hosts * leaves * pods
    random = np.random.default_rng(1)
    target = random.permutation(n)
    source = np.arange(n)
    leaf, pod = source // hosts, source // (hosts * leaves)
    up = random.integers(0, hosts, n)  # spine of the pod
    core = random.integers(0, leaves, n)  # core behind it
    out, across = leaf != target // hosts, pod != target // (hosts * leaves)
    names: list[tuple] = []
    flows = []
    for each in source:
        path = [("out", each), ("in", int(target[each]))]
        if out[each]:
            path += [("up", int(leaf[each]), int(up[each])), ("down", int(target[each]) // hosts, int(up[each]))]
        if across[each]:
            ends = int(pod[each]), int(target[each]) // (hosts * leaves)
            path += [
                ("core", ends[0], int(up[each]), int(core[each])),
                ("rock", ends[1], int(up[each]), int(core[each])),
            ]
        names += path
        flows += [each] * len(path)
    link = {name: index for index, name in enumerate(dict.fromkeys(names))}
    rates = fair_rates(np.array(flows), np.array([link[name] for name in names]), np.ones(len(link)), n)
    assert rates.mean() == pytest.approx(case["mean_rate"], abs=0.02)
    assert 0.14 <= rates.min() <= 0.25


@pytest.mark.parametrize("name", SMALL_ONES)
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_policies_in_order(name, seed):
    """Topology-aware is never worse than adaptive, which is never worse than minimal or Valiant; hashing only adds."""
    topology = SMALL_ONES[name]
    n = topology.endpoints
    flows = Flows.of(n, np.arange(n), np.random.default_rng(seed).permutation(n))
    if not flows.source.size:
        return
    slow = {routing: route(topology, flows, routing).slowdown for routing in ROUTINGS}
    assert slow["topology-aware"] <= slow["adaptive"] * (1 + 1e-9)
    assert slow["adaptive"] <= min(slow["minimal"], max(slow["valiant"], slow["minimal"])) * (1 + 1e-9)
    assert slow["ecmp"] >= slow["minimal"] * (1 - 1e-9)


def test_uniform_traffic_is_minimal_already():
    topology = Dragonfly(4, 8, 4, 32)
    everyone = Groups.everyone(1024, 1 / 1023)
    assert route(topology, everyone, "adaptive").slowdown == route(topology, everyone, "minimal").slowdown
    assert route(topology, everyone, "valiant").named("global link").worst == pytest.approx(2.06, abs=0.02)


def test_unknown_routing_names_the_known():
    with pytest.raises(ValueError, match="topology-aware"):
        route(Dragonfly(2, 2, 1, 3), Groups.everyone(12), "magic")

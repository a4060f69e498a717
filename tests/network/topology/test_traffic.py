"""Counting all-to-all traffic by membership gives what listing its flows gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.network.topology.traffic import Flows, Groups
from tests.network.topology.cases import SMALL_ONES, group_members

sizes = st.integers(0, 2**32 - 1)


def some_groups(seed: int, endpoints: int = 24) -> Groups:
    random = np.random.default_rng(seed)
    group = random.integers(-1, 4, endpoints)
    return Groups(endpoints, group, 4, float(random.integers(1, 4)))


@settings(max_examples=40, deadline=None)
@given(sizes)
def test_counts_of_groups_are_those_of_their_flows(seed):
    groups = some_groups(seed)
    flows = groups.flows()
    random = np.random.default_rng(seed + 1)
    source, destination = random.integers(0, 5, 24), random.integers(0, 3, 24)
    assert groups.total == pytest.approx(flows.total)
    for method in ("sent", "received", "within"):
        assert getattr(groups, method)(source, 5) == pytest.approx(getattr(flows, method)(source, 5))
    ours = groups.count(source, 5, destination, 3)
    assert ours == pytest.approx(flows.count(source, 5, destination, 3))
    assert groups.inside(source, 5).total == pytest.approx(flows.inside(source, 5).total)


@pytest.mark.parametrize("name", SMALL_ONES)
@settings(max_examples=5, deadline=None)
@given(sizes)
def test_loads_of_groups_are_those_of_their_flows(name, seed):
    topology = SMALL_ONES[name]
    random = np.random.default_rng(seed)
    groups = Groups(topology.endpoints, random.integers(0, 3, topology.endpoints), 3)
    counted, listed = topology.minimal(groups), topology.minimal(groups.flows())
    for item in counted.classes:
        assert item.worst == pytest.approx(listed.named(item.name).worst)
        assert item.crossings == pytest.approx(listed.named(item.name).crossings)


def test_an_endpoint_is_in_one_group():
    with pytest.raises(ValueError, match="more than one group"):
        Groups.of(4, [[0, 1], [1, 2]])


def test_flows_stay_inside_the_network_and_drop_what_goes_nowhere():
    assert Flows.of(4, [0, 1], [0, 2]).source.tolist() == [1]
    with pytest.raises(ValueError, match=r"0\.\.3"):
        Flows.of(4, [0], [4])


def test_group_members():
    assert group_members(8, 2, 4).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]

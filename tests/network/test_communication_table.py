"""Claims about the communication table: bounds, monotonicity, batches, known measured behaviour."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.network import CommunicationOptions, CommunicationTable, Level, Network

US = 1e-6
MESH = Level("HCCS mesh", "full-mesh", 8, 28e9, 0.5 * US, 0.654)
ROCE = Level("RoCE", "switch", 64, 25e9, 1.5 * US, 0.8)
NVSWITCH = Level("NVSwitch", "switch", 8, 450e9, 0.6 * US, 0.745, in_network_reduction=True)
INFINIBAND = Level("InfiniBand", "switch", 64, 50e9, 2.7 * US, 0.85)
A2 = Network((MESH, ROCE), "hccl", "a2")
A3 = Network(
    (
        Level("SIO pair", "pair", 2, 224e9, 0.2 * US, 0.85),
        Level("UB node", "switch", 8, 196e9, 0.5 * US, 0.96),
        Level("UB SuperPoD", "switch", 48, 196e9, 1.5 * US, 0.9),
    ),
    "hccl",
    "a3",
    node_levels=2,
)
H100 = Network((NVSWITCH, INFINIBAND), "nccl", "hopper")
TORUS = Network.from_levels([Level("ICI", "torus", 64, 45e9, 1 * US, dimensions=(4, 4, 4))])
MI300 = Network((replace(MESH, bandwidth=64e9), INFINIBAND), "rccl", "mi300")
NETWORKS = {"a2": A2, "a3": A3, "h100": H100, "torus": TORUS, "mi300": MI300}
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv")

network_names = st.sampled_from(sorted(NETWORKS))
operations = st.sampled_from(OPERATIONS)
sizes = st.floats(1.0, 1e11)
powers = st.integers(0, 6).map(lambda k: 2**k)


def pair(ranks, stride, network):
    return ranks * stride <= network.devices


@given(network_names, operations, sizes, st.integers(1, 64), st.sampled_from([1, 2, 4, 8, 16]))
def test_never_below_the_latency_and_bandwidth_bound(name, operation, nbytes, ranks, stride):
    network = NETWORKS[name]
    if not pair(ranks, stride, network):
        return
    table = CommunicationTable(network)
    seconds = table.seconds(operation, nbytes, ranks, stride)[0]
    assert seconds >= table.lower_bound_seconds(operation, nbytes, ranks, stride)[0] * (1 - 1e-12)


@given(network_names, operations, sizes, st.floats(1.0, 8.0), powers, st.sampled_from([1, 8]))
def test_fewer_bytes_are_never_slower(name, operation, nbytes, factor, ranks, stride):
    network = NETWORKS[name]
    if not pair(ranks, stride, network):
        return
    table = CommunicationTable(network, CommunicationOptions("best"))
    small, large = table.seconds(operation, [nbytes, nbytes * factor], ranks, stride)
    assert small <= large * (1 + 1e-12)


@given(network_names, operations, sizes, st.floats(1.0, 4.0), powers, st.sampled_from([1, 8]), st.integers(0, 2))
def test_more_bandwidth_is_never_slower_with_the_best_algorithm(name, operation, nbytes, factor, ranks, stride, which):
    network = NETWORKS[name]
    if not pair(ranks, stride, network):
        return
    level = network.levels[which % len(network.levels)]
    # stay on one side of the border between adapters and memory fabrics, which changes the software path
    faster = replace(level, bandwidth=level.bandwidth * factor)
    if (level.bandwidth > 100e9) != (faster.bandwidth > 100e9):
        return
    other = network.with_levels(faster if each is level else each for each in network.levels)
    best = CommunicationOptions("best")
    before = CommunicationTable(network, best).seconds(operation, nbytes, ranks, stride)[0]
    after = CommunicationTable(other, best).seconds(operation, nbytes, ranks, stride)[0]
    assert after <= before * (1 + 1e-12)


@given(st.sampled_from(["ring", "nhr", "pairwise"]), sizes, st.integers(2, 200))
def test_fewer_ranks_are_never_slower_on_a_switch(algorithm, nbytes, ranks):
    operation = "all_to_all" if algorithm == "pairwise" else "all_reduce"
    network = Network((Level("switch", "switch", 256, 25e9, 5 * US),))
    table = CommunicationTable(network, CommunicationOptions(algorithm))
    fewer, more = table.seconds(operation, nbytes, [ranks - 1, ranks])
    assert fewer <= more * (1 + 1e-12)


@given(st.sampled_from(["halving_doubling", "bruck"]), sizes, st.integers(1, 7))
def test_fewer_ranks_in_powers_of_two_are_never_slower(algorithm, nbytes, exponent):
    operation = "all_to_all" if algorithm == "bruck" else "all_reduce"
    network = Network((Level("switch", "switch", 256, 25e9, 5 * US),))
    table = CommunicationTable(network, CommunicationOptions(algorithm))
    fewer, more = table.seconds(operation, nbytes, [2**exponent, 2 ** (exponent + 1)])
    assert fewer <= more * (1 + 1e-12)


def test_halving_doubling_off_powers_of_two_can_be_slower_with_fewer_ranks():
    network = Network((Level("switch", "switch", 256, 25e9, 5 * US),))
    table = CommunicationTable(network, CommunicationOptions("halving_doubling"))
    seven, eight = table.seconds("all_reduce", 1e9, [7, 8])
    assert seven > eight


@settings(max_examples=25)
@given(network_names, st.integers(0, 2**32 - 1))
def test_a_batch_equals_its_rows_to_the_last_bit(name, seed):
    network = NETWORKS[name]
    random = np.random.default_rng(seed)
    count = 40
    ranks = 2 ** random.integers(0, 5, count)
    strides = 2 ** random.integers(0, 3, count)
    keep = ranks * strides <= network.devices
    ranks, strides = ranks[keep], strides[keep]
    nbytes = 10.0 ** random.uniform(0, 10, len(ranks))
    for operation in OPERATIONS:
        together = CommunicationTable(network).seconds(operation, nbytes, ranks, strides)
        table = CommunicationTable(network)
        alone = [table.seconds(operation, n, p, s)[0] for n, p, s in zip(nbytes, ranks, strides, strict=True)]
        assert together.tolist() == alone


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_rank_takes_no_time(name, operation):
    table = CommunicationTable(NETWORKS[name])
    assert table.seconds(operation, [1e9, 0.0], 1, [1, 8]).tolist() == [0.0, 0.0]
    assert table.describe(operation, 1e9, 1).algorithm == "none"


def test_an_empty_batch_is_empty():
    assert CommunicationTable(A2).seconds("all_reduce", [], [], []).shape == (0,)


def test_bandwidth_of_an_a2_mesh_grows_with_the_group():
    # hccl_test on one 8-NPU full mesh: 18.5 / 54.2 / 125.4 GB/s at 8.7 GB for 2 / 4 / 8 ranks
    bus = CommunicationTable(A2).bus_bandwidth("all_reduce", 8.67e9, [2, 4, 8])
    np.testing.assert_allclose(bus, [18.52e9, 54.2e9, 125.35e9], rtol=0.03)


def test_an_a3_node_behaves_like_a_switch_with_slower_pairs():
    # HCCL on A3 dies at 512 MiB: 112 / 189 / 195 / 189 GB/s for 2 / 4 / 8 / 16 ranks
    bus = CommunicationTable(A3).bus_bandwidth("all_reduce", 2.0**29, [2, 4, 8, 16])
    np.testing.assert_allclose(bus, [112.3e9, 189.2e9, 195.2e9, 189.3e9], rtol=0.05)


def test_small_messages_on_a3_take_the_vector_kernel_up_to_one_mebibyte_per_rank():
    table = CommunicationTable(A3)
    assert table.describe("all_reduce", 8 * 2**20, 8).protocol == "AIV"
    assert table.describe("all_reduce", 8 * 2**20 + 4096, 8).protocol == "SDMA"
    # across servers 190 KiB per rank: measured 86 us at 4 MiB and 328 us at 8 MiB with 32 ranks
    assert table.describe("all_reduce", 4 * 2**20, 32).protocol == "AIV"
    assert table.describe("all_reduce", 8 * 2**20, 32).protocol == "SDMA"


def test_a_data_parallel_ring_uses_the_adapters_of_all_its_members_in_a_node():
    table = CommunicationTable(H100, CommunicationOptions("ring"))
    # 4 nodes: eight members per node drive eight adapters, one member per node drives one
    eight_per_node = table.seconds("all_gather", 4e9, 32, 1)[0]
    one_per_node = table.seconds("all_gather", 4e9, 4, 8)[0]
    assert one_per_node / eight_per_node == pytest.approx(8 * (3 / 4) / (31 / 32), rel=0.1)


def test_switch_reduction_beats_the_ring_in_a_hopper_node():
    # 8 x H200 measured 482 GB/s in the switches, 368 with the ring
    library = CommunicationTable(H100)
    ring = CommunicationTable(H100, CommunicationOptions("ring"))
    assert library.describe("all_reduce", 16e9, 8).algorithm == "in_network"
    ratio = ring.seconds("all_reduce", 16e9, 8)[0] / library.seconds("all_reduce", 16e9, 8)[0]
    assert 1.05 < ratio < 1.4


def test_oversubscribed_tier_slows_groups_that_cross_it_only():
    pod = replace(INFINIBAND, size=8)
    between = replace(INFINIBAND, size=4, oversubscription=7.0)
    thin = CommunicationTable(Network((NVSWITCH, pod, between)))
    full = CommunicationTable(Network((NVSWITCH, pod, replace(between, oversubscription=1.0))))
    assert thin.seconds("all_to_all", 1e9, 64) == full.seconds("all_to_all", 1e9, 64)
    assert thin.seconds("all_to_all", 1e9, 256)[0] > 3 * full.seconds("all_to_all", 1e9, 256)[0]
    alone = thin.seconds("send_recv", 1e9, 2, 64, concurrent=False)[0]
    assert alone < thin.seconds("send_recv", 1e9, 2, 64)[0]


def test_interleaved_groups_share_ring_links():
    ring = CommunicationTable(Network((Level("ring", "ring", 8, 50e9, 1 * US),)))
    shared = ring.seconds("all_gather", 1e9, 4, 2)[0]
    alone = ring.seconds("all_gather", 1e9, 4, 2, concurrent=False)[0]
    assert shared == pytest.approx(2 * alone, rel=1e-3)


def test_send_crosses_the_slowest_hop_of_the_pipeline():
    table = CommunicationTable(A2)
    inside = table.send_seconds(1e8, 4, 2)[0]
    across = table.send_seconds(1e8, 4, 4)[0]
    assert inside == pytest.approx(1e8 / (28e9 * 0.654), rel=0.02)
    assert across == pytest.approx(1e8 / 20e9, rel=0.02)


def test_joined_axes_equal_the_plain_group_they_form():
    table = CommunicationTable(A2)
    joined = table.seconds("all_reduce", 1e8, 2, 8, outer_size=4, outer_stride=16)
    assert joined.tolist() == table.seconds("all_reduce", 1e8, 8, 8).tolist()


def test_description_names_the_algorithm_and_the_links():
    found = CommunicationTable(A2).describe("all_reduce", 1e9, 64)
    assert found.algorithm == "pipeline"
    assert found.bottleneck == "RoCE"
    assert [(link.name, link.fan, link.below) for link in found.links] == [("HCCS mesh", 8, 1), ("RoCE", 8, 8)]
    assert found.seconds >= found.lower_bound_seconds > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "star"}, "unknown kind"),
        ({"bandwidth": 0.0}, "bandwidth must be positive"),
        ({"size": 0}, "size must be at least 1"),
        ({"efficiency": 1.5}, "efficiency"),
        ({"latency": -1.0}, "latency"),
        ({"colour": 1}, "unknown field 'colour'"),
    ],
)
def test_impossible_levels_are_refused(change, message):
    level = {"kind": "switch", "size": 8, "bandwidth": 1e9, "latency": 1e-6} | change
    with pytest.raises(ValueError, match=message):
        Network.from_levels([level])


def test_groups_wider_than_the_network_are_refused():
    with pytest.raises(ValueError, match="spans 1024 devices; the network has 512"):
        CommunicationTable(A2).seconds("all_reduce", 1e6, 1024)

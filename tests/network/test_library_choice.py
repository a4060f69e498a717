"""What HCCL and NCCL choose, and that rows never the fastest are dropped without changing any time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.network import CommunicationOptions, CommunicationTable, Level, Network
from cann_plan.network.algorithms import Row
from cann_plan.network.hccl import between_choice
from cann_plan.network.hccl_constants import A2, A3, A910A, A950
from cann_plan.network.library import envelope
from cann_plan.network.nccl_constants import TREE_CORRECTION

US = 1e-6
MESH = Level("HCCS mesh", "full-mesh", 8, 28e9, 0.5 * US, 0.654)
ROCE = Level("RoCE", "switch", 64, 25e9, 1.5 * US, 0.8)
NVSWITCH = Level("NVSwitch", "switch", 8, 450e9, 0.6 * US, 0.745)
INFINIBAND = Level("InfiniBand", "switch", 64, 50e9, 2.7 * US, 0.92)


@pytest.mark.parametrize(
    ("constants", "servers", "name"),
    [
        (A910A, 16, "halving_doubling"),  # HCCL_ALGO: ring if the number of servers is no power of two, else H-D
        (A910A, 12, "ring"),
        (A2, 2, "ring"),  # equal step counts: ring before NHR
        (A2, 3, "ring"),
        (A2, 8, "nhr"),  # equal steps of NHR and H-D: NHR first
        (A2, 12, "nhr"),
        (A3, 12, "nhr"),
        (A950, 2, "nhr"),  # NHR only
    ],
)
def test_hccl_choice_between_servers(constants, servers, name):
    assert between_choice(constants, servers) == name


def test_a2_takes_the_pipeline_from_one_mebibyte_per_rank():
    table = CommunicationTable(Network((MESH, ROCE), "hccl", "a2"))
    assert table.describe("all_reduce", 64 * 2**20 - 1, 64).algorithm == "nhr"
    assert table.describe("all_reduce", 64 * 2**20, 64).algorithm == "pipeline"
    assert table.describe("all_gather", 64 * 32 * 2**10, 64).algorithm == "pipeline"


def test_a_group_with_one_rank_per_server_has_no_mesh_to_pipeline():
    table = CommunicationTable(Network((MESH, ROCE), "hccl", "a2"))
    assert table.describe("all_reduce", 1e9, 16, 8).algorithm == "nhr"


def test_an_algorithm_the_product_lacks_falls_back_to_its_own_choice():
    network = Network((MESH, ROCE), "hccl", "950")
    named = CommunicationTable(network, CommunicationOptions("halving_doubling"))
    assert named.describe("all_reduce", 1e8, 64).algorithm == "nhr"


def test_nccl_tuner_latency_of_a_ring_of_512():
    # NCCL tuner table: 14 + 896 x 1.9 + 126 x 4.0 = 2220 us (LL128); measured 2170 us at 1 MB on 512 B200
    network = Network((NVSWITCH, INFINIBAND), "nccl", "blackwell")
    table = CommunicationTable(network, CommunicationOptions("ring"))
    assert table.seconds("all_reduce", 1e6, 512)[0] == pytest.approx(2220e-6, rel=0.03)
    assert table.describe("all_reduce", 1e6, 512).protocol == "LL128"
    # 1.4 x (8.4 + 896 x 3.4 + 126 x 14) = 6746 us plateau of Simple; measured 6692 us at 16 MB
    assert table.seconds("all_reduce", 16e6, 512)[0] == pytest.approx(6692e-6, rel=0.12)


def test_large_ring_of_512_b200_reaches_the_measured_bandwidth():
    # 31.9 ms at 4 GiB, 15.0 ms at 1 GiB
    network = Network((NVSWITCH, INFINIBAND), "nccl", "blackwell")
    table = CommunicationTable(network, CommunicationOptions("ring"))
    np.testing.assert_allclose(table.seconds("all_reduce", [2.0**30, 2.0**32], 512), [15.0e-3, 31.9e-3], rtol=0.05)


def test_tree_rows_pass_through_the_interpolated_correction():
    # where tuner times are concave, the least row equals base + bytes/(bandwidth x correction)
    network = Network((NVSWITCH, INFINIBAND), "nccl", "hopper")
    table = CommunicationTable(network, CommunicationOptions("double_tree"))
    # LL128: 14 + 2 (7 x 1.25 + 6 x 8.5) us, 120/128 of the 0.92 of the ring's rate, corrections 0.8 and 1 at
    # 64 B x 2^16 and 64 B x 2^23
    start = 14 * US + 2 * (7 * 1.25 + 6 * 8.5) * US
    for exponent in (16, 23):
        size = 64.0 * 2.0**exponent
        rate = 8 * 50e9 * 0.92 * 0.92 * 120 / 128 * TREE_CORRECTION[1][exponent]
        found = table.describe("all_reduce", size, 512)
        assert found.protocol == "LL128"
        assert found.seconds == pytest.approx(start + 2 * size / rate, rel=0.1)


lines = st.lists(
    st.tuples(st.floats(0.0, 1e-3), st.floats(1e-13, 1e-9), st.sampled_from([math.inf, 1e6])), min_size=1, max_size=12
)


@given(lines, st.floats(0.0, 1e11))
def test_dropping_rows_never_changes_the_time(found, nbytes):
    rows = [Row("x", seconds, per_byte, 0, "", 0.0, high) for seconds, per_byte, high in found]
    rows.append(Row("x", 1e-3, 1e-9, 0))

    def least(some):
        return min(r.seconds + r.per_byte * nbytes for r in some if r.low <= nbytes < r.high)

    kept = envelope(rows)
    assert least(kept) == pytest.approx(least(rows), rel=1e-12)
    assert set(kept) <= set(rows)

"""RDMA against TCP, compressed gradients, and what hides behind compute."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.network import CommunicationOptions, CommunicationTable, Level, Network
from cann_plan.network.compression import Compression, compressed_exchange
from cann_plan.network.overlap import (
    bucket_parameters,
    compute_slowdown,
    exposed_seconds,
    never_hidden_share,
    pipelined_tensor_exposed,
)
from cann_plan.network.transport import point_to_point_fraction, transport_uses, with_transport

US = 1e-6
A2 = Network(
    (Level("HCCS mesh", "full-mesh", 8, 28e9, 0.5 * US, 0.654), Level("RoCE", "switch", 64, 25e9, 1.5 * US, 0.8)),
    "hccl",
    "a2",
)


def test_tcp_is_limited_by_the_cores_that_copy():
    # SIGCOMM 2021: about 42 Gbit/s per core; four cores serve 168 of 200 Gbit/s, two serve 84
    assert point_to_point_fraction("tcp", 25e9, cores=4) == pytest.approx(0.84)
    assert point_to_point_fraction("tcp", 25e9, cores=2) == pytest.approx(0.42)
    assert point_to_point_fraction("rdma", 25e9) > 0.95


def test_tcp_changes_only_levels_that_leave_the_server():
    changed = with_transport(A2, "tcp", cores=1.0)
    assert changed.levels[0] == A2.levels[0]
    # 42 of 200 Gbit/s point to point, of which a collective keeps what it keeps of RDMA's 97%
    assert changed.levels[1].efficiency == pytest.approx(0.8 * 0.21 / 0.97)
    assert changed.levels[1].latency > A2.levels[1].latency
    fabric = Network((A2.levels[0], replace(A2.levels[1], bandwidth=196e9)), "hccl", "a3")
    assert with_transport(fabric, "tcp") == fabric  # a memory-semantic fabric has no sockets


def test_tcp_costs_host_cores_and_time():
    slow, fast = (
        CommunicationTable(A2, CommunicationOptions(transport=t, tcp_cores=2.0)).seconds("all_reduce", 1e9, 64)[0]
        for t in ("tcp", "rdma")
    )
    assert slow > 1.3 * fast
    (tcp,) = transport_uses(A2, "tcp", cores=2.0)
    assert tcp.cores == pytest.approx(2 * 2.0 * 0.8 / 0.97)
    assert transport_uses(A2, "rdma")[0].cores == 0.0


def test_unknown_transport_is_refused():
    with pytest.raises(ValueError, match="unknown transport 'udp'"):
        with_transport(A2, "udp")


def exchange(kind, nbytes=4e9, element=4.0, ratio=None, ranks=64, stride=8, operation="all_reduce"):
    table = CommunicationTable(A2)
    groups = table.groups(ranks, stride)
    return compressed_exchange(
        table, operation, np.array([nbytes]), groups, np.array([ranks]), Compression(kind, ratio), element, 1.3e12
    )


@pytest.mark.parametrize(
    ("kind", "element", "share"),
    [("none", 4.0, 1.0), ("bf16", 4.0, 0.5), ("fp16", 2.0, 1.0), ("int8", 4.0, 0.25), ("int4", 2.0, 0.25)],
)
def test_bytes_on_the_wire_follow_from_the_number_format(kind, element, share):
    assert Compression(kind).wire_share(element) == pytest.approx(share, rel=0.02)


def test_half_precision_halves_the_wire_time_of_large_gradients():
    plain, half = exchange("none"), exchange("bf16")
    assert plain.wire[0] / half.wire[0] == pytest.approx(2.0, rel=0.02)
    assert plain.codec[0] == 0.0
    assert 0 < half.codec[0] < 0.2 * half.wire[0]


def test_int4_from_16_bits_moves_a_quarter():
    # ZeRO++: gradient volume divided by four
    plain = exchange("none", element=2.0, operation="reduce_scatter")
    quarter = exchange("int4", element=2.0, operation="reduce_scatter")
    assert plain.wire[0] / quarter.wire[0] == pytest.approx(4.0, rel=0.05)


def test_sparse_volume_grows_with_the_ranks():
    few, many = exchange("top_k", ranks=8, stride=8), exchange("top_k", ranks=64, stride=8)
    assert many.wire[0] > 4 * few.wire[0]
    assert exchange("top_k", ratio=2.0).wire[0] > exchange("none").wire[0]  # too dense to pay


def test_compression_of_a_single_rank_costs_nothing():
    alone = exchange("int8", ranks=1)
    assert alone.total[0] == 0.0


@pytest.mark.parametrize(("kind", "ratio"), [("zip", None), ("int8", 0.5)])
def test_bad_compressions_are_refused(kind, ratio):
    with pytest.raises(ValueError, match="compression"):
        Compression(kind, ratio)


seconds = st.floats(0.0, 10.0)
share = st.floats(0.0, 1.0)


@given(seconds, seconds, share, share)
def test_hidden_communication_never_exceeds_compute_or_what_may_hide(communication, compute, never, slowdown):
    c, w = np.array([communication]), np.array([compute])
    exposed = exposed_seconds(c, w, never)
    assert exposed[0] >= never * communication - 1e-12
    assert communication - exposed[0] <= compute + 1e-9
    assert exposed_seconds(c, w, never, slowdown)[0] >= exposed[0] - 1e-12
    assert exposed_seconds(c, w, 1.0)[0] == pytest.approx(communication)


def test_megatron_bucket_never_hides():
    # max(40e6, 1e6 x data-parallel ranks) parameters: 40e6 of 2e9 at dp 16, 128e6 at dp 128
    assert bucket_parameters(np.array([16, 128])).tolist() == [40e6, 128e6]
    assert never_hidden_share(np.array([2e9, 2e9, 1e6]), np.array([16, 128, 8])) == pytest.approx([0.02, 0.064, 1.0])


def test_nccl_takes_compute_units_and_hccl_does_not():
    # DeepEP: 20 of 132 processors
    assert compute_slowdown("nccl", 0.0, 3e12)[0] == pytest.approx(20 / 112)
    assert compute_slowdown("hccl", 0.0, 1.6e12)[0] == 0.0
    assert compute_slowdown("hccl", 125e9, 1.6e12)[0] > 0.05


@given(seconds, seconds, st.integers(1, 16))
def test_chunked_tensor_parallelism_never_costs_more_than_no_overlap(communication, compute, chunks):
    exposed = pipelined_tensor_exposed(np.array([communication]), np.array([compute]), chunks, 1e-5)
    assert exposed[0] <= communication
    assert exposed[0] >= min(communication, communication / chunks) - compute - 1e-9


def test_two_equal_chunks_hide_half():
    exposed = pipelined_tensor_exposed(np.array([1.0]), np.array([1.0]), 2, 0.0)
    assert exposed[0] == pytest.approx(0.5)

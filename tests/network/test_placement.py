"""Rank groups against Megatron's documented examples, and their place on the levels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.network import Network
from cann_plan.network.layout import group_layout
from cann_plan.network.placement import Degrees, membership, parse_order, place, rank_groups


def test_megatron_documented_groups_of_16_ranks():
    # Megatron-LM megatron/core/parallel_state.py, initialize_model_parallel docstring: 16 GPUs, tensor 2, pipeline 4.
    placed = place(Degrees.of(tensor=2, pipeline=4, data=2))
    assert rank_groups(placed.data, 16).tolist() == [
        [0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15],
    ]  # fmt: skip
    assert rank_groups(placed.tensor, 16).tolist() == [[2 * i, 2 * i + 1] for i in range(8)]
    assert rank_groups(placed.pipeline, 16).tolist() == [[i, i + 4, i + 8, i + 12] for i in range(4)]


@pytest.mark.parametrize(("expert_tensor", "expert_data"), [(8, 2), (1, 16)])
def test_expert_data_parallel_of_folded_groups(expert_tensor, expert_data):
    # world = 8 x 2 x 64 x 16 = 16,384; expert data = world/(expert_tensor x 64 x 16)
    degrees = Degrees.of(tensor=8, context=2, data=64, pipeline=16, expert=64, expert_tensor=expert_tensor)
    placed = place(degrees)
    assert degrees.world.tolist() == [16384]
    assert placed.expert_data.ranks.tolist() == [expert_data]
    assert placed.expert.stride.tolist() == [expert_tensor]
    assert placed.expert_data.stride.tolist() == [64 * expert_tensor]
    assert placed.valid.all()


def test_strides_of_both_published_orders():
    degrees = Degrees.of(tensor=8, context=2, data=64, pipeline=16)
    default = place(degrees)
    assert (default.data.stride[0], default.pipeline.stride[0]) == (16, 1024)
    assert (default.data_context.size[0], default.data_context.stride[0], default.data_context.outer_size[0]) == (
        128,
        8,
        1,
    )
    other = place(degrees, "tp-cp-ep-pp-dp")
    assert (other.pipeline.stride[0], other.data.stride[0]) == (16, 256)
    joined = other.data_context
    assert (joined.size[0], joined.stride[0], joined.outer_size[0], joined.outer_stride[0]) == (2, 8, 64, 256)


def test_nested_experts_sit_inside_data_parallel():
    placed = place(Degrees.of(tensor=2, context=2, data=8, pipeline=2, expert=4), generator="nested")
    assert (placed.expert.size[0], placed.expert.stride[0]) == (4, 4)
    data_groups = {frozenset(group) for group in rank_groups(placed.data, 64).tolist()}
    for group in rank_groups(placed.expert, 64).tolist():
        assert any(set(group) <= members for members in data_groups)


def test_impossible_expert_degrees_are_marked():
    placed = place(Degrees.of(tensor=2, data=[4, 6], expert=[3, 3], expert_tensor=1))
    assert placed.valid.tolist() == [False, True]


def test_folded_with_pipeline_before_data_needs_equal_model_blocks():
    # Megatron asserts that both generators give the same pipeline groups.
    placed = place(Degrees.of(tensor=4, data=8, pipeline=2, expert=[4, 8], expert_tensor=1), "tp-cp-ep-pp-dp")
    assert placed.valid.tolist() == [True, False]


@pytest.mark.parametrize("order", ["tp-xx-dp", "tp-tp-dp"])
def test_bad_orders_are_refused(order):
    with pytest.raises(ValueError, match="rank order"):
        parse_order(order)


degree = st.sampled_from([1, 2, 3, 4, 6, 8])


@given(degree, degree, degree, degree, st.sampled_from(["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-tp-pp", "pp-cp-tp"]))
def test_every_axis_partitions_the_world(tensor, context, data, pipeline, order):
    degrees = Degrees.of(tensor=tensor, context=context, data=data, pipeline=pipeline)
    placed = place(degrees, order)
    world = int(degrees.world[0])
    for axis in (placed.tensor, placed.context, placed.data, placed.pipeline, placed.data_context):
        ranks = rank_groups(axis, world)
        assert sorted(ranks.reshape(-1).tolist()) == list(range(world))
        assert ranks.shape[1] == axis.ranks[0]


def nodes_of_8(nodes=64):
    return Network.from_levels(
        [
            {"kind": "full-mesh", "size": 8, "bandwidth": 28e9, "latency": 1e-6},
            {"kind": "switch", "size": nodes, "bandwidth": 25e9, "latency": 5e-6},
        ]
    )


def test_membership_counts_members_per_node_and_sibling_groups():
    placed = place(Degrees.of(tensor=4, data=16, pipeline=2))
    tensor, data = membership(nodes_of_8(), placed.tensor), membership(nodes_of_8(), placed.data)
    assert tensor.fan.tolist() == [[4, 1]]
    assert data.fan.tolist() == [[2, 8]]  # two members per node, eight nodes
    assert data.below.tolist() == [[1, 2]]
    assert data.siblings.tolist() == [[1, 4]]  # four data groups share each node's adapters


def test_straddling_groups_take_the_worst_placed_one():
    # six consecutive ranks in nodes of eight: ranks 6-11 are cut 2 + 4, ranks 0-5 are not cut
    layout = group_layout(nodes_of_8(3), 6, 1)
    assert layout.fan[1] == 2
    assert layout.below[1] == 2
    assert not layout.even


@given(st.integers(1, 12), st.integers(1, 12))
def test_layout_agrees_with_counting_every_group(size, stride):
    network = nodes_of_8(32)
    layout = group_layout(network, size, stride)
    base = np.arange(network.devices - size * stride)
    base = base[(base // stride) % size == 0]
    nodes = (base[:, None] + np.arange(size)[None, :] * stride) // 8
    most = max(len(set(row)) for row in nodes.tolist())
    assert layout.fan[1] == most

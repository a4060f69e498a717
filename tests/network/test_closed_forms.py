"""Closed forms of collective algorithms against hand counts and the formulas of HCCL and MPICH."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.network.collectives import all_gather, all_reduce, all_to_all, rooted
from cann_plan.network.collectives.affine import ceil_log2, floor_log2, floor_power2

ALPHA, BETA, GAMMA, N = 3.0e-6, 1 / 20e9, 1 / 500e9, 1e8


@given(st.integers(1, 1 << 40))
def test_integer_logarithms_are_exact(p):
    assert ceil_log2(p) == (p - 1).bit_length()
    assert floor_log2(p) == p.bit_length() - 1
    assert floor_power2(p) == 1 << (p.bit_length() - 1)


@pytest.mark.parametrize("p", range(2, 10))
def test_hccl_all_reduce_formulas(p):
    # mirror-cann/hccl e1a8dc9b docs/zh/user_guide/coll_algo_intro: Mesh, Ring, NHR
    mesh = 2 * ALPHA + 2 * N * BETA / p + (p - 1) / p * N * GAMMA
    ring = 2 * (p - 1) * ALPHA + 2 * (p - 1) / p * N * BETA + (p - 1) / p * N * GAMMA
    nhr = 2 * math.ceil(math.log2(p)) * ALPHA + 2 * (p - 1) / p * N * BETA + (p - 1) / p * N * GAMMA
    assert all_reduce.mesh_all_reduce(p, ALPHA, BETA, GAMMA).at(N) == pytest.approx(mesh)
    assert all_reduce.ring_all_reduce(p, ALPHA, BETA, GAMMA).at(N) == pytest.approx(ring)
    assert all_reduce.nhr_all_reduce(p, ALPHA, BETA, GAMMA).at(N) == pytest.approx(nhr)


@pytest.mark.parametrize("p", range(2, 10))
def test_hccl_halving_doubling_also_off_powers_of_two(p):
    # RHD.md: power of two 2 lg p; else (2 floor(lg p) + 2) alpha and volume of q = 2^floor(lg p) plus two extra vectors
    q = 2 ** int(math.log2(p))
    extra = 0 if p == q else 1
    steps = 2 * int(math.log2(p)) + 2 * extra
    expected = steps * ALPHA + (2 * (q - 1) / q + 2 * extra) * N * BETA + ((q - 1) / q + extra) * N * GAMMA
    assert all_reduce.halving_doubling_all_reduce(p, ALPHA, BETA, GAMMA).at(N) == pytest.approx(expected)


@pytest.mark.parametrize(("p", "blocks"), [(4, 4), (8, 12), (384, 4.167 * 384), (768, 4.667 * 768)])
def test_bruck_block_counts(p, blocks):
    # powers of two send lg p / 2 n; 4.167 n at 384 and 4.667 n at 768 counted bit by bit
    cost = all_to_all.bruck_all_to_all(p, 0.0, 1.0)
    assert float(cost.per_byte) == pytest.approx(blocks / p, rel=1e-4)


@given(st.integers(2, 600))
def test_bruck_counts_the_set_bits_of_every_distance(p):
    assert all_to_all.bruck_all_to_all(p, 0.0, 1.0).per_byte * p == pytest.approx(sum(j.bit_count() for j in range(p)))


@given(st.integers(2, 40))
def test_ring_all_to_all_load_is_the_enumerated_one(p):
    load = np.zeros(p)  # clockwise links
    for start in range(p):
        for distance in range(1, p):
            if 2 * distance < p:
                share = 1.0
            elif 2 * distance == p:
                share = 0.5
            else:
                continue  # the other way round
            for hop in range(distance):
                load[(start + hop) % p] += share
    assert all_to_all.ring_all_to_all(p, 0.0, 1.0).per_byte * p == pytest.approx(load.max())


def test_unequal_all_to_all_waits_for_the_largest_block_of_each_shift():
    sent = np.array([[0.0, 4.0, 1.0], [2.0, 0.0, 6.0], [3.0, 5.0, 0.0]])
    # shift 1: max(4, 6, 3) = 6; shift 2: max(1, 2, 5) = 5
    assert all_to_all.unequal_pairwise_seconds(sent, 10.0, 2.0) == 2 * 10.0 + 2.0 * 11.0


def test_equal_blocks_make_the_unequal_form_pairwise():
    p, n = 8, 8e6
    equal = all_to_all.pairwise_all_to_all(p, ALPHA, BETA).at(n)
    assert all_to_all.unequal_pairwise_seconds(np.full((p, p), n / p), ALPHA, BETA) == pytest.approx(equal)


def test_pipeline_form_of_hccl():
    # Pipeline.md: max(s/p b_inter + a_inter, s/p b_intra + a_intra)(p_inter - 1) + s/p b_intra + a_intra
    p, servers, a0, b0, a1, b1 = 32, 4, 2e-6, 1 / 18e9, 9e-6, 1 / 20e9
    inside, between = N / p * b0 + a0, N / p * b1 + a1
    expected = max(between, inside) * (servers - 1) + inside
    both = all_gather.pipeline_all_gather(p, servers, a0, b0, a1, b1)
    assert max(both[0].at(N), both[1].at(N)) == pytest.approx(expected)


def test_binomial_and_scatter_gather_broadcast_cross():
    # MPICH: binomial for short, scatter + all-gather for long vectors
    small, large = 1e3, 1e9
    binomial = rooted.binomial_broadcast(16, ALPHA, BETA)
    scatter = rooted.scatter_gather_broadcast(16, ALPHA, BETA)
    assert binomial.at(small) < scatter.at(small)
    assert binomial.at(large) > scatter.at(large)


def test_closed_forms_take_arrays():
    p = np.array([2, 3, 8, 100])
    whole = all_reduce.nhr_all_reduce(p, ALPHA, BETA).at(N)
    assert whole.tolist() == [float(all_reduce.nhr_all_reduce(int(k), ALPHA, BETA).at(N)) for k in p]

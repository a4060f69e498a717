"""All-reduce. n is the full vector of one rank.

Sources: [M] MPICH src/mpi/coll/allreduce header comments (Thakur, Rabenseifner, Gropp 2005); [H] HCCL algorithm
introduction; [S] Sanders, Speck, Traff 2009 (two trees); [P] Patarasuk, Yuan 2009 (bandwidth bound).
"""

from __future__ import annotations

from cann_plan.network.collectives.affine import (
    Affine,
    FloatLike,
    IntLike,
    ceil_log2,
    floor_log2,
    floor_power2,
    rest,
)
from cann_plan.network.collectives.all_gather import rest_of


def ring_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """2(p-1) alpha + 2(p-1)/p n beta + (p-1)/p n gamma [H]."""
    return Affine(2.0 * (p - 1) * alpha, 2.0 * rest(p) * beta + rest(p) * gamma)


def double_ring_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Two counter-rotating rings of n/2 each: the bandwidth term of `ring_all_reduce` halves, the latency stays."""
    return ring_all_reduce(p, alpha, beta / 2.0, gamma)


def halving_doubling_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Rabenseifner: 2 lg p alpha + 2(p-1)/p n beta + (p-1)/p n gamma for powers of two.

    Other p, with q the power of two below: (2 lg q + 2) alpha + (2(q-1)/q + 2) n beta + ((q-1)/q + 1) n gamma [M, H].
    """
    q = floor_power2(p)
    spare = (p > q) * 1.0
    steps = 2.0 * floor_log2(p) + 2.0 * spare
    return Affine(steps * alpha, (2.0 * rest_of(q) + 2.0 * spare) * beta + (rest_of(q) + spare) * gamma)


def nhr_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """NHR and NB, any p: 2 ceil(lg p) alpha + 2(p-1)/p n beta + (p-1)/p n gamma [H]."""
    return Affine(2.0 * ceil_log2(p) * alpha, 2.0 * rest(p) * beta + rest(p) * gamma)


def mesh_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Full mesh: 2 alpha + 2 n beta/p + (p-1)/p n gamma, beta of one link [H]."""
    return Affine(2.0 * alpha, 2.0 * beta / p + rest(p) * gamma)


def one_shot_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Every rank reads every vector over its own link of a full mesh: alpha + n beta + (p-1) n gamma."""
    return Affine(alpha, beta + (p - 1) * gamma)


def doubling_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Recursive doubling, ceil(lg p)(alpha + n beta + n gamma); small n [M]."""
    steps = ceil_log2(p)
    return Affine(steps * alpha, steps * (beta + gamma))


def double_tree_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Double binary tree, pipelined: 4 lg p alpha + 2 n beta + n gamma (reduce, then broadcast) [S]."""
    return Affine(4.0 * ceil_log2(p) * alpha, (2.0 * beta + gamma) * (p > 1))


def in_network_all_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Switches reduce: each rank sends n and receives n, 2 alpha + n beta (SHARP, NVLS; full duplex)."""
    return Affine(2.0 * alpha * (p > 1), beta * (p > 1))

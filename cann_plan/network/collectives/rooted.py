"""Broadcast, reduce and point-to-point. n is the full vector (the message for send/receive).

Sources: [M] MPICH src/mpi/coll/bcast, reduce header comments; [H] HCCL algorithm introduction; [S] Sanders, Speck,
Traff 2009.
"""

from __future__ import annotations

from cann_plan.network.collectives.affine import Affine, FloatLike, IntLike, ceil_log2, rest


def binomial_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """ceil(lg p)(alpha + n beta) [M, H]."""
    steps = ceil_log2(p)
    return Affine(steps * alpha, steps * beta)


def binomial_reduce(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """ceil(lg p)(alpha + n beta + n gamma) [M, H]."""
    return binomial_broadcast(p, alpha, beta + gamma)


def ring_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Unpipelined chain, (p-1)(alpha + n beta) [H]."""
    return Affine((p - 1) * alpha, (p - 1) * beta)


def pipelined_ring_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Chain of small chunks: (p-1) alpha + n beta, the form NCCL's ring broadcast tends to."""
    return Affine((p - 1) * alpha, beta * (p > 1))


def scatter_gather_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Binomial scatter and ring all-gather: (ceil(lg p) + p - 1) alpha + 2(p-1)/p n beta [M]."""
    return Affine((ceil_log2(p) + (p - 1)) * alpha, 2.0 * rest(p) * beta)


def nhr_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """NHR and NB: a scatter and an all-gather, 2 ceil(lg p) alpha + 2(p-1)/p n beta [H]."""
    return Affine(2.0 * ceil_log2(p) * alpha, 2.0 * rest(p) * beta)


def double_tree_broadcast(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Two trees of n/2 each, pipelined: 2 lg p alpha + n beta [S]."""
    return Affine(2.0 * ceil_log2(p) * alpha, beta * (p > 1))


def send(alpha: FloatLike, beta: FloatLike) -> Affine:
    """One message over one link: alpha + n beta (HCCL's star has the same form [H])."""
    return Affine(alpha, beta)

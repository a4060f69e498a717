"""All-to-all. n is the total sent vector of one rank, its own block included.

Sources: [M] MPICH src/mpi/coll/alltoall header comments; [H] HCCL algorithm introduction, Pairwise; [R] minimal
routing on a ring: distances k = 1 .. p/2 in both directions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cann_plan.network.collectives.affine import Affine, FloatLike, IntLike, ceil_log2, rest


def pairwise_all_to_all(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """p - 1 exchanges of n/p bytes: (p-1) alpha + (p-1)/p n beta [M, H]."""
    return Affine((p - 1) * alpha, rest(p) * beta)


def mesh_all_to_all(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Full mesh, every pair on its own link: alpha + n/p beta."""
    return Affine(alpha * (p > 1), beta / p)


def bruck_all_to_all(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """ceil(lg p) alpha + n beta sum over bits b of count(j < p with bit b set)/p.

    For powers of two this is lg p / 2 n beta [M].
    """
    blocks = np.zeros(np.shape(p))
    for bit in range(24):  # p below 2^24
        period = 1 << (bit + 1)
        whole = np.asarray(p) // period
        left = np.maximum(np.asarray(p) - whole * period - (period >> 1), 0)
        blocks = blocks + (whole * (period >> 1) + left)
    return Affine(ceil_log2(p) * alpha, blocks / p * beta)


def ring_all_to_all(p: IntLike, alpha: FloatLike, beta: FloatLike, split_ties: bool = True) -> Affine:
    """Direct sends on a bidirectional ring by the shorter way: floor(p/2) alpha + load n/p beta.

    The load is the blocks that cross the busiest link in one direction: p^2/8 (even p, ties split both ways),
    (p^2-1)/8 (odd p), or (p/2)(p/2+1)/2 where all ties turn clockwise [R].
    """
    count = np.asarray(p, dtype=np.float64)
    half = np.floor(count / 2.0)
    odd = count - 2.0 * half
    even_load = half * half / 2.0 if split_ties else half * (half + 1.0) / 2.0
    load = odd * (half * (half + 1.0) / 2.0) + (1.0 - odd) * even_load
    return Affine(half * alpha, load / count * beta)


def line_all_to_all(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Direct sends along an open line: (p-1) alpha + floor(p/2) ceil(p/2) n/p beta over the middle link."""
    count = np.asarray(p, dtype=np.float64)
    half = np.floor(count / 2.0)
    return Affine((count - 1.0) * alpha, half * (count - half) / count * beta)


def unequal_pairwise_seconds(sent: npt.NDArray[np.float64], alpha: float, beta: float) -> float:
    """All-to-all-v by pairwise exchange: (p-1) alpha + beta sum_k max_i n[i, i+k] [M, H].

    `sent` is the (p, p) matrix of bytes from row to column; the diagonal stays at home.
    """
    p = len(sent)
    ranks = np.arange(p)
    total = 0.0
    for shift in range(1, p):
        total += float(np.max(sent[ranks, (ranks + shift) % p]))
    return (p - 1) * alpha + beta * total

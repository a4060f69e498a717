"""All-gather and reduce-scatter. n is the total gathered (or scattered) vector.

Sources: [M] MPICH src/mpi/coll/allgather, reduce_scatter header comments (Thakur, Rabenseifner, Gropp 2005);
[H] HCCL algorithm introduction (Ring, Mesh, NHR, NB, RHD, Pipeline).
"""

from __future__ import annotations

from cann_plan.network.collectives.affine import Affine, FloatLike, IntLike, ceil_log2, floor_log2, floor_power2, rest


def ring_all_gather(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """(p-1) alpha + (p-1)/p n beta [M, H]."""
    return Affine((p - 1) * alpha, rest(p) * beta)


def bruck_all_gather(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """ceil(lg p) alpha + (p-1)/p n beta, any p [M]."""
    return Affine(ceil_log2(p) * alpha, rest(p) * beta)


def doubling_all_gather(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Recursive doubling: lg p alpha + (p-1)/p n beta for powers of two [M]; Bruck's count for other p."""
    return bruck_all_gather(p, alpha, beta)


def mesh_all_gather(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """Full mesh, all links at once: alpha + n/p beta, beta of one link [H]."""
    return Affine(alpha, beta / p)


def ring_reduce_scatter(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """(p-1) alpha + (p-1)/p n (beta + gamma); also pairwise exchange [M, H]."""
    return Affine((p - 1) * alpha, rest(p) * (beta + gamma))


def halving_reduce_scatter(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Recursive halving: lg p alpha + (p-1)/p n (beta + gamma) for powers of two.

    Other p: (floor(lg p) + 2) alpha + n (1 + (q-1)/q) (beta + gamma), q the power of two below [M].
    """
    q = floor_power2(p)
    spare = (p > q) * 1.0
    return Affine((floor_log2(p) + 2.0 * spare) * alpha, (rest_of(q) + spare) * (beta + gamma))


def nhr_reduce_scatter(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """NHR and NB, any p: ceil(lg p) alpha + (p-1)/p n (beta + gamma) [H]."""
    return Affine(ceil_log2(p) * alpha, rest(p) * (beta + gamma))


def nhr_all_gather(p: IntLike, alpha: FloatLike, beta: FloatLike) -> Affine:
    """NHR and NB, any p: ceil(lg p) alpha + (p-1)/p n beta [H]."""
    return Affine(ceil_log2(p) * alpha, rest(p) * beta)


def mesh_reduce_scatter(p: IntLike, alpha: FloatLike, beta: FloatLike, gamma: FloatLike = 0.0) -> Affine:
    """Full mesh: alpha + n/p beta + (p-1)/p n gamma, beta of one link [H]."""
    return Affine(alpha, beta / p + rest(p) * gamma)


def pipeline_all_gather(
    ranks: IntLike,
    servers: IntLike,
    alpha_inside: FloatLike,
    beta_inside: FloatLike,
    alpha_between: FloatLike,
    beta_between: FloatLike,
) -> tuple[Affine, Affine]:
    """HCCL pipeline over two levels as two affine bounds; the time is the larger of the two.

    max(n/p beta_between + alpha_between, n/p beta_inside + alpha_inside)(servers - 1) + n/p beta_inside + alpha_inside,
    which is the larger of the two sums because both are increasing [H, Pipeline].
    """
    last = Affine(alpha_inside, beta_inside / ranks)
    between = Affine(alpha_between, beta_between / ranks).times(servers - 1.0).then(last)
    inside = last.times(servers - 1.0).then(last)
    return between, inside


def rest_of(q: FloatLike) -> FloatLike:
    """(q-1)/q for a float count."""
    return (q - 1.0) / q

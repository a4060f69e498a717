"""Affine cost of a collective and the counts its closed forms share.

Byte convention everywhere: the full vector for all-reduce, broadcast and reduce; the total gathered vector for
all-gather and reduce-scatter; the total sent vector of one rank for all-to-all; the message for send/receive.

Symbols: p ranks, alpha seconds per message, beta seconds per byte of one link in one direction, gamma seconds per byte
of reduction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatLike = float | npt.NDArray[Any]
IntLike = int | npt.NDArray[Any]


class Affine(NamedTuple):
    """Time of n bytes = `seconds` + `per_byte` n. Both may be arrays of equal shape."""

    seconds: FloatLike
    per_byte: FloatLike

    def at(self, nbytes: FloatLike) -> FloatLike:
        """Seconds for `nbytes` bytes."""
        return self.seconds + self.per_byte * nbytes

    def then(self, other: Affine) -> Affine:
        """Both, one after the other."""
        return Affine(self.seconds + other.seconds, self.per_byte + other.per_byte)

    def times(self, factor: FloatLike) -> Affine:
        """The whole cost multiplied."""
        return Affine(self.seconds * factor, self.per_byte * factor)

    def of_share(self, share: FloatLike) -> Affine:
        """Cost as a function of n when this algorithm carries only n * share bytes."""
        return Affine(self.seconds, self.per_byte * share)


ZERO = Affine(0.0, 0.0)


def ceil_log2(p: IntLike) -> FloatLike:
    """Smallest k with 2^k >= p, exact for every integer below 2^53."""
    _, exponent = np.frexp(np.asarray(p, dtype=np.float64) - 1.0)
    return np.maximum(exponent, 0) * 1.0


def floor_log2(p: IntLike) -> FloatLike:
    """Largest k with 2^k <= p, exact for every integer below 2^53."""
    _, exponent = np.frexp(np.asarray(p, dtype=np.float64))
    return (exponent - 1) * 1.0


def floor_power2(p: IntLike) -> FloatLike:
    """Largest power of two that is at most p."""
    return np.ldexp(1.0, np.asarray(floor_log2(p), dtype=np.int64))


def rest(p: IntLike) -> FloatLike:
    """(p - 1)/p, the share of a vector that a rank does not hold itself."""
    return (np.asarray(p, dtype=np.float64) - 1.0) / p

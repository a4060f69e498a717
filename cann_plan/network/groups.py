"""Interning of communication groups: equal (size, stride) pairs get one small integer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cann_plan.arrays import distinct

IntArray = npt.NDArray[np.int64]

_BITS = 31  # sizes and strides stay below 2^31, so that a pair fits one signed 64-bit code


class Group(NamedTuple):
    """{base + i stride + j outer_stride : i < size, j < outer_size}, all siblings active or alone."""

    size: int
    stride: int
    outer_size: int = 1
    outer_stride: int = 1
    concurrent: bool = True


class _Codes:
    """Growing map from 64-bit codes to consecutive integers, searched by bisection."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, dtype=np.int64)
        self._ids = np.empty(0, dtype=np.int64)
        self.codes: list[int] = []

    def ids(self, codes: IntArray) -> IntArray:
        """Integer of each code; codes never seen before get the next integers in ascending order."""
        if not codes.size:
            return np.empty(codes.shape, dtype=np.int64)
        if len(self._sorted):
            place = np.minimum(np.searchsorted(self._sorted, codes), len(self._sorted) - 1)
            known = self._sorted[place] == codes
            if known.all():
                found: IntArray = self._ids[place]
                return found
            missing = distinct(codes[~known])
        else:
            missing = distinct(codes)
        self.codes.extend(missing.tolist())
        everything = np.asarray(self.codes, dtype=np.int64)
        self._ids = np.argsort(everything, kind="stable")
        self._sorted = everything[self._ids]
        return self.ids(codes)


class GroupIndex:
    """Interns groups given as arrays; `groups` lists them in the order of their integers."""

    def __init__(self) -> None:
        self._inner = _Codes()
        self._outer = _Codes()
        self._whole = _Codes()
        self._plain = {True: np.empty(0, dtype=np.int64), False: np.empty(0, dtype=np.int64)}
        self.groups: list[Group] = []

    def intern(
        self,
        size: IntArray,
        stride: IntArray,
        outer_size: IntArray | None = None,
        outer_stride: IntArray | None = None,
        concurrent: bool = True,
    ) -> IntArray:
        """Integer of each row's group. Shapes (N,). Groups of one rank all map to the same integer."""
        inner = self._inner.ids(_pair(size, np.where(size == 1, 1, stride)))
        if outer_size is None or outer_stride is None:
            return self._plain_ids(inner, concurrent)
        outer = self._outer.ids(_pair(outer_size, np.where(outer_size == 1, 1, outer_stride)))
        return self._whole_ids(inner, outer, concurrent)

    def _plain_ids(self, inner: IntArray, concurrent: bool) -> IntArray:
        """Integers of groups without outer repetition, by a direct map from inner integers."""
        plain = self._plain[concurrent]
        if len(plain) < len(self._inner.codes):
            every = np.arange(len(self._inner.codes))
            one = self._outer.ids(np.array([(1 << _BITS) | 1], dtype=np.int64))
            plain = self._plain[concurrent] = self._whole_ids(every, one, concurrent)
        return plain[inner]

    def _whole_ids(self, inner: IntArray, outer: IntArray, concurrent: bool) -> IntArray:
        codes = (inner << 24 | outer << 1) | (1 if concurrent else 0)
        ids = self._whole.ids(np.broadcast_to(codes, inner.shape))
        for code in self._whole.codes[len(self.groups) :]:
            size_code = self._inner.codes[code >> 24]
            outer_code = self._outer.codes[(code >> 1) & ((1 << 23) - 1)]
            low = (1 << _BITS) - 1
            self.groups.append(
                Group(size_code >> _BITS, size_code & low, outer_code >> _BITS, outer_code & low, bool(code & 1))
            )
        return ids


def _pair(first: IntArray, second: IntArray) -> IntArray:
    return (first << _BITS) | second

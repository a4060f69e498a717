"""Small array helpers that every floor may use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def distinct(values: Ints) -> Ints:
    """Distinct values in ascending order. As `np.unique`, which imports masked arrays on first use (15 ms)."""
    if values.size == 0:
        return values.reshape(-1)
    ordered = np.sort(values, axis=None)
    first = np.ones(ordered.shape, dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def distinct_places(values: Ints) -> tuple[Ints, Ints]:
    """First place of every distinct value, ascending by value, and per place the number of its value; (U,), (N,)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.ones(ordered.shape, dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    number = np.empty(values.shape, dtype=np.int64)
    number[order] = np.cumsum(first) - 1
    return order[first], number


def distinct_counts(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values in ascending order and how often each occurs, (U,) each."""
    ordered = np.sort(values, axis=None)
    first = np.ones(ordered.shape, dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    return ordered[starts], np.diff(np.append(starts, ordered.shape[0]))


def distinct_rows(table: Ints) -> Ints:
    """Ascending places of the first occurrence of every distinct row of a matrix, (U,)."""
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    first = np.ones(order.shape, dtype=np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.sort(order[first])


def row_numbers(table: Ints) -> tuple[Ints, Ints]:
    """First place of every distinct row of a matrix, in order of first places, and per row the number of its row;
    (U,), (N,).
    """
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    new = np.ones(order.shape, dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = order[new]
    by_place = np.argsort(first)
    rank = np.empty(first.shape, dtype=np.int64)
    rank[by_place] = np.arange(first.shape[0])
    number = np.empty(order.shape, dtype=np.int64)
    number[order] = rank[np.cumsum(new) - 1]
    return first[by_place], number

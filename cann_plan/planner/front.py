"""The best strategies seen so far: the top by one objective, or all that no other beats in two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Front:
    """Rows kept: objective values (O, K), mechanisms, index in the space and step time (K,).

    Of equal rows the one with fewer mechanisms is kept, then the earlier: merging in any order gives the same.
    """

    def __init__(self, top: int, objectives: int) -> None:
        self.top = top
        self.values: Array = np.zeros((objectives, 0))
        self.mechanisms: Ints = np.zeros(0, np.int64)
        self.index: Ints = np.zeros(0, np.int64)
        self.steps: Array = np.zeros(0)

    def candidates(self, values: Array) -> Ints:
        """Columns of `values` (O, n) that may be kept, without a look at mechanisms: a superset, ascending."""
        if values.shape[1] == 0:
            return np.zeros(0, np.int64)
        if values.shape[0] == 1:
            if values.shape[1] <= self.top:
                return np.arange(values.shape[1])
            worst = np.partition(values[0], self.top - 1)[self.top - 1]
            return np.flatnonzero(values[0] <= worst)
        order = np.lexsort((values[1], values[0]))
        least = np.minimum.accumulate(values[1][order])
        # equal pairs stay together, so that mechanisms decide between them
        before = np.concatenate([np.full(1, np.inf), least[:-1]])
        same = np.zeros(order.shape, np.bool_)
        same[1:] = (values[:, order[1:]] == values[:, order[:-1]]).all(axis=0)
        keep = values[1][order] < before
        keep |= same & (values[1][order] <= least)
        return np.sort(order[keep])

    def add(self, values: Array, mechanisms: Ints, index: Ints, steps: Array) -> None:
        """Take in rows."""
        self.values = np.concatenate([self.values, values], axis=1)
        self.mechanisms = np.concatenate([self.mechanisms, mechanisms])
        self.index = np.concatenate([self.index, index])
        self.steps = np.concatenate([self.steps, steps])
        self._prune()

    def merge(self, other: Front) -> None:
        """Take in the rows of another."""
        self.add(other.values, other.mechanisms, other.index, other.steps)

    def ranked(self) -> list[tuple[int, float]]:
        """(index, step time) of the rows kept, best first: by the first objective."""
        return list(zip(self.index.tolist(), self.steps.tolist(), strict=True))

    def _prune(self) -> None:
        keys = (self.index, self.mechanisms, *self.values[::-1])
        order = np.lexsort(keys)
        if self.values.shape[0] == 1:
            order = order[: self.top]
        else:
            second = self.values[1][order]
            before = np.concatenate([np.full(1, np.inf), np.minimum.accumulate(second)[:-1]])
            order = order[second < before]
        self.values = self.values[:, order]
        self.mechanisms, self.index, self.steps = self.mechanisms[order], self.index[order], self.steps[order]

"""Which collectives a strategy really asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.network.groups import Group
from cann_plan.network.topology.table import TopologyTable


@dataclass(frozen=True, slots=True)
class Asked:
    """One collective of a strategy: the largest message it was asked with, bytes."""

    operation: str
    group: Group
    nbytes: float


@dataclass(slots=True)
class Recorder:
    """A `Communication` that answers from a table and remembers what it was asked."""

    table: TopologyTable
    asked: dict[tuple[str, int], float] = field(default_factory=dict)

    def groups(
        self, group_size: ArrayLike, stride: ArrayLike = 1, *, outer_size: ArrayLike | None = None,
        outer_stride: ArrayLike | None = None, concurrent: bool = True,
    ) -> NDArray[np.int64]:  # fmt: skip
        """See `CommunicationTable.groups`."""
        return self.table.groups(
            group_size, stride, outer_size=outer_size, outer_stride=outer_stride, concurrent=concurrent
        )

    def seconds_of(self, operation: str, nbytes: ArrayLike, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `CommunicationTable.seconds_of`."""
        sizes = np.broadcast_to(np.asarray(nbytes, dtype=np.float64), groups.shape)
        for group, size in zip(groups.tolist(), sizes.tolist(), strict=True):
            key = (operation, group)
            self.asked[key] = max(self.asked.get(key, 0.0), size)
        return self.table.seconds_of(operation, nbytes, groups)

    def seconds(
        self, operation: str, nbytes: ArrayLike, group_size: ArrayLike, stride: ArrayLike = 1, *,
        outer_size: ArrayLike | None = None, outer_stride: ArrayLike | None = None, concurrent: bool = True,
    ) -> NDArray[np.float64]:  # fmt: skip
        """See `CommunicationTable.seconds`."""
        groups = self.groups(
            group_size, stride, outer_size=outer_size, outer_stride=outer_stride, concurrent=concurrent
        )
        size = np.atleast_1d(np.asarray(nbytes, dtype=np.float64))
        shape = np.broadcast_shapes(size.shape, groups.shape)
        return self.seconds_of(operation, np.broadcast_to(size, shape), np.broadcast_to(groups, shape))

    def collectives(self) -> list[Asked]:
        """What was asked for between servers with more than nothing to send, in order."""
        found = []
        for (operation, index), nbytes in self.asked.items():
            group = self.table.group(index)
            ranks = group.size * group.outer_size
            if ranks > 1 and nbytes > 0.0 and self.table.leaves_server(group):
                found.append(Asked(operation, group, nbytes))
        return found

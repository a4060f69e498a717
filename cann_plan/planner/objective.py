"""What a search makes smallest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cann_plan.records import dataclass

if TYPE_CHECKING:
    from cann_plan.planner.evaluate import Scores

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Objective:
    """`name` as in `search.objective`. On one cluster days, cost and energy all grow with the step time: the layout
    with the fastest step is the best in each; memory is the bytes of the fullest rank.
    """

    name: str

    def values(self, scores: Scores, rows: NDArray[np.int64]) -> Array:
        """What is made smallest, of some rows."""
        chosen = scores.device_bytes if self.name == "memory" else scores.step
        values: Array = chosen[rows]
        return values


TIME = Objective("time")

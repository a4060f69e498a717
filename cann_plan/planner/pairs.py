"""Strategies as pairs: what decides the passes of the micro-batches, and what decides the training states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_table import unique_rows
from cann_plan.cost.stages import placement_of
from cann_plan.cost.strategies import Strategies
from cann_plan.records import dataclass

Ints = NDArray[np.int64]

STATES_ONLY = ("zero_stage", "shard_group")
"""Axes that the passes do not depend on."""
PASSES_ONLY = ("context_kind", "ulysses", "micro_batch_size", "sequence_parallel", "policy")
"""Axes that the training states do not depend on; of the schedule and the recomputed layers they depend on the group
of `group_columns` alone.
"""


@dataclass(frozen=True, slots=True)
class Pairs:
    """N strategies: strategy i has the passes of `passes[ahead[i]]` and the states of `states[behind[i]]`.

    A search has far fewer passes and states than pairs of them.
    """

    passes: Strategies
    states: Strategies
    ahead: Ints
    behind: Ints

    def __len__(self) -> int:
        return int(self.ahead.shape[0])

    def strategies(self, rows: Ints) -> Strategies:
        """The strategies of some rows."""
        ahead, behind = self.passes.take(self.ahead[rows]), self.states.take(self.behind[rows])
        names = Strategies.__dataclass_fields__
        return Strategies(**{name: getattr(behind if name in STATES_ONLY else ahead, name) for name in names})


def pairs_of(strategies: Strategies) -> Pairs:
    """Any block of strategies as pairs."""
    s = strategies
    names = [name for name in Strategies.__dataclass_fields__ if name not in STATES_ONLY]
    first_ahead, ahead = unique_rows([getattr(s, name) for name in names])
    without = (*PASSES_ONLY, *STATES_ONLY, "schedule", "recompute_layers")
    shared = [getattr(s, name) for name in names if name not in without]
    columns = [*shared, *group_columns(s), s.zero_stage, s.shard_group]
    first_behind, behind = unique_rows(columns)
    return Pairs(s.take(first_ahead), s.take(first_behind), ahead, behind)


def group_columns(strategies: Strategies) -> list[Ints]:
    """What strategies of one stage table have in common: stages, chunks, split, placement, recompute lists or none."""
    s = strategies
    listed = (s.recompute_layers < -1).astype(np.int64)
    return [s.pipeline, s.virtual, s.split, placement_of(s.schedule), listed]

"""One synchronisation of the gradients of a strategy: the term of the step by itself, for questions about it alone."""

from __future__ import annotations

import numpy as np

from cann_plan.cost.gradient_exchange import gradient_seconds
from cann_plan.cost.layer_block import layer_block
from cann_plan.cost.rank_state import rank_state
from cann_plan.cost.stages import stage_table
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.job import Job
from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class GradientSync:
    """Seconds of the slowest pipeline rank, nothing hidden; `bytes`: gradients that rank exchanges, uncompressed."""

    operation: str
    ranks: int
    bytes: float
    wire_s: float
    codec_s: float

    @property
    def seconds(self) -> float:
        """Wire and codec."""
        return self.wire_s + self.codec_s


def gradient_sync(job: Job, strategies: Strategies) -> GradientSync:
    """All-reduce of the gradients of the first strategy (reduce-scatter from ZeRO stage 1 on), by the same functions
    as the step time.
    """
    problem = job.problem
    part = strategies.take(np.array([0]))
    block = layer_block(problem, part)
    table = stage_table(
        problem.architecture, int(part.pipeline[0]), int(part.virtual[0]), problem.splits[int(part.split[0])],
        all_ranks=True,
    )  # fmt: skip
    state = rank_state(problem, part, block, block.row, table)
    operation = "all_reduce" if int(part.zero_stage[0]) == 0 else "reduce_scatter"
    per_parameter = problem.states.reduce * problem.trainable_fraction
    found = gradient_seconds(problem, state, operation, per_parameter)
    worst = int(np.argmax(found.total[0]))
    parameters = float(state.dense[0, worst] + state.expert[0, worst])
    return GradientSync(
        operation, int(state.dense_group.ranks[0]), parameters * per_parameter, float(found.wire[0, worst]),
        float(found.codec[0, worst]),
    )  # fmt: skip

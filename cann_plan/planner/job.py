"""A plan resolved to numbers: the problem the cost models read, the stated strategy, and every assumption made."""

from __future__ import annotations

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.assumptions import Assumptions, Warnings
from cann_plan.records import dataclass
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.profile import ProfileSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.parameters import ParameterCounts


@dataclass(frozen=True, slots=True)
class Job:
    """One training job on one cluster.

    `strategies`: the stated layout as a block of one, or None where the plan leaves it to the planner. `tokens`: length
    of the run. `peak`: dense FLOP/s of the compute precision, `peak_source` who states it.
    """

    plan: PlanSpec
    model: ModelSpec
    architecture: Architecture
    counts: ParameterCounts
    cluster: Cluster
    profile: ProfileSpec
    problem: Problem
    strategies: Strategies | None
    precision: str
    sequence_length: int
    global_batch_size: int
    tokens: float
    peak: float
    peak_source: str
    assumptions: Assumptions
    warnings: Warnings

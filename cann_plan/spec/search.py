"""`search:` axes of the layout search that are fixed, listed or bounded."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import StrictBool, model_validator

from cann_plan.spec.base import Section, key
from cann_plan.spec.parallel import ContextKind, RecomputePolicy, Schedule, ZeroStage
from cann_plan.spec.quantity import Fraction, PositiveInt, refuse

Objective = Literal["time", "days", "cost", "energy", "memory"]
Split = Literal["even", "first_lighter", "last_lighter", "both_lighter"]
Order = Literal["tensor-context-data-pipeline", "tensor-context-pipeline-data"]

V = TypeVar("V")


class Axis(Section, Generic[V]):
    """Values an axis may take: one value, a list, or `{min, max}`."""

    accepts: ClassVar = ("min", "values")

    values: tuple[V, ...] | None = key("the only values tried")
    min: V | None = key("smallest value tried")
    max: V | None = key("largest value tried")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if isinstance(data, Axis) or data is None:
            return data
        if isinstance(data, dict):
            if "values" in data and ("min" in data or "max" in data):
                raise refuse("values does not go with min and max", "a value, a list, or {min, max}")
            return data
        if isinstance(data, list | tuple):
            if not data:
                raise refuse("an empty list leaves nothing to search", "at least one value")
            return {"values": data}
        return {"values": [data]}

    @model_validator(mode="after")
    def _ordered(self) -> Axis[V]:
        low: Any = self.min
        high: Any = self.max
        if low is not None and high is not None and low > high:
            raise refuse(f"min {low} is above max {high}", "min at most max")
        return self


class SearchSpec(Section):
    """Restrictions of the search; an axis that is absent is searched freely."""

    objective: Objective | None = key("what is made smallest (memory: what leaves most of it free); default time")
    pareto: tuple[Objective, Objective] | None = key("two objectives: every layout that none is better than in both")
    top: PositiveInt | None = key("how many layouts are reported; default 5")
    devices: Axis[PositiveInt] | None = key("device counts")
    tensor: Axis[PositiveInt] | None = key("tensor-parallel degrees")
    pipeline: Axis[PositiveInt] | None = key("pipeline stages")
    data: Axis[PositiveInt] | None = key("data-parallel degrees")
    context: Axis[PositiveInt] | None = key("context-parallel degrees")
    context_kind: Axis[ContextKind] | None = key("kinds of context parallelism")
    ulysses_degree: Axis[PositiveInt] | None = key("ranks of the all-to-all part of hybrid context groups")
    expert: Axis[PositiveInt] | None = key("expert-parallel degrees")
    expert_tensor: Axis[PositiveInt] | None = key("tensor-parallel degrees inside experts")
    virtual_pipeline: Axis[PositiveInt] | None = key("chunks per pipeline stage")
    schedule: Axis[Schedule] | None = key("pipeline schedules")
    layer_split: Axis[Split] | None = key("layers per stage: even, or with a layer less at an end")
    rank_order: Axis[Order] | None = key("parallel axes from adjacent ranks outwards")
    micro_batch_size: Axis[PositiveInt] | None = key("micro-batch sizes")
    sequence_parallel: Axis[StrictBool] | None = key("sequence parallelism on or off")
    zero_stage: Axis[ZeroStage] | None = key("ZeRO stages")
    shard_group: Axis[PositiveInt] | None = key("devices over which parameters are sharded")
    recompute: Axis[RecomputePolicy] | None = key("recompute policies")
    recompute_share: Axis[Fraction] | None = key("shares of a stage's layers that full recomputation is tried on")
    offload: Axis[Fraction] | None = key("fractions of optimizer states kept off the device")

"""`run:` what a whole run loses to warm-up, checkpoints, failures and evaluation."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import BytesPerSecond, Fraction, Hours, NonNegativeNumber, PositiveInt, Quantity, Seconds
from cann_plan.units import Dimension

CheckpointInterval = Annotated[
    float | Literal["auto"], Quantity(Dimension.TIME, "s", above=0, example="30 min", words=("auto",))
]


class CheckpointSpec(Section):
    """Checkpoints: the interval alone, or a mapping."""

    accepts: ClassVar = ("interval",)

    interval: CheckpointInterval | None = key("time between checkpoints, or auto (Young and Daly)", unit="s")
    bandwidth: BytesPerSecond | None = key("writing rate of the whole job", unit="B/s")
    asynchronous: StrictBool | None = key("training goes on while a copy in host memory is written")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"interval": data} if isinstance(data, int | float | str) and not isinstance(data, bool) else data


class EvaluationSpec(Section):
    """Evaluation during training: forward passes only."""

    interval_steps: PositiveInt | None = key("training steps between evaluations", unit="steps")
    steps: PositiveInt | None = key("forward steps of one evaluation", unit="steps")


class RunSpec(Section):
    """What turns ideal time into elapsed time."""

    warmup_s: Seconds | None = key("start-up of a job until the first full-speed step", unit="s")
    checkpoint: CheckpointSpec = section(CheckpointSpec, "checkpoints")
    mtbf_h: Hours | None = key("mean time between failures that stop the whole job", unit="h")
    failures_per_1000_node_days: NonNegativeNumber | None = key("failure rate of a node; used when mtbf_h is absent")
    restart_s: Seconds | None = key("from a failure to training again, without the lost work", unit="s")
    stall_fraction: Fraction | None = key("fraction of time lost to slow nodes and other stalls")
    evaluation: EvaluationSpec = section(EvaluationSpec, "evaluation during training")

    @property
    def mtbf_s(self) -> float | None:
        """`mtbf_h` in seconds."""
        return None if self.mtbf_h is None else self.mtbf_h * 3600.0

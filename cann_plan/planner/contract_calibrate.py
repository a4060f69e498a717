"""The JSON document of `calibrate`."""

from typing import Any, Literal, TypedDict

Json = Any  # a plan value


class FittedParameter(TypedDict):
    """One parameter: fitted value, its 80% interval, the value before the runs, and whether the runs moved it."""

    name: str
    value: float
    low: float
    high: float
    prior: float
    identified: bool


class Residual(TypedDict):
    """One run: step times in seconds, errors as predicted / measured - 1.

    `error_left_out`: with the parameters fitted on the runs of other models and sources; null where there are none.
    """

    id: str
    measured_s: float
    predicted_s: float
    error_before: float
    error: float
    error_left_out: float | None


class CalibrationStatistics(TypedDict):
    """Size of errors in step time: mean, median and 90th percentile of |error|, median signed error."""

    n: int
    mape: float | None
    median: float | None
    p90: float | None
    bias: float | None


class SkippedRun(TypedDict):
    """A row that could not be used, and why."""

    id: str
    why: str


class CalibrateDocument(TypedDict):
    """`cann-plan calibrate`: a profile fitted on measured runs, as `software.stack` accepts it."""

    schema: Literal["cann-plan/calibrate/1"]
    device: str
    stack: str
    before: CalibrationStatistics
    in_sample: CalibrationStatistics
    left_out: CalibrationStatistics
    parameters: list[FittedParameter]
    residuals: list[Residual]
    interval: dict[str, Json]
    warnings: list[str]
    profile: dict[str, Json]
    skipped: list[SkippedRun]

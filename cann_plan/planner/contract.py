"""The JSON documents of every command, as typed dictionaries.

Planner functions return these plain dictionaries; reports only format them. `cann-plan schema COMMAND` prints the JSON
Schema made from them. Units and conventions are those of `contract_estimate`, whose types are re-exported here.
"""

from typing import Literal, NotRequired, TypedDict

from cann_plan.planner.contract_calibrate import CalibrateDocument
from cann_plan.planner.contract_claims import ClaimEntry, ClaimFigure, ClaimsDocument
from cann_plan.planner.contract_collective import CollectiveDocument, CollectiveRow, CollectiveSweepDocument
from cann_plan.planner.contract_estimate import (
    Assumption,
    Breakdown,
    Cost,
    Energy,
    EstimateDocument,
    EstimateSummary,
    ExplainDocument,
    ExplainTerm,
    Flops,
    Interval,
    Json,
    Memory,
    Overlapped,
    Parameters,
    PlanWarning,
    Recommendation,
    StageMemory,
    Time,
    Tool,
    Verdict,
)
from cann_plan.planner.contract_topologies import TopologiesDocument, TopologyRow

__all__ = [
    "DOCUMENTS",
    "Assumption",
    "Breakdown",
    "CalibrateDocument",
    "Candidate",
    "CheckDocument",
    "CheckedPlan",
    "ClaimEntry",
    "ClaimFigure",
    "ClaimsDocument",
    "ClusterSize",
    "CollectiveDocument",
    "CollectiveRow",
    "CollectiveSweepDocument",
    "Cost",
    "DiffDocument",
    "Energy",
    "ErrorDocument",
    "ErrorItem",
    "ErrorStatistics",
    "EstimateDocument",
    "EstimateSummary",
    "ExplainDocument",
    "ExplainTerm",
    "FigureChange",
    "Flops",
    "GroupStatistics",
    "Interval",
    "Json",
    "LimitResult",
    "Memory",
    "MemoryDocument",
    "OptimizeDocument",
    "Overlapped",
    "Parameters",
    "PlanChange",
    "PlanWarning",
    "PresetDocument",
    "PresetItem",
    "PresetsDocument",
    "Recommendation",
    "SingleChange",
    "SizeDocument",
    "SizeRow",
    "SkippedRow",
    "StageMemory",
    "SweepDocument",
    "SweepPoint",
    "Time",
    "Today",
    "Tool",
    "TopologiesDocument",
    "TopologyRow",
    "ValidateDocument",
    "ValidatedRow",
    "Verdict",
]


class ErrorItem(TypedDict):
    """One located problem of the input."""

    file: str | None
    line: int | None
    column: int | None
    path: str | None
    message: str
    allowed: str | None
    suggestion: str | None


class ErrorDocument(TypedDict):
    """What stderr holds with `--format json` when the input is wrong."""

    schema: Literal["cann-plan/error/1"]
    errors: list[ErrorItem]


# `pass` is a keyword of Python, so this dictionary needs the functional form.
LimitResult = TypedDict(
    "LimitResult",
    {
        "name": str,
        "limit": float | int | bool | str | None,
        "value": float | int | bool | str | None,
        "pass": bool,
        "unit": NotRequired[str | None],
        "reason": NotRequired[str | None],
    },
)


class CheckedPlan(TypedDict):
    """The verdict on one plan file; `errors` only when the file could not be read as a plan."""

    file: str
    verdict: Literal["pass", "fail", "error"]
    limits: list[LimitResult]
    errors: NotRequired[list[ErrorItem]]


class CheckDocument(TypedDict):
    """`cann-plan check`: does every plan fit and keep its limits."""

    schema: Literal["cann-plan/check/1"]
    plans: list[CheckedPlan]


class Candidate(TypedDict):
    """A layout found by a search: the plan's overrides and what they give."""

    overrides: dict[str, Json]
    estimate: EstimateSummary


class SizeRow(TypedDict):
    """What one number of devices gives, with the best layout for it; `broken`: limits it does not keep.

    `efficiency`: work of a device over that at the best size of the table.
    """

    devices: int
    days: float | None
    cost: float | None
    fits: bool
    mfu: float | None
    device_hours: NotRequired[float | None]
    tokens_per_s_per_device: NotRequired[float]
    efficiency: NotRequired[float | None]
    broken: NotRequired[list[str]]


class ClusterSize(TypedDict):
    """The fewest devices of one cluster that keep every limit; `reason`: why there are none, or no cost."""

    cluster: str
    nodes: int | None
    devices: int | None
    days: float | None
    cost: float | None
    mfu: float | None
    device_hours: float | None
    currency: str | None
    reason: str | None


class SizeDocument(TypedDict):
    """`cann-plan size`: the fewest devices that keep every limit (`devices` is null when none does).

    `diminishing_from`: devices from which each does less than 90% of its work at the best size; `cheapest`: devices of
    the size that keeps every limit for least money (device-hours where no price is known). Among several clusters
    `cluster` is the cheapest, which the other keys are about.
    """

    schema: Literal["cann-plan/size/1"]
    devices: int | None
    nodes: int | None
    best: Candidate | None
    table: list[SizeRow]
    limit_that_binds: str | None
    limits: NotRequired[dict[str, Json]]
    diminishing_from: NotRequired[int | None]
    cheapest: NotRequired[int | None]
    currency: NotRequired[str | None]
    cluster: NotRequired[str | None]
    clusters: NotRequired[list[ClusterSize]]


class Today(TypedDict):
    """What the plan's own layout gives; `rank` among the feasible ones of the search, by step time."""

    step_s: float
    peak_gib: float
    fits: bool
    rank: int | None


class SingleChange(TypedDict):
    """A change of one decision and what it gives; `why` it does not fit."""

    set: dict[str, Json]
    step_s: float
    delta_step_s: float
    delta_gib: float
    fits: bool
    why: str | None


class OptimizeDocument(TypedDict):
    """`cann-plan optimize`: the best layouts, best first. `seconds` and the rate vary from run to run.

    `near`: single changes to the plan's layout; `explain`: the winner against the runner-up and against the plan's
    layout. Where nothing fits: `closest`, the layout that needs least memory, and `changes` that make one fit.
    """

    schema: Literal["cann-plan/optimize/1"]
    problem: dict[str, Json]
    best: list[Candidate]
    infeasible: dict[str, int]
    evaluated: int
    feasible: int
    seconds: float
    strategies_per_second: float
    today: NotRequired[Today]
    near: NotRequired[list[SingleChange]]
    explain: NotRequired[list[dict[str, Json]]]
    closest: NotRequired[dict[str, Json] | None]
    changes: NotRequired[list[dict[str, Json]]]


class MemoryDocument(TypedDict):
    """`cann-plan memory`: memory of every pipeline rank, over time and by operator.

    `ranks[].phases` holds live tensors by phase of the first and of later steps. `timeline`: worst point of every pass
    of the peak rank. `recompute`: Pareto front of recomputation of the peak rank's layers. `replay`: the allocator run
    on the plan's allocations. `trace`: a profiler's record beside the prediction. Times are None where rates of the
    device are unknown.
    """

    schema: Literal["cann-plan/memory/1"]
    ranks: list[StageMemory]
    timeline: list[dict[str, Json]]
    top_operators: list[dict[str, Json]]
    advice: list[Recommendation]
    replay: dict[str, Json] | None
    capacity_gib: NotRequired[float]
    visible_gib: NotRequired[float]
    usable_gib: NotRequired[float]
    peak_gib: NotRequired[float]
    peak_stage: NotRequired[int]
    peak_phase: NotRequired[str]
    headroom_gib: NotRequired[float]
    fits: NotRequired[bool]
    verdict: NotRequired[Verdict]
    host_per_node_gib: NotRequired[float | None]
    host_capacity_gib: NotRequired[float | None]
    parallel: NotRequired[dict[str, Json]]
    recompute: NotRequired[dict[str, Json]]
    trace: NotRequired[dict[str, Json]]
    assumptions: NotRequired[list[Assumption]]
    warnings: NotRequired[list[PlanWarning]]


class ErrorStatistics(TypedDict):
    """Error = predicted / measured - 1. `mape`, `median`, `p90` are of its size, `bias` is its signed median."""

    n: int
    mape: float | None
    median: float | None
    p90: float | None
    bias: float | None


class GroupStatistics(ErrorStatistics):
    """Error statistics of the rows that share a source, device or model."""

    group: str
    quantity: str


class ValidatedRow(TypedDict):
    """One measured run and what the planner predicts for it."""

    id: str
    predicted: dict[str, Json]
    measured: dict[str, Json]
    error: dict[str, float | None]
    assumptions: list[Json]


class SkippedRow(TypedDict):
    """A row that could not be compared, and why."""

    id: str
    why: str


class ValidateDocument(TypedDict):
    """`cann-plan validate`: predictions against measurements."""

    schema: Literal["cann-plan/validate/1"]
    rows: list[ValidatedRow]
    step_time: ErrorStatistics
    memory: ErrorStatistics
    tpot: ErrorStatistics
    ttft: ErrorStatistics
    throughput: ErrorStatistics
    by_group: list[GroupStatistics]
    skipped: list[SkippedRow]


class PlanChange(TypedDict):
    """A value that differs between two plans."""

    path: str
    a: Json
    b: Json


class FigureChange(TypedDict):
    """A result that differs between two plans; `relative` is b / a - 1."""

    name: str
    unit: str | None
    a: float | None
    b: float | None
    delta: float | None
    relative: float | None


class DiffDocument(TypedDict):
    """`cann-plan diff A B`: what changed in the plan and what it does."""

    schema: Literal["cann-plan/diff/1"]
    a: str
    b: str
    changes: list[PlanChange]
    figures: list[FigureChange]


class SweepPoint(TypedDict):
    """One combination of the swept values."""

    overrides: dict[str, Json]
    estimate: EstimateSummary


class SweepDocument(TypedDict):
    """`cann-plan sweep PLAN --over path=list`: one estimate per combination."""

    schema: Literal["cann-plan/sweep/1"]
    over: dict[str, list[Json]]
    points: list[SweepPoint]
    skipped: list[dict[str, Json]]


class PresetItem(TypedDict):
    """One preset file."""

    kind: str
    name: str
    path: str
    summary: str | None


class PresetsDocument(TypedDict):
    """`cann-plan presets list`: the presets that ship with the tool."""

    schema: Literal["cann-plan/presets/1"]
    presets: list[PresetItem]


class PresetDocument(TypedDict):
    """`cann-plan presets show NAME`: one preset, with its sources."""

    schema: Literal["cann-plan/preset/1"]
    kind: str
    name: str
    path: str
    content: dict[str, Json]
    text: str


# Command -> the document it prints. `cann-plan schema COMMAND` and the tests read this.
DOCUMENTS: dict[str, type] = {
    "estimate": EstimateDocument,
    "check": CheckDocument,
    "size": SizeDocument,
    "optimize": OptimizeDocument,
    "memory": MemoryDocument,
    "validate": ValidateDocument,
    "calibrate": CalibrateDocument,
    "compare-topologies": TopologiesDocument,
    "collective": CollectiveDocument,
    "collective-sweep": CollectiveSweepDocument,
    "claims": ClaimsDocument,
    "diff": DiffDocument,
    "sweep": SweepDocument,
    "explain": ExplainDocument,
    "presets": PresetsDocument,
    "preset": PresetDocument,
    "error": ErrorDocument,
}

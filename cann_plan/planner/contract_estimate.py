"""The estimate's JSON document, and the parts of it that other documents share.

Key names carry the unit: `_s` seconds, `_gib` 2^30 bytes, `_gb_per_s` 10^9 bytes per second, `_tflops` 10^12 FLOP/s.
Numbers are never rounded. `mfu`, `hfu`, `goodput` and errors are fractions, not percent. `None` means unknown or not
applicable; where the reader needs one, a `reason` stands beside it.
"""

from typing import Any, Literal, NotRequired, TypedDict

Json = Any  # any JSON value; the exact shape is set elsewhere (for example by the plan file's own schema)
Verdict = Literal["fits", "borderline", "does_not_fit"]


class Tool(TypedDict):
    """Which version of the planner and which calibration profile produced the document."""

    version: str
    profile: str | None


class Flops(TypedDict):
    """FLOPs and the peak that MFU and HFU are measured against (dense, per device)."""

    convention: str
    model_per_token: float
    model_per_step: float
    hardware_per_step: float
    peak_tflops_per_device: float
    peak_source: str


class Breakdown(TypedDict):
    """Exposed seconds of one step along the critical pipeline stage; the values sum to `step_s`."""

    forward: float
    backward: float
    recompute: float
    tensor_comm: float
    context_comm: float
    expert_comm: float
    pipeline_comm: float
    pipeline_bubble: float
    data_comm: float
    optimizer: float
    offload: float
    input_stall: float
    host_overhead: float


class Overlapped(TypedDict):
    """Seconds per step hidden behind computation: they are not part of `step_s`."""

    tensor: float
    context: float
    expert: float
    pipeline: float
    data: float
    offload: float
    input: float


class Interval(TypedDict):
    """Confidence interval of `step_s` in seconds; run length and cost scale with it."""

    confidence: float
    low_s: float
    high_s: float
    basis: str
    n: int


class Time(TypedDict):
    """Step time, run length and throughput. `ideal_s` and `total_days` are the run without stops or failures,

    `goodput_days` the run with them.
    """

    step_s: float
    critical_stage: int
    breakdown_s: Breakdown
    overlapped_s: Overlapped
    ideal_s: float
    total_days: float | None
    goodput: float | None
    goodput_days: float | None
    interval: Interval | None
    tokens_per_s: float
    tokens_per_s_per_device: float
    samples_per_s: float
    model_tflops_per_device: float
    hardware_tflops_per_device: float
    mfu: float
    hfu: float


class StageMemory(TypedDict):
    """Device memory of one pipeline stage at its peak; the parts up to `fragmentation_gib` sum to `device_gib`."""

    stage: int
    ranks: Json
    layers: Json
    in_flight: float
    weights_gib: float
    gradients_gib: float
    optimizer_gib: float
    activations_gib: float
    temporaries_gib: float
    logits_gib: float
    communicators_gib: float
    runtime_gib: float
    fragmentation_gib: float
    allocated_gib: float
    reserved_gib: float
    device_gib: float
    peak_phase: NotRequired[str]
    phases: NotRequired[dict[str, float]]


class Memory(TypedDict):
    """Device and host memory; `visible_gib` is what the framework can see, `usable_gib` what it can safely fill.

    `headroom_gib` is what is left at the peak of the capacity that `fits` is judged by (negative: too little).
    """

    capacity_gib: float
    visible_gib: float
    usable_gib: float
    peak_gib: float
    peak_stage: int
    peak_phase: str
    headroom_gib: float
    fits: bool
    verdict: Verdict
    stages: list[StageMemory]
    host_per_node_gib: float | None
    host_capacity_gib: float | None


class Cost(TypedDict):
    """Device-hours and money of the whole run (goodput days); `reason` says why an amount is missing."""

    device_hours: float | None
    amount: float | None
    currency: str | None
    reason: str | None


class Energy(TypedDict):
    """Energy and carbon of the whole run at the meter of the data centre (PUE included)."""

    kwh: float | None
    kg_co2e: float | None
    reason: str | None


class Parameters(TypedDict):
    """Parameter counts, unpadded."""

    total: float
    active: float
    embedding: float


class Assumption(TypedDict):
    """A value nobody wrote in the plan: where it applies, what it is, where it comes from."""

    path: str
    value: Json
    source: str


class PlanWarning(TypedDict):
    """Something the reader should know before trusting or running the plan."""

    code: str
    path: str | None
    message: str


class Recommendation(TypedDict):
    """A change to the plan and its effect: less is better, so negative deltas are gains."""

    set: dict[str, Json]
    delta_gib: float | None
    delta_step_s: float | None
    why: str


class _EstimateBody(TypedDict):
    tool: Tool
    parallel: dict[str, Json]
    flops: Flops
    time: Time
    memory: Memory
    cost: Cost
    energy: Energy
    parameters: Parameters
    assumptions: list[Assumption]
    warnings: list[PlanWarning]
    recommendations: list[Recommendation]


class EstimateDocument(_EstimateBody):
    """`cann-plan estimate`: time, memory and cost of one plan."""

    schema: Literal["cann-plan/estimate/1"]
    plan: dict[str, Json]
    explain: NotRequired["list[ExplainTerm]"]


class EstimateSummary(_EstimateBody):
    """An estimate without the plan, as it appears inside other documents."""

    schema: NotRequired[Literal["cann-plan/estimate/1"]]


class ExplainTerm(TypedDict):
    """One number with the formula and the inputs it was computed from."""

    term: str
    value: Json
    unit: str | None
    formula: str
    inputs: dict[str, Json]
    source: str


class ExplainDocument(TypedDict):
    """`cann-plan explain PLAN TERM`: where a number comes from."""

    schema: Literal["cann-plan/explain/1"]
    terms: list[ExplainTerm]

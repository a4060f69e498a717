"""A software profile: what a training stack does by default, and the few parameters a calibration may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, StrictBool

from cann_plan.spec.base import Section, key
from cann_plan.spec.parallel import GroupGenerator, TensorOverlap
from cann_plan.spec.quantity import Fraction, Name, NonNegativeNumber, PositiveNumber
from cann_plan.spec.software import AttentionKernel, FusedOperator

PROFILE_SCHEMA: Final = "cann-plan/profile/1"
StateScheme = Literal["megatron", "fsdp", "deepspeed", "mindspore"]


class ProfileDefaults(Section):
    """Behaviour of the stack where a plan says nothing; each is listed as an assumption when used."""

    attention: AttentionKernel = "flash"
    fused: tuple[FusedOperator, ...] = ()
    states: StateScheme = Field("megatron", description="which bytes per parameter the stack keeps")
    grad_reduce: StrictBool = Field(False, description="gradient exchange overlapped with backward")
    param_gather: StrictBool = Field(False, description="parameter gather overlapped with forward")
    p2p: StrictBool = Field(False, description="pipeline sends overlapped")
    tensor_overlap: TensorOverlap = "none"
    fused_loss: StrictBool = False
    loads_whole: tuple[Name, ...] = Field(
        (), description="kinds of devices on which every device loads the whole checkpoint before states are sharded"
    )
    legacy: StrictBool = Field(False, description="Megatron-LM code from before Megatron-Core and Transformer Engine")
    scatter_gather: StrictBool = Field(
        False, description="pipeline sends split over the tensor group and gathered behind (Megatron-LM 2021)"
    )
    gathers_per_layer: PositiveNumber = Field(
        1.0, description="messages in which a layer's fully sharded parameters are gathered and its gradients scattered"
    )
    group_generator: GroupGenerator = "folded"
    vocabulary_multiple: int = Field(128, ge=1, description="vocabulary is padded to this times the tensor degree")
    fragmentation: Fraction = Field(0.04, description="share of allocated memory the allocator holds unused")
    expandable_fragmentation: Fraction = Field(0.01, description="the same with expandable segments")
    gradient_bytes: NonNegativeNumber | None = key("bytes per element gradients accumulate in; absent: by precision")
    source: Name = Field("stack documentation", description="where the defaults are stated")


class ProfileParameters(Section):
    """Calibratable parameters; 1 and 0 leave the operator and link tables as measured."""

    compute_time: PositiveNumber = 1.0
    vector_time: PositiveNumber = 1.0
    attention_rate: PositiveNumber = 1.0
    fp8_rate: PositiveNumber = 1.0
    grouped_time: PositiveNumber = 1.0
    launch_us: NonNegativeNumber = 0.0
    gap_us: NonNegativeNumber = 0.0
    step_ms: NonNegativeNumber = 0.0
    expert_hidden: Fraction = 0.7
    mc2_hidden: Fraction = 0.25
    bulk_hidden: Fraction = 0.0
    source: Name = Field("uncalibrated", description="fit, its rows and date")


class ProfileInterval(Section):
    """Spread of predicted over measured step time on runs, as multiples of the prediction."""

    confidence: Fraction = 0.8
    low: PositiveNumber = 0.75
    high: PositiveNumber = 1.4
    n: int = Field(0, ge=0, description="runs the spread was taken from")
    basis: Name = "prior: spread of uncalibrated analytical models on published runs"


class Calibration(Section):
    """Parameters of a stack on some devices, fitted on runs; a device is a preset name or a family."""

    devices: tuple[Name, ...] = Field(min_length=1)
    parameters: ProfileParameters = Field(default_factory=ProfileParameters)
    interval: ProfileInterval = Field(default_factory=ProfileInterval)
    sequence_length: tuple[int, int] | None = key("shortest and longest sequences of the runs", unit="tokens")
    hidden_size: tuple[int, int] | None = key("smallest and largest hidden size of the runs")
    ranks: tuple[int, int] | None = key("fewest and most devices of the runs")
    parameter_intervals: Mapping[Name, tuple[float, float]] = Field(
        default_factory=dict, description="80% interval of each fitted parameter"
    )
    notes: tuple[Name, ...] = Field((), description="identifiability and other remarks of the fit")


class ProfileSpec(Section):
    """One software stack."""

    schema_id: Literal["cann-plan/profile/1"] = Field(PROFILE_SCHEMA, alias="schema")
    name: Name
    aliases: tuple[Name, ...] = ()
    description: Name | None = key("one line")
    calibrations: tuple[Calibration, ...] = Field((), description="fits by device; `parameters` is for all others")
    defaults: ProfileDefaults = Field(default_factory=ProfileDefaults)
    parameters: ProfileParameters = Field(default_factory=ProfileParameters)
    interval: ProfileInterval = Field(default_factory=ProfileInterval)

    def on(self, device: str, family: str) -> tuple[ProfileParameters, ProfileInterval, Calibration | None]:
        """Parameters and interval for a device: its own calibration, its family's, else the profile's own."""
        for name in (device, family):
            for calibration in self.calibrations:
                if name in calibration.devices:
                    return calibration.parameters, calibration.interval, calibration
        return self.parameters, self.interval, None

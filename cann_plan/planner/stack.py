"""Software profile and `software:` section to the stack parameters and layer settings of the cost models."""

from __future__ import annotations

from cann_plan.cost.stack import Stack
from cann_plan.planner.assumptions import Assumptions, Warnings
from cann_plan.spec.profile import ProfileSpec
from cann_plan.spec.software import SoftwareSpec

DEFAULT_PROFILE = {"hccl": "mindspeed-mcore", "nccl": "megatron", "rccl": "megatron", "ideal": "megatron"}
"""Stack a plan gets when it names none, by the cluster's collective library."""

UNFUSED = ("unfused",)


def stack_parameters(profile: ProfileSpec) -> Stack:
    """The profile's calibratable parameters."""
    p = profile.parameters
    return Stack(
        profile.name, p.compute_time, p.vector_time, p.attention_rate, p.fp8_rate, p.grouped_time, p.launch_us * 1e-6,
        p.step_ms * 1e-3, p.expert_hidden, p.mc2_hidden, p.bulk_hidden, p.gradient_exposed,
    )  # fmt: skip


def attention_kernel(software: SoftwareSpec, profile: ProfileSpec, assumptions: Assumptions) -> str:
    """Kernel name; `unfused` for attention that stores its scores."""
    return assumptions.take(
        "software.attention", software.attention, profile.defaults.attention, f"profile {profile.name}"
    )


def fused_operators(software: SoftwareSpec, profile: ProfileSpec, assumptions: Assumptions) -> frozenset[str]:
    """Element-wise fusions that are on."""
    if software.fused is not None:
        return frozenset(software.fused)
    assumptions.add("software.fused", list(profile.defaults.fused), f"profile {profile.name}")
    return frozenset(profile.defaults.fused)


def profile_warnings(profile: ProfileSpec, warnings: Warnings) -> None:
    """Say when the profile has no calibration behind it."""
    if profile.parameters.source == "uncalibrated":
        warnings.add(
            "uncalibrated",
            "software.stack",
            f"profile {profile.name} is not calibrated on runs: times come from operator and link tables alone",
        )

"""Software profile and `software:` section to the stack parameters and layer settings of the cost models."""

from __future__ import annotations

from cann_plan.cost.stack import Stack
from cann_plan.planner.assumptions import Assumptions, Warnings
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.profile import ProfileParameters, ProfileSpec
from cann_plan.spec.software import SoftwareSpec

DEFAULT_PROFILE = {"hccl": "mindspeed-mcore", "nccl": "megatron", "rccl": "megatron", "ideal": "megatron"}
"""Stack a plan gets when it names none, by the cluster's collective library."""

UNFUSED = ("unfused",)


LIBRARY_SLOWDOWN = 2.0
"""Time of an operator outside the optimised library over the library's: the source document's "2-3 times", its low
end; replaced by `software.op_library.fallback_slowdown`."""


def stack_parameters(
    profile: ProfileSpec, software: SoftwareSpec, cluster: Cluster, assumptions: Assumptions, warnings: Warnings
) -> Stack:
    """The profile's parameters for the cluster's device, with what the plan's `software:` changes."""
    p, _, calibration = profile.on(cluster.device.name, cluster.device.family)
    if calibration is None or calibration.interval.n == 0:
        _say_inherited(profile, p, cluster, warnings)
    factor = _library_factor(software, assumptions)
    eager = 0.0 if software.graph_mode == "graph" else 1e-6  # a captured graph launches as one
    for name in ("deterministic", "launch_blocking"):
        if getattr(software, name):
            warnings.add(
                "not_modelled", f"software.{name}", f"{name.replace('_', ' ')} slows steps by an amount nobody states"
            )
    return Stack(
        profile.name, p.compute_time * factor, p.vector_time * factor, p.attention_rate, p.fp8_rate, p.grouped_time,
        p.launch_us * eager, p.gap_us * eager, p.step_ms * 1e-3, p.expert_hidden, p.mc2_hidden, p.bulk_hidden,
    )  # fmt: skip


def _library_factor(software: SoftwareSpec, assumptions: Assumptions) -> float:
    """Compute time over that of a fully optimised operator library."""
    library = software.op_library
    if library.kind is None and library.coverage is None and library.fallback_slowdown is None:
        return 1.0
    slowdown = assumptions.take(
        "software.op_library.fallback_slowdown", library.fallback_slowdown, LIBRARY_SLOWDOWN, "2-3 times: low end"
    )
    if library.kind == "generic":
        return slowdown
    coverage = 1.0 if library.coverage is None else library.coverage
    return coverage + (1.0 - coverage) * slowdown


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


def say_outside_range(
    profile: ProfileSpec, cluster: Cluster, sequence_length: int, hidden_size: int, warnings: Warnings
) -> None:
    """Warn where a plan lies outside the runs its calibration was made on."""
    _, _, calibration = profile.on(cluster.device.name, cluster.device.family)
    if calibration is None:
        return
    for what, value, path, limits in (
        ("sequence length", sequence_length, "training.sequence_length", calibration.sequence_length),
        ("hidden size", hidden_size, "model.hidden_size", calibration.hidden_size),
        ("number of devices", cluster.devices, "cluster", calibration.ranks),
    ):
        if limits is not None and not limits[0] <= value <= limits[1]:
            warnings.add(
                "outside_calibrated_range",
                path,
                f"{what} {value} is outside the runs of {profile.name} on {cluster.device.name} that stand behind "
                f"this ({limits[0]} to {limits[1]}): the interval may be too narrow",
            )


def _say_inherited(profile: ProfileSpec, parameters: ProfileParameters, cluster: Cluster, warnings: Warnings) -> None:
    """Say what stands behind the parameters when no run of this stack on this device does."""
    device = cluster.device.name
    if parameters.source == "uncalibrated":
        text = f"profile {profile.name} is not calibrated on runs: times come from operator and link tables alone"
        warnings.add("uncalibrated", "software.stack", text)
    else:
        text = f"no runs of {profile.name} on {device} stand behind this: {parameters.source}"
        warnings.add("inherited_calibration", "software.stack", text)

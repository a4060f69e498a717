"""What a calibration may change, with priors: at most a handful of physical parameters per device and stack."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.stack import Stack
from cann_plan.records import dataclass

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One calibratable parameter: prior mean and log standard deviation, bounds, unit of the profile key."""

    name: str  # key of `ProfileParameters`
    field: str  # field of `Stack`
    scale: float  # profile unit to SI
    prior: float
    log_sigma: float
    low: float
    high: float


PARAMETERS: Final = (
    # training kernels against isolated ones: sustained clocks, cache and launch gaps; 1.0 to 1.3 in the literature
    Parameter("compute_time", "compute_time", 1.0, 1.1, 0.15, 0.8, 1.8),
    Parameter("vector_time", "vector_time", 1.0, 1.1, 0.3, 0.7, 4.0),
    Parameter("attention_rate", "attention_rate", 1.0, 0.95, 0.15, 0.25, 1.6),
    Parameter("fp8_rate", "fp8_rate", 1.0, 0.95, 0.15, 0.5, 1.6),
    Parameter("grouped_time", "grouped_time", 1.0, 1.1, 0.3, 0.6, 2.5),
    # matmul-communication kernels (MC2) and user-buffer overlap: share of tensor-parallel communication hidden
    Parameter("mc2_hidden", "mc2_hidden", 1.0, 0.35, 0.35, 0.05, 0.9),
    Parameter("bulk_hidden", "bulk_hidden", 1.0, 0.35, 0.35, 0.05, 0.9),
    # PyTorch eager dispatch takes 10 to 100 us per operator on the host
    Parameter("launch_us", "launch_s", 1e-6, 20.0, 0.8, 1.0, 150.0),
    # between dependent kernels the device idles for microseconds, longer where Python or synchronisation intervene
    Parameter("gap_us", "gap_s", 1e-6, 4.0, 0.8, 0.5, 400.0),
    Parameter("step_ms", "step_s", 1e-3, 20.0, 1.0, 1.0, 1000.0),
)


NAMES: Final = tuple(parameter.name for parameter in PARAMETERS)


def concerns(name: str, problem: Problem) -> bool:
    """Whether a parameter can change the step time of a problem at all."""
    tensor = problem.overlap.tensor
    if name == "attention_rate":
        return problem.settings.flash
    if name == "fp8_rate":
        return problem.compute.linear_dtype == "fp8"
    if name == "grouped_time":
        return any(hasattr(kind.ffn, "experts") for kind in problem.architecture.kinds)
    if name == "mc2_hidden":
        return tensor in ("mc2", "coc")
    return tensor == "bulk" if name == "bulk_hidden" else True


def stack_of(base: Stack, names: tuple[str, ...], values: Array) -> Stack:
    """`base` with the named parameters (profile units) replaced."""
    from dataclasses import replace

    table = {parameter.name: parameter for parameter in PARAMETERS}
    changes: dict[str, Any] = {table[n].field: float(v) * table[n].scale for n, v in zip(names, values, strict=True)}
    return replace(base, **changes)


def prior_values() -> Array:
    """Prior means in the order of `PARAMETERS`."""
    return np.array([parameter.prior for parameter in PARAMETERS])

"""`calibrate`: a profile of one device and stack from measured runs, cross-validated by (source, model) group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.planner.calibrate_fit import Fit, cluster_weights, fit, refit_without
from cann_plan.planner.calibrate_model import NAMES, prior_values
from cann_plan.planner.calibrate_runs import Run, prepare_runs

Array = NDArray[np.float64]
__all__ = ["NAMES", "Calibrated", "Run", "calibrate", "prepare_runs", "profile_calibration"]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fit with its cross-validated log errors (by run) and the runs it was made on."""

    device: str
    stack: str
    runs: tuple[Run, ...]
    fit: Fit
    cross_validated: Array
    skipped: tuple[tuple[str, str], ...]


def calibrate(runs: Sequence[Run], device: str, stack: str, skipped: Sequence[tuple[str, str]] = ()) -> Calibrated:
    """Fit the parameters of one device and stack.

    Raises:
        ValueError: no runs.
    """
    if not runs:
        raise ValueError(f"no usable runs of {stack} on {device}")
    measured = np.array([run.measured_s for run in runs])
    weights = cluster_weights([run.configuration for run in runs])
    prior = prior_values()
    result = fit(measured, weights, lambda index, values: runs[index].seconds(values), prior)
    groups = np.array([run.group for run in runs])
    errors = np.zeros(len(runs))
    for group in np.unique(groups):
        left_out = groups == group
        errors[left_out] = refit_without(result, measured, weights, left_out, prior)
    return Calibrated(device, stack, tuple(runs), result, errors, tuple(skipped))


def profile_calibration(result: Calibrated, families: Sequence[str] = ()) -> dict[str, Any]:
    """The calibration entry of a profile document: parameters, provenance, interval, remarks."""
    values = result.fit.values
    errors = np.exp(result.cross_validated) - 1.0
    ratio = 1.0 / (1.0 + errors)  # measured over predicted
    low, high = (float(np.quantile(ratio, q)) for q in (0.1, 0.9))
    n = len(result.runs)
    if n < 10:  # few runs: widen towards the spread of unseen stacks
        low, high = min(low, 0.88), max(high, 1.15)
    notes = [
        f"{name} not identified by these runs: prior"
        for name, seen in zip(NAMES, result.fit.identified, strict=True)
        if not seen
    ]
    jobs = [run.prepared.job for run in result.runs]
    absolute = np.abs(errors)
    source = (
        f"fit on {n} runs of {len({run.group for run in result.runs})} groups; cross-validated MAPE "
        f"{absolute.mean():.1%}, median {np.median(absolute):.1%}"
    )
    return {
        "devices": [result.device, *families],
        "parameters": {name: round(float(v), 4) for name, v in zip(NAMES, values, strict=True)} | {"source": source},
        "interval": {
            "confidence": 0.8,
            "low": round(low, 3),
            "high": round(high, 3),
            "n": n,
            "basis": "measured over predicted of runs left out by (source, model) group",
        },
        "sequence_length": _range([job.sequence_length for job in jobs]),
        "hidden_size": _range([job.architecture.hidden for job in jobs]),
        "ranks": _range([job.cluster.devices for job in jobs]),
        "parameter_intervals": {
            name: [round(float(v * np.exp(-1.28 * s)), 4), round(float(v * np.exp(1.28 * s)), 4)]
            for name, v, s in zip(NAMES, values, result.fit.log_sigmas, strict=True)
        },
        "notes": notes,
    }


def _range(values: Sequence[int]) -> list[int]:
    return [min(values), max(values)]

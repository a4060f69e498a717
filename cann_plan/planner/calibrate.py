"""`cann-plan calibrate`: a profile of one device and stack from a user's measured runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.importers.rows import MeasuredRow
from cann_plan.planner.calibrate_document import (
    Spread,
    Z,
    interval,
    parameter_intervals,
    parameter_values,
    remarks,
    significant,
    span,
)  # fmt: skip
from cann_plan.planner.calibrate_hierarchy import (
    HIGH,
    LOW,
    PRIOR,
    SHARES,
    Joint,
    Observation,
    Place,
    Prior,
    configuration_weights,
    fit,
    kinship,
    left_out,
)  # fmt: skip
from cann_plan.planner.calibrate_model import NAMES
from cann_plan.planner.calibrate_runs import Run, prepare_runs
from cann_plan.planner.contract_calibrate import CalibrateDocument, CalibrationStatistics, FittedParameter, Residual
from cann_plan.planner.validate_statistics import statistics
from cann_plan.records import dataclass
from cann_plan.spec.errors import Problem, SpecError
from cann_plan.spec.profile import PROFILE_SCHEMA, ProfileSpec

Array = NDArray[np.float64]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Runs of one device and stack with their fit; `cross_validated`: log errors of runs left out, None for one group.

    `profile`: the profile the runs were predicted with before.
    """

    runs: tuple[Run, ...]
    profile: ProfileSpec
    joint: Joint
    cross_validated: Array | None

    @property
    def place(self) -> Place:
        """Device, family and stack of the runs."""
        return self.joint.posterior.observations[0].place


def calibrate(
    rows: Iterable[str | Path | MeasuredRow], *, device: str | None = None, stack: str | None = None,
    tier: str | None = None, name: str | None = None, on_progress: Progress | None = None,
) -> CalibrateDocument:  # fmt: skip
    """Fit the parameters of a device and stack on measured runs, starting from the shipped profile.

    The shipped values are the prior mean, so one or two runs move them as far as such few runs can be trusted.
    `name`: of the new profile. `device` and `stack` may be left out where all runs share them.

    Raises:
        SpecError: a file cannot be read, no run can be used, or the runs are of several devices or stacks.
    """
    sources = list(rows)
    runs, skipped = prepare_runs(sources, tier=tier, device=device, stack=stack, on_progress=on_progress)
    file = next((str(source) for source in sources if not isinstance(source, MeasuredRow)), None)
    places = sorted({(run.device, run.stack) for run in runs})
    if not places:
        reasons = "; ".join(f"{row}: {reason}" for row, reason in skipped[:3])
        why = f" ({reasons})" if reasons else ""
        raise SpecError([_problem(file, f"no run with a step time of the device and stack asked for{why}")])
    if len(places) > 1:
        listed = ", ".join(f"{profile} on {where}" for where, profile in places)
        raise SpecError([_problem(file, "runs of several devices or stacks: choose with --device and --stack", listed)])
    found = fit_runs(runs)
    return _document(found, name or f"{places[0][1]}-{places[0][0]}", skipped)


def fit_runs(runs: Sequence[Run]) -> Calibrated:
    """Fit the runs of one device and stack. Raises ValueError where there are none."""
    if not runs:
        raise ValueError("no runs")
    first = runs[0]
    profile = first.prepared.job.profile
    place = Place(first.device, first.family, first.stack)
    observations = [Observation(place, run.measured_s, run.group, run.configuration) for run in runs]
    prior = _prior(profile, place)
    found = [run.derivatives(prior.mean) for run in runs]
    measured = np.log([run.measured_s for run in runs])

    def predict(thetas: list[Array]) -> Array:
        return np.log([run.seconds(np.exp(theta)) for run, theta in zip(runs, thetas, strict=True)])

    joint = fit(observations, np.array([b for b, _ in found]), np.array([s for _, s in found]), predict, prior)
    groups = [run.group for run in runs]
    unseen = predict(left_out(joint, groups)) - measured if len(set(groups)) > 1 else None
    return Calibrated(tuple(runs), profile, joint, unseen)


def _prior(profile: ProfileSpec, place: Place) -> Prior:
    """The shipped parameters as mean; deviations as wide as one site's from its device and stack, or, where no run of
    the pair stands behind them, as wide as a stack's.
    """
    parameters, shipped, _ = profile.on(str(place.device), str(place.family))
    values = np.array([float(getattr(parameters, name)) for name in NAMES])
    mean = np.clip(np.log(np.maximum(values, np.exp(LOW))), LOW, HIGH)
    share = SHARES["pair"] if shipped.n else SHARES["stack"]
    return Prior(mean, PRIOR.sigma * share / np.sqrt(kinship(place, place)))


def _document(found: Calibrated, name: str, skipped: Sequence[tuple[str, str]]) -> CalibrateDocument:
    place, field = found.place, found.joint.posterior
    theta, spread = field.theta(place), field.spread(place)
    before = field.prior.sigma * np.sqrt(kinship(place, place))
    chosen = [bool(value) for value in found.joint.active[0]]
    errors = np.exp(found.joint.errors) - 1.0
    unseen = None if found.cross_validated is None else np.exp(found.cross_validated) - 1.0
    shipped = np.array([run.shipped_s / run.measured_s - 1.0 for run in found.runs])
    warnings = remarks(theta, spread, before, chosen)
    if unseen is None:
        warnings.append("all runs are of one model and source: nothing shows how well other models are predicted")
    entry = _entry(found, theta, spread, chosen, warnings)
    return {
        "schema": "cann-plan/calibrate/1",
        "device": str(place.device),
        "stack": str(place.stack),
        "before": _statistics(shipped),
        "in_sample": _statistics(errors),
        "left_out": _statistics(np.zeros(0) if unseen is None else unseen),
        "parameters": _parameters(theta, spread, field.prior.mean, chosen),
        "residuals": _residuals(found, shipped, errors, unseen),
        "interval": entry["interval"],
        "warnings": warnings,
        "profile": {
            "schema": PROFILE_SCHEMA, "name": name, "extends": found.profile.name, "calibrations": [entry],
        },
        "skipped": [{"id": row, "why": why} for row, why in skipped],
    }  # fmt: skip


def _entry(
    found: Calibrated, theta: Array, spread: Array, chosen: Sequence[bool], warnings: Sequence[str]
) -> dict[str, Any]:
    """The calibration entry of the profile."""
    runs, observations = found.runs, found.joint.posterior.observations
    jobs = [run.prepared.job for run in runs]
    groups = {run.group for run in runs}
    _, shipped, _ = found.profile.on(runs[0].device, runs[0].family)
    own = None
    if found.cross_validated is not None:
        own = Spread(-found.cross_validated, configuration_weights(observations), len(groups))
    basis = f"runs left out by model and source, with the interval of profile {found.profile.name} for few of them"
    band = interval(own, (float(np.log(shipped.low)), float(np.log(shipped.high))), basis) | {"n": len(runs)}
    source = f"fit on {len(runs)} runs of {len(groups)} models and sources, from profile {found.profile.name}"
    return {
        "devices": [runs[0].device],
        "parameters": parameter_values(theta, source),
        "interval": band,
        "sequence_length": span([job.sequence_length for job in jobs]),
        "hidden_size": span([job.architecture.hidden for job in jobs]),
        "ranks": span([job.cluster.devices for job in jobs]),
        "parameter_intervals": parameter_intervals(theta, spread, chosen),
        "notes": list(warnings),
    }


def _parameters(theta: Array, spread: Array, mean: Array, chosen: Sequence[bool]) -> list[FittedParameter]:
    low = np.exp(np.maximum(theta - Z * spread, LOW))
    high = np.exp(np.minimum(theta + Z * spread, HIGH))
    return [
        {
            "name": name,
            "value": significant(float(np.exp(theta[index]))),
            "low": significant(float(low[index])),
            "high": significant(float(high[index])),
            "prior": significant(float(np.exp(mean[index]))),
            "identified": chosen[index],
        }
        for index, name in enumerate(NAMES)
    ]


def _residuals(found: Calibrated, shipped: Array, errors: Array, unseen: Array | None) -> list[Residual]:
    return [
        {
            "id": run.id,
            "measured_s": run.measured_s,
            "predicted_s": run.measured_s * (1.0 + float(errors[index])),
            "error_before": float(shipped[index]),
            "error": float(errors[index]),
            "error_left_out": None if unseen is None else float(unseen[index]),
        }
        for index, run in enumerate(found.runs)
    ]


def _statistics(errors: Array) -> CalibrationStatistics:
    found = statistics([float(value) for value in errors])
    return {"n": found["n"], "mape": found["mape"], "median": found["median"], "p90": found["p90"],
            "bias": found["bias"]}  # fmt: skip


def _problem(file: str | None, message: str, allowed: str | None = None) -> Problem:
    return Problem(file, None, None, None, message, allowed)

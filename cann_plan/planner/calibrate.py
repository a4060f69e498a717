"""`calibrate`: a profile of one device and stack from measured runs, cross-validated by (source, model) group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.importers.rows import MeasuredRow, RowSkippedError
from cann_plan.importers.rows_plan import import_row
from cann_plan.planner.calibrate_fit import Fit, cluster_weights, fit, refit_without
from cann_plan.planner.calibrate_model import PARAMETERS, prior_values, stack_of
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.validate import load_rows, selected
from cann_plan.planner.validate_rows import PreparedRow, predict, prepare_row

Array = NDArray[np.float64]
Progress = Callable[[int, int | None], None]
NAMES = tuple(parameter.name for parameter in PARAMETERS)


@dataclass(frozen=True, slots=True)
class Run:
    """A measured run ready to be predicted with any parameters; `group` is left out together in cross-validation."""

    prepared: PreparedRow
    measured_s: float
    group: str
    configuration: str

    def seconds(self, values: Array) -> float:
        """Predicted step time with parameter `values` in the order of `PARAMETERS`."""
        job = self.prepared.job
        stack = stack_of(job.problem.compute.stack, NAMES, values)
        problem = replace(job.problem, compute=replace(job.problem.compute, stack=stack))
        return float(evaluate(problem, self.prepared.variants).step[0])


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fit with its cross-validated log errors (by run) and the runs it was made on."""

    device: str
    stack: str
    runs: tuple[Run, ...]
    fit: Fit
    cross_validated: Array
    skipped: tuple[tuple[str, str], ...]


def prepare_runs(
    rows: Iterable[str | Path | MeasuredRow], *, tier: str | None, device: str | None, stack: str | None,
    on_progress: Progress | None = None,
) -> tuple[list[Run], list[tuple[str, str]]]:  # fmt: skip
    """Runs with a step time, layouts settled with the shipped profiles; and what was skipped, with the reason.

    Raises:
        SpecError: a file cannot be read.
    """
    wanted = [row for row in load_rows(rows) if selected(row, tier, device, stack)]
    runs: list[Run] = []
    skipped: list[tuple[str, str]] = []
    for index, row in enumerate(wanted):
        try:
            prepared = prepare_row(import_row(row))
        except RowSkippedError as reason:
            skipped.append((row.id, str(reason)))
            continue
        measured = prepared.row.measured.step_s
        if measured is None:
            skipped.append((row.id, "no step time"))
            continue
        settled = replace(prepared, variants=predict(prepared).strategies)
        runs.append(Run(settled, measured, _group(row, settled), _configuration(settled)))
        if on_progress is not None:
            on_progress(index + 1, len(wanted))
    return runs, skipped


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


def _group(row: MeasuredRow, prepared: PreparedRow) -> str:
    """(source, model): the id's first word and the model's dimensions."""
    architecture = prepared.job.architecture
    return f"{row.id.split('-')[0]}/{architecture.layers}x{architecture.hidden}x{len(architecture.kinds)}"


def _configuration(prepared: PreparedRow) -> str:
    job = prepared.job
    axes = [int(getattr(prepared.variants, name)[0]) for name in type(prepared.variants).__dataclass_fields__]
    model = (job.architecture.layers, job.architecture.hidden, job.sequence_length, job.global_batch_size)
    return repr((model, axes, job.precision, job.cluster.devices))


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

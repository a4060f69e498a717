"""Measured runs made ready for a calibration: layouts settled, communication evaluated once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Communication
from cann_plan.importers.rows import MeasuredRow, RowSkippedError
from cann_plan.importers.rows_plan import import_row
from cann_plan.planner.calibrate_model import NAMES, concerns, stack_of
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.validate import load_rows, selected
from cann_plan.planner.validate_rows import PreparedRow, predict, prepare_row
from cann_plan.records import dataclass

Array = NDArray[np.float64]
Progress = Callable[[int, int | None], None]
STEP = 0.02
"""Relative step of the numerical derivative."""


class ReplayedCommunication:
    """Answers of a communication table, recorded at the first evaluation and repeated in order at the next ones.

    No stack parameter changes a message, so evaluations that differ in parameters alone ask the same questions.
    """

    def __init__(self, table: Communication) -> None:
        self._table, self._tape, self._at = table, list[tuple[str, Any]](), 0

    def rewind(self) -> None:
        """Start of an evaluation."""
        self._at = 0

    def seconds(self, operation: str, *arguments: Any, **options: Any) -> Array:
        """As `Communication.seconds`."""
        answer: Array = self._answer(operation, lambda: self._table.seconds(operation, *arguments, **options))
        return answer

    def groups(self, *arguments: Any, **options: Any) -> NDArray[np.int64]:
        """As `Communication.groups`."""
        answer: NDArray[np.int64] = self._answer("groups", lambda: self._table.groups(*arguments, **options))
        return answer

    def seconds_of(self, operation: str, nbytes: Any, groups: NDArray[np.int64]) -> Array:
        """As `Communication.seconds_of`."""
        answer: Array = self._answer(operation, lambda: self._table.seconds_of(operation, nbytes, groups))
        return answer

    def _answer(self, question: str, ask: Callable[[], Any]) -> Any:
        if self._at == len(self._tape):
            self._tape.append((question, ask()))
        asked, answer = self._tape[self._at]
        if asked != question:
            raise RuntimeError(f"communication is not the same for all parameters: {asked}, then {question}")
        self._at += 1
        return answer


@dataclass(frozen=True, slots=True)
class Run:
    """A measured run ready to be predicted with any parameters.

    `shipped_s`: prediction with the shipped profile [s]. Runs of one `group` (source and model) are left out together
    in cross-validation; runs of one `configuration` are repeats.
    """

    prepared: PreparedRow
    measured_s: float
    shipped_s: float
    group: str
    configuration: str
    replay: ReplayedCommunication = field(repr=False)

    @property
    def id(self) -> str:
        """Name of the row."""
        return self.prepared.row.row.id

    @property
    def device(self) -> str:
        """Preset name of the device."""
        return self.prepared.job.cluster.device.name

    @property
    def family(self) -> str:
        """Architecture family of the device."""
        return self.prepared.job.cluster.device.family

    @property
    def stack(self) -> str:
        """Profile name of the software stack."""
        return self.prepared.job.profile.name

    def seconds(self, values: Array) -> float:
        """Predicted step time [s] with parameter `values` in the order of `PARAMETERS`."""
        job = self.prepared.job
        stack = stack_of(job.problem.compute.stack, NAMES, values)
        self.replay.rewind()
        problem = replace(job.problem, compute=replace(job.problem.compute, stack=stack), communication=self.replay)
        return float(evaluate(problem, self.prepared.variants).step[0])

    def derivatives(self, theta: Array) -> tuple[float, Array]:
        """Log of the predicted step time and its derivative by the log parameters, at log parameters `theta`."""
        base = float(np.log(self.seconds(np.exp(theta))))
        slopes = np.zeros(theta.shape[0])
        for index, name in enumerate(NAMES):
            if concerns(name, self.prepared.job.problem):
                moved = theta.copy()
                moved[index] += STEP
                slopes[index] = (float(np.log(self.seconds(np.exp(moved)))) - base) / STEP
        return base, slopes


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
            runs.append(prepare_run(row))
        except RowSkippedError as reason:
            skipped.append((row.id, str(reason)))
        if on_progress is not None:
            on_progress(index + 1, len(wanted))
    return runs, skipped


def prepare_run(row: MeasuredRow) -> Run:
    """A row as a run.

    Raises:
        RowSkippedError: it cannot be evaluated or has no step time.
    """
    prepared = prepare_row(import_row(row))
    measured = prepared.row.measured.step_s
    if measured is None:
        raise RowSkippedError("no step time")
    prediction = predict(prepared)
    settled = replace(prepared, variants=prediction.strategies)
    replay = ReplayedCommunication(settled.job.problem.communication)
    return Run(settled, measured, prediction.step_s, _group(row, settled), _configuration(settled), replay)


def _group(row: MeasuredRow, prepared: PreparedRow) -> str:
    """(source, model): the id's first word and the model's dimensions."""
    architecture = prepared.job.architecture
    return f"{row.id.split('-')[0]}/{architecture.layers}x{architecture.hidden}x{len(architecture.kinds)}"


def _configuration(prepared: PreparedRow) -> str:
    job = prepared.job
    axes = [int(getattr(prepared.variants, name)[0]) for name in type(prepared.variants).__dataclass_fields__]
    model = (job.architecture.layers, job.architecture.hidden, job.sequence_length, job.global_batch_size)
    return repr((model, axes, job.precision, job.cluster.devices))

"""Predictions of many runs in a few processes that keep their share of the runs prepared."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cann_plan.importers.rows import MeasuredRow, RowSkippedError
from cann_plan.planner.calibrate_hierarchy import PRIOR, Observation, Place
from cann_plan.planner.calibrate_runs import prepare_run

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a report needs of one run, small enough to be sent between processes."""

    id: str
    source: str
    tier: str
    kind: str
    model: str
    observation: Observation
    base: float
    slopes: Array
    shipped_s: float
    sequence_length: int
    hidden_size: int
    devices: int
    global_batch_size: int
    assumptions: tuple[str, ...]


class Workers:
    """Processes with their share of the rows; answers come back in the order of `samples`."""

    def __init__(self, rows: Sequence[MeasuredRow], processes: int = 2) -> None:
        context = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        self._members = []
        for share in range(processes):
            mine, theirs = context.Pipe()
            part = list(rows[share::processes])
            member = context.Process(target=_serve, args=(theirs, part), daemon=True)
            member.start()
            self._pipes.append(mine)
            self._members.append(member)
        answers = [pipe.recv() for pipe in self._pipes]
        self._counts = [len(samples) for samples, _ in answers]
        self.samples: list[Sample] = [sample for samples, _ in answers for sample in samples]
        self.skipped: list[tuple[str, str]] = [item for _, skipped in answers for item in skipped]

    def predict(self, thetas: Sequence[Array], index: Sequence[int] | None = None) -> Array:
        """Log predicted step time of the runs `index` (default: all) at one array of log parameters per run."""
        wanted = np.arange(len(self.samples)) if index is None else np.array(index)
        starts = np.concatenate([[0], np.cumsum(self._counts)])
        owner = np.searchsorted(starts, wanted, side="right") - 1
        for member, pipe in enumerate(self._pipes):
            pipe.send([(int(wanted[i] - starts[member]), thetas[i]) for i in np.flatnonzero(owner == member)])
        result = np.zeros(wanted.shape[0])
        for member, pipe in enumerate(self._pipes):
            result[owner == member] = pipe.recv()
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for member in self._members:
            member.join()


def _serve(pipe: Connection, rows: list[MeasuredRow]) -> None:
    runs, samples, skipped = [], [], []
    for row in rows:
        try:
            run = prepare_run(row)
        except RowSkippedError as reason:
            skipped.append((row.id, str(reason)))
            continue
        base, slopes = run.derivatives(PRIOR.mean)
        runs.append(run)
        samples.append(_sample(run, base, slopes))
    pipe.send((samples, skipped))
    while (request := pipe.recv()) is not None:
        pipe.send(np.array([np.log(runs[i].seconds(np.exp(theta))) for i, theta in request]))


def _sample(run: Any, base: float, slopes: Array) -> Sample:
    job, imported = run.prepared.job, run.prepared.row
    architecture = job.architecture
    name = imported.row.data.get("model", {}).get("name") if "plan" not in imported.row.data else None
    model = name or f"{job.counts.total / 1e9:.3g}B"
    observation = Observation(Place(run.device, run.family, run.stack), run.measured_s, run.group, run.configuration)
    return Sample(
        imported.row.id, str(imported.row.data.get("source", "")), imported.row.tier or "", imported.kind, str(model),
        observation, base, slopes, run.shipped_s, job.sequence_length, architecture.hidden, job.cluster.devices,
        job.global_batch_size, tuple(f"{r.path}: {r.source}" for r in imported.remarks),
    )  # fmt: skip

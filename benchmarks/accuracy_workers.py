"""Predictions of many runs in a few processes that keep their share of the runs prepared."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cann_plan.importers.rows import MeasuredRow, RowSkippedError
from cann_plan.planner.calibrate_hierarchy import PRIOR, Observation, Place
from cann_plan.planner.calibrate_model import NAMES
from cann_plan.planner.calibrate_runs import Run, prepare_run
from cann_plan.workload.flops import model_flops_per_token

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """What the report needs of one run, small enough to be sent between processes.

    `base`, `slopes`: log step time at the prior mean and its derivatives. `flop_s`: time of the model FLOPs at peak.
    """

    id: str
    source: str
    tier: str
    kind: str
    odd: bool
    observation: Observation
    base: float
    slopes: Array
    shipped_s: float
    flop_s: float
    model: str
    layout: str
    precision: str
    sequence_length: int
    hidden_size: int
    devices: int
    global_batch_size: int

    @property
    def place(self) -> Place:
        """Device, family and stack."""
        return self.observation.place

    @property
    def model_class(self) -> str:
        """Kind of model, or fp8 for a plain one in an 8-bit format."""
        return "fp8" if self.kind == "dense" and "fp8" in self.precision else self.kind

    @property
    def fitted(self) -> bool:
        """Whether a calibration may use the run."""
        return self.tier in ("A", "B") and not self.odd


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
        wanted = np.arange(len(self.samples)) if index is None else np.array(index, dtype=np.int64)
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
        usable = row.tier in ("A", "B") and not row.data.get("odd")
        base, slopes = run.derivatives(PRIOR.mean) if usable else (float(np.log(run.shipped_s)), np.zeros(len(NAMES)))
        runs.append(run)
        samples.append(_sample(run, base, slopes))
    pipe.send((samples, skipped))
    while (request := pipe.recv()) is not None:
        pipe.send(np.array([np.log(runs[i].seconds(np.exp(theta))) for i, theta in request]))


def _sample(run: Run, base: float, slopes: Array) -> Sample:
    job, imported = run.prepared.job, run.prepared.row
    architecture, data = job.architecture, imported.row.data
    observation = Observation(Place(run.device, run.family, run.stack), run.measured_s, run.group, run.configuration)
    per_token = float(model_flops_per_token(architecture, job.sequence_length)[0])
    flops = per_token * job.global_batch_size * job.sequence_length
    return Sample(
        run.id, str(data.get("source", "")), imported.row.tier or "", imported.kind, bool(data.get("odd")), observation,
        base, slopes, run.shipped_s, flops / job.cluster.devices / job.peak,
        f"{architecture.layers} x {architecture.hidden}", _layout(run), job.precision, job.sequence_length,
        architecture.hidden, job.cluster.devices, job.global_batch_size,
    )  # fmt: skip


def _layout(run: Run) -> str:
    s = run.prepared.variants
    axes = (("t", s.tensor), ("p", s.pipeline), ("c", s.context), ("e", s.expert), ("v", s.virtual))
    degrees = " ".join(f"{name}{int(values[0])}" for name, values in axes if int(values[0]) > 1)
    return f"{degrees} b{int(s.micro_batch_size[0])}".strip()

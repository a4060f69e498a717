"""The prediction for one measured run: its plan resolved, what it leaves open settled by memory, and evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cann_plan.cost.step import BREAKDOWN
from cann_plan.cost.strategies import Strategies
from cann_plan.importers.rows import RowSkippedError
from cann_plan.importers.rows_plan import ImportedRow
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.build import build_job
from cann_plan.planner.constraints import EXPLAIN, REASONS, broken_constraint
from cann_plan.planner.contract_estimate import Json
from cann_plan.planner.evaluate import Evaluation, evaluate, stage_memory
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import load_profile
from cann_plan.records import dataclass
from cann_plan.spec.errors import SpecError
from cann_plan.spec.profile import ProfileSpec
from cann_plan.spec.resolve import load_plan

GIB = 2.0**30
SURELY_TOO_LARGE = 1.2
"""Predicted memory over visible memory from which a run that did take place must have recomputed: anything less may
be the memory model's own error."""
NONE, FULL = 0, 2
"""Index of the policies in every problem that `build_job` makes."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A run's prediction. `memory_gib`: worst rank by quantity (allocated, reserved, device)."""

    row: ImportedRow
    job: Job
    strategies: Strategies
    step_s: float
    breakdown_s: dict[str, float]
    memory_gib: dict[str, float]
    fits: bool
    assumptions: tuple[dict[str, Json], ...]


@dataclass(frozen=True, slots=True)
class PreparedRow:
    """A run ready to be evaluated; `variants` are the layouts among which memory decides."""

    row: ImportedRow
    job: Job
    variants: Strategies


def prepare_row(row: ImportedRow, profiles: Mapping[str, ProfileSpec] | None = None) -> PreparedRow:
    """Resolve the plan of a run. `profiles` replace shipped profiles by name.

    Raises:
        RowSkippedError: the plan cannot be evaluated.
    """
    try:
        loaded = load_plan(row.plan)
        profile = load_profile(loaded, loaded.hardware)
        profile = (profiles or {}).get(profile.name, profile)
        job = build_job(loaded.spec, loaded.model, loaded.hardware, profile)
    except SpecError as error:
        first = error.problems[0]
        raise RowSkippedError(f"{first.path or 'plan'}: {first.message}") from None
    except PlanError as error:
        raise RowSkippedError(f"{error.path}: {error.message}") from None
    if job.strategies is None:
        raise RowSkippedError("the parallel layout is not stated")
    code = int(broken_constraint(job.problem, job.strategies)[0])
    if code:
        raise RowSkippedError(EXPLAIN[REASONS[code]])
    return PreparedRow(row, job, _variants(row, job, job.strategies))


def predict(prepared: PreparedRow) -> Prediction:
    """Evaluate a run. Recomputation the row leaves open is the least that fits the device (or the stated limit)."""
    row, job, variants = prepared.row, prepared.job, prepared.variants
    result = evaluate(job.problem, variants)
    pick = _least_that_fits(prepared, result)
    chosen = variants.take(np.array([pick]))
    memory = _memory(job, chosen, result, pick, every_rank=row.measured.memory_gib is not None)
    assumptions = [remark.as_dict() for remark in row.remarks]
    if row.recompute.search == "unstated":
        value = "none" if int(chosen.policy[0]) == NONE else "full"
        why = "it may fit without" if value == "none" else "kept activations cannot fit"
        assumptions.append({"path": "parallel.recompute.policy", "value": value, "source": f"not stated: {why}"})
    elif row.recompute.search == "layers":
        layers = int(chosen.recompute_layers[0])
        text = "fewest layers that fit the stated limit"
        assumptions.append({"path": "parallel.recompute.layers", "value": layers, "source": text})
    if row.measured.derived_from is not None:
        text = f"derived from {row.measured.derived_from}"
        assumptions.append({"path": "measured.step_time_s", "value": row.measured.step_s, "source": text})
    stated = {item["path"] for item in assumptions}
    assumptions += [item for item in job.assumptions.items if item["path"] not in stated]
    return Prediction(
        row, job, chosen, float(result.step[pick]), {name: float(result.breakdown[name][pick]) for name in BREAKDOWN},
        memory, bool(result.device_bytes[pick] <= job.problem.memory.visible), tuple(assumptions),
    )  # fmt: skip


def _memory(job: Job, chosen: Strategies, result: Evaluation, pick: int, *, every_rank: bool) -> dict[str, float]:
    """GiB of the worst rank by quantity; without `every_rank` all of the rank with the largest device memory."""
    if every_rank:
        stages = stage_memory(job.problem, chosen).memory
        return {name: float(getattr(stages, name).max()) / GIB for name in ("allocated", "reserved", "device")}
    parts = {name: float(values[pick]) for name, values in result.memory.items()}
    device = float(result.device_bytes[pick])
    reserved = device - parts["communicators"] - parts["runtime"]
    allocated = reserved - parts["fragmentation"]
    return {"allocated": allocated / GIB, "reserved": reserved / GIB, "device": device / GIB}


def _variants(row: ImportedRow, job: Job, stated: Strategies) -> Strategies:
    """The stated layout, or one row per recomputation that may have been used, least first."""
    if row.recompute.search == "unstated":
        two = stated.take(np.zeros(2, np.int64))
        return replace(two, policy=np.array([NONE, FULL]), recompute_layers=np.array([-1, -1]))
    if row.recompute.search == "layers":
        chunks = int(stated.pipeline[0] * stated.virtual[0])
        most = -(-job.architecture.layers // chunks)
        block = stated.take(np.zeros(most + 1, np.int64))
        return replace(block, policy=np.full(most + 1, FULL), recompute_layers=np.arange(most + 1))
    return stated


def _least_that_fits(prepared: PreparedRow, result: Evaluation) -> int:
    limit = prepared.row.recompute.limit
    size = result.device_bytes
    if limit is None:
        limit = SURELY_TOO_LARGE * prepared.job.problem.memory.visible
    fits = np.flatnonzero(size <= limit)
    return int(fits[0]) if fits.shape[0] else int(size.shape[0]) - 1

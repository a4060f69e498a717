"""`optimize`: the best plan out of all that frameworks would start, and why the others are out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cann_plan.cost.strategies import RANK_ORDERS, SCHEDULES, Strategies
from cann_plan.planner.candidate import candidate
from cann_plan.planner.choices import Choices, search_policies
from cann_plan.planner.choose import require_valid, within_limits
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.layout import fixed_axes
from cann_plan.planner.objective import Objective
from cann_plan.planner.optimize_explain import comparison
from cann_plan.planner.optimize_fit import nothing_fits
from cann_plan.planner.optimize_near import single_changes
from cann_plan.planner.prepare import prepare
from cann_plan.planner.search import Found, Progress, search
from cann_plan.planner.search_choices import choices_of
from cann_plan.planner.space import Space, strategy_space
from cann_plan.planner.whole_run import cost_of, energy_of
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan
from cann_plan.workload.operators.rows import CONTEXT_KINDS

if TYPE_CHECKING:
    from cann_plan.planner.contract import OptimizeDocument

GIB = 2.0**30
TOP = 5
"""Layouts reported unless the plan or the command line says how many."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for; None leaves it to the plan. `usual`: the layouts people start with only."""

    top: int | None = None
    objective: str | None = None
    pareto: tuple[str, str] | None = None
    near: bool = False
    explain: bool = False
    usual: bool = False
    workers: int | None = None


def optimize(loaded: LoadedPlan, wanted: Wanted | None = None, on_progress: Progress | None = None) -> OptimizeDocument:
    """The best layouts of the plan's job on its cluster.

    Raises:
        SpecError: located problems of the plan.
    """
    wanted = wanted or Wanted()
    job = within_limits(loaded, prepare(loaded))
    today = _today(loaded, job)
    objectives = _objectives(loaded, job, wanted)
    started = time.perf_counter()
    space = _space(loaded, job, wanted)
    if not len(space):
        loaded.fail("search", "no layout has these degrees", f"degrees that multiply to {job.cluster.devices} devices")
    than = float(today[1].step[0]) if today is not None else 0.0
    top = wanted.top or loaded.spec.search.top or TOP
    found = search(space, top, on_progress, objectives=objectives, than=than, workers=wanted.workers)
    seconds = time.perf_counter() - started
    known = replace(job, problem=space.problem)
    document: dict[str, Any] = {
        "schema": "cann-plan/optimize/1",
        "problem": _problem_section(job, objectives, space),
        "best": [candidate(known, strategies) for strategies in found.best],
        "infeasible": dict(sorted(found.infeasible.items(), key=lambda item: (-item[1], item[0]))),
        "evaluated": found.evaluated,
        "feasible": found.feasible,
        "seconds": seconds,
        "strategies_per_second": found.evaluated / seconds,
    }
    if today is not None:
        document["today"] = _today_section(job, today[1], found)
    if wanted.near:
        document["near"] = _near(job, today, found, known, objectives[0])
    if wanted.explain and found.best:
        document["explain"] = _explain(job, known, today, found)
    if not found.best:
        document |= nothing_fits(loaded, known, found)
    return cast("OptimizeDocument", document)


def _space(loaded: LoadedPlan, job: Job, wanted: Wanted) -> Space:
    """Every strategy within the plan's `search:`; axes stated beside an automatic layout are held."""
    problem = job.problem
    if not wanted.usual:
        scope = loaded.spec.parallel.recompute.scope or "stage"
        problem = replace(problem, policies=search_policies(problem), recompute_scope=scope)
    held = fixed_axes(loaded.spec.parallel) if job.strategies is None else {}
    choices: Choices = choices_of(loaded.spec.search, held, problem, whole=not wanted.usual)
    return strategy_space(problem, choices)


def _objectives(loaded: LoadedPlan, job: Job, wanted: Wanted) -> tuple[Objective, ...]:
    """What is made smallest: one objective, or two for a front.

    Raises:
        SpecError: cost without a price, energy without a power.
    """
    pareto = wanted.pareto or loaded.spec.search.pareto
    names = pareto if pareto is not None else (wanted.objective or loaded.spec.search.objective or "time",)
    for name in names:
        sections = {"cost": (cost_of, "amount"), "energy": (energy_of, "kwh")}
        if name in sections:
            section, figure = sections[name]
            known = section(replace(job, assumptions=type(job.assumptions)()), 1.0)
            if known[figure] is None:
                loaded.fail("search.objective", str(known["reason"]))
    return tuple(Objective(name) for name in names)


def _today(loaded: LoadedPlan, job: Job) -> tuple[Strategies, Evaluation] | None:
    """The plan's own layout and what it gives, where it states one."""
    if job.strategies is None:
        return None
    require_valid(loaded, job)
    return job.strategies, evaluate(job.problem, job.strategies)


def _problem_section(job: Job, objectives: tuple[Objective, ...], space: Space) -> dict[str, Any]:
    """What the search is about, and the values tried of every axis."""
    return {
        "model": job.model.name,
        "cluster": job.cluster.name,
        "devices": job.cluster.devices,
        "nodes": job.cluster.nodes,
        "global_batch_size": job.global_batch_size,
        "sequence_length": job.sequence_length,
        "precision": job.precision,
        "objective": objectives[0].name,
        "pareto": [objective.name for objective in objectives] if len(objectives) > 1 else None,
        "layouts": space.base,
        "strategies": len(space),
        "axes": _axes(space),
    }


def _axes(space: Space) -> dict[str, list[Any]]:
    """Values tried of every axis that has more than one, by plan key."""
    words = {"context_kind": CONTEXT_KINDS, "schedule": SCHEDULES, "rank_order": RANK_ORDERS,
             "sequence_parallel": (False, True),
             "policy": [policy.name for policy in space.problem.policies],
             "split": ["even" if split is None else list(split) for split in space.problem.splits]}  # fmt: skip
    names = {"virtual": "virtual_pipeline", "ulysses": "ulysses_degree", "policy": "recompute", "split": "layer_split"}
    tried: dict[str, list[Any]] = {}
    for axis, values in space.tried().items():
        if len(values) > 1:
            known = words.get(axis)
            tried[names.get(axis, axis)] = [known[value] for value in values] if known is not None else values
    return tried


def _today_section(job: Job, result: Evaluation, found: Found) -> dict[str, Any]:
    fits = bool(result.feasible[0])
    return {
        "step_s": float(result.step[0]),
        "peak_gib": float(result.device_bytes[0]) / GIB,
        "fits": fits,
        "rank": found.better + 1 if fits else None,
    }


def _near(
    job: Job, today: tuple[Strategies, Evaluation] | None, found: Found, known: Job, objective: Objective
) -> list[dict[str, Any]]:
    """Single changes to today's plan, or to the best one where the plan states none."""
    if today is not None:
        return single_changes(job, today[0], objective)
    return single_changes(known, found.best[0], objective) if found.best else []


def _explain(job: Job, known: Job, today: tuple[Strategies, Evaluation] | None, found: Found) -> list[dict[str, Any]]:
    """The winner against the runner-up and against today's plan, term by term."""
    winner = candidate(known, found.best[0])
    against = []
    if len(found.best) > 1:
        against.append(comparison("the runner-up", winner, candidate(known, found.best[1])))
    if today is not None:
        against.append(comparison("today's plan", winner, candidate(job, today[0])))
    return against

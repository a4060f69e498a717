"""`memory`: every pipeline rank's memory, over one step and by operator, and what would make it fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cann_plan.planner.choose import Choice, choose
from cann_plan.planner.estimate import memory_section, parallel_section
from cann_plan.planner.evaluate import evaluate, micro_batches, stage_memory
from cann_plan.planner.memory_advice import advice
from cann_plan.planner.memory_operators import top_operators
from cann_plan.planner.memory_recompute import recompute_front
from cann_plan.planner.memory_record import compare_record, read_record
from cann_plan.planner.memory_replay import replay_rank
from cann_plan.planner.memory_timeline import rank_timeline
from cann_plan.planner.search import Progress
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import LoadedPlan

GIB = 2.0**30


def memory(loaded: LoadedPlan, trace: str | Path | None = None, on_progress: Progress | None = None) -> dict[str, Any]:
    """The document of `cann-plan memory`; `trace`: a profiler's record to compare with.

    A device whose rates nobody states gets its memory figures; times are then None.

    Raises:
        SpecError: located problems of the plan, or a trace that cannot be read.
    """
    record = read_record(trace) if trace is not None else None
    timed = True
    try:
        choice = choose(loaded, on_progress)
    except SpecError:
        timed = False
        choice = _untimed(loaded, on_progress)
    return memory_document(choice, timed=timed, record=record)


def _untimed(loaded: LoadedPlan, on_progress: Progress | None) -> Choice:
    """The choice by memory alone; whatever is wrong besides unknown rates is still an error."""
    choice = choose(loaded, on_progress, timed=False)
    choice.job.warnings.add(
        "rates_unknown", "cluster", f"no rate of {choice.job.cluster.device.name} is stated: memory only, no times"
    )
    return choice


def memory_document(choice: Choice, *, timed: bool = True, record: Any = None) -> dict[str, Any]:
    """The document of one job and strategy."""
    job, strategies = choice.job, choice.strategies
    problem = job.problem
    result = evaluate(problem, strategies)
    section = memory_section(job, strategies, result)
    detail = stage_memory(problem, strategies)
    table, parts = detail.table, detail.memory
    stage = int(section["peak_stage"])
    slots = int(micro_batches(problem, strategies)[0])
    recomputed = table.recomputed(strategies.recompute_layers, problem.recompute_lists, problem.recompute_scope)
    recomputed = np.where((strategies.policy == 0)[:, None], 0, recomputed)
    ranks = section.pop("stages")
    for index, rank in enumerate(ranks):
        outside = float(parts.communicators[0, index] + parts.runtime[0, index])
        states, late = float(parts.states[0, index]), float(parts.late[0, index])
        passes = float(max(parts.forward[0, index], parts.backward[0, index]))
        rank["phases"] = {
            "load_gib": float(parts.load[0, index]) / GIB,
            "first_forward_gib": float(parts.forward[0, index] - late) / GIB,
            "first_backward_gib": (passes - late) / GIB,
            "first_update_gib": float(parts.update[0, index]) / GIB,
            "forward_gib": float(parts.forward[0, index]) / GIB,
            "backward_gib": float(parts.backward[0, index]) / GIB,
            "update_gib": float(parts.update[0, index]) / GIB,
            "checkpoint_gib": states / GIB,
            "outside_allocator_gib": outside / GIB,
        }
    operators = top_operators(problem, strategies, table, recomputed, parts, stage)
    document: dict[str, Any] = {
        "schema": "cann-plan/memory/1",
        **section,
        "parallel": parallel_section(job, strategies),
        "ranks": ranks,
        "timeline": rank_timeline(problem, strategies, table, recomputed, parts, stage, slots, timed=timed),
        "top_operators": operators,
        "advice": advice(job, strategies, timed=timed),
        "recompute": recompute_front(job, strategies, table, parts, stage, timed=timed),
        "replay": replay_rank(
            problem, strategies, table, recomputed, parts, stage, slots,
            expandable=bool(job.plan.memory.expandable_segments), pool=job.plan.memory.pool or "caching",
        ),
        "assumptions": list(job.assumptions.items),
        "warnings": list(job.warnings.items),
    }  # fmt: skip
    if record is not None:
        document["trace"] = compare_record(record, ranks[stage], operators)
    return document

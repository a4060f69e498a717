"""Live tensors of one pipeline rank over one step: the rank's passes in order, each with its kept bytes and peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cann_plan.cost.layer_block import edges, layer_block
from cann_plan.cost.memory import RankMemory
from cann_plan.cost.pipeline_orders import Kind, Schedule
from cann_plan.cost.pipeline_simulator import simulate
from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import StageTable
from cann_plan.cost.strategies import SCHEDULES, Strategies

GIB = 2.0**30
MOST_MICRO_BATCHES = 64
"""Micro-batches simulated at most per stage: the steady state repeats itself."""


@dataclass(frozen=True, slots=True)
class ChunkBytes:
    """What one chunk keeps of a micro-batch and needs besides in either pass; bytes. Seconds of its passes."""

    kept: float
    ahead: float
    behind: float
    forward_s: float
    backward_s: float


def chunk_bytes(problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any) -> list[ChunkBytes]:
    """Every chunk in model order, from the layer table of a block of one; `recomputed` (1, C)."""
    block = layer_block(problem, strategies)
    row = int(block.row[0])
    policy = int(strategies.policy[0])
    kinds = len(problem.architecture.kinds)
    chunks = table.sizes.shape[0]
    result = []
    for chunk in range(chunks):
        start, again = int(table.starts[chunk]), int(recomputed[0, chunk])
        kept = ahead = behind = forward = backward = 0.0
        for kind in range(kinds):
            cost = block.costs[kind]
            total = int(table.counts[kind, chunk])
            replayed = int(table.prefix[kind][start + again] - table.prefix[kind][start])
            for layers, chosen in ((total - replayed, cost.policies[0]), (replayed, cost.policies[policy])):
                if layers:
                    kept += layers * float(chosen.kept[row])
                    ahead = max(ahead, float(chosen.forward_extra[row]))
                    behind = max(behind, float(chosen.backward_extra[row]))
                    backward += layers * float(chosen.replay.seconds[row])
            forward += total * float(cost.forward.seconds[row])
            backward += total * float(cost.backward.seconds[row])
        for index, place in edges(problem, chunks):
            if place == chunk:
                edge = block.costs[index]
                plain = edge.policies[0]
                kept += float(plain.kept[row])
                ahead = max(ahead, float(plain.forward_extra[row]))
                behind = max(behind, float(plain.backward_extra[row]))
                forward += float(edge.forward.seconds[row])
                backward += float(edge.backward.seconds[row])
        result.append(ChunkBytes(kept, ahead, behind, forward, backward))
    return result


def rank_timeline(
    problem: Problem, strategies: Strategies, table: StageTable, recomputed: Any, memory: RankMemory, stage: int,
    micro_batches: int, *, timed: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Bytes alive at the worst point of every pass of `stage`, then of the optimizer step; `t_s` None if untimed."""
    schedule = Schedule(SCHEDULES[int(strategies.schedule[0])])
    chunks = chunk_bytes(problem, strategies, table, recomputed)
    slots = min(micro_batches, max(MOST_MICRO_BATCHES, 3 * table.pipeline))
    if schedule is Schedule.INTERLEAVED:
        slots = max(slots // table.pipeline, 1) * table.pipeline if micro_batches >= table.pipeline else micro_batches
    forward = np.array([chunk.forward_s for chunk in chunks])
    backward = np.array([chunk.backward_s for chunk in chunks])
    run = simulate(schedule, forward, backward, 0.0, slots, table.virtual)
    base = float(memory.states[0, stage])
    rows = run.timeline
    here = np.flatnonzero(rows.stage == stage)
    order = here[np.argsort(rows.start[here], kind="stable")]
    alive = 0.0
    events: list[dict[str, Any]] = []
    for index in order:
        chunk = chunks[int(rows.chunk[index])]
        kind = Kind(int(rows.kind[index]))
        ahead = kind is Kind.FORWARD
        if ahead:
            alive += chunk.kept
        peak = alive + (chunk.ahead if ahead else chunk.behind if kind is not Kind.BACKWARD_WEIGHT else 0.0)
        events.append(
            {
                "t_s": float(rows.start[index]) if timed else None,
                "phase": "forward" if ahead else "backward",
                "chunk": int(rows.chunk[index]),
                "micro_batch": int(rows.micro_batch[index]),
                "allocated_gib": (base + peak) / GIB,
            }
        )
        if kind is Kind.BACKWARD or kind is Kind.BACKWARD_WEIGHT:
            alive -= chunk.kept
    events.append(
        {
            "t_s": run.makespan if timed else None,
            "phase": "optimizer",
            "chunk": None,
            "micro_batch": None,
            "allocated_gib": float(memory.update[0, stage]) / GIB,
        }
    )
    return events

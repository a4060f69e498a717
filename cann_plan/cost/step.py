"""Time of one optimizer step: passes of the micro-batches, then gradient exchange, optimizer and host transfers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.gradient_exchange import ExchangeCosts, Finish, finish_seconds, never_gathered
from cann_plan.cost.offload import OffloadTime, offload_seconds
from cann_plan.cost.passes import Passes
from cann_plan.cost.problem import Problem
from cann_plan.cost.rank_state import RankState
from cann_plan.cost.stages import StageTable
from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array

Ints = NDArray[np.int64]

BREAKDOWN = (
    "forward", "backward", "recompute", "tensor_comm", "context_comm", "expert_comm", "pipeline_comm",
    "pipeline_bubble", "data_comm", "optimizer", "offload", "input_stall", "host_overhead",
)  # fmt: skip
"""Parts of a step along the critical stage; they sum to the step."""

OVERLAPPED = ("tensor", "context", "expert", "pipeline", "data", "offload", "input")


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds, arrays (n,): the step, what follows the passes, and transfers between host and device."""

    step: Array
    finish: Finish
    offload: OffloadTime


def step_time(
    problem: Problem, table: StageTable, passes: Passes, once: Array | None, costs: ExchangeCosts, state: RankState,
    ahead: Ints, behind: Ints,
) -> StepTime:  # fmt: skip
    """Steps of pairs of columns of `passes` (`ahead`, (n,)) and of `costs` and `state` (`behind`, (n,)).

    `once` (J, passes): bytes of activations of one micro-batch, before offloading; None without offloading.
    """
    forward, backward = passes.forward.take(ahead, axis=1), passes.backward.take(ahead, axis=1)
    drain, slots = passes.drain.take(ahead, axis=1), passes.slots[ahead]
    finish = finish_seconds(
        problem, costs, behind, forward, backward, drain, slots, never_gathered(problem, table)
    )  # fmt: skip
    step = passes.pipelined[ahead] + finish.sharded + finish.exchange + finish.optimizer
    step = step + problem.compute.stack.step_s
    if once is None:
        zero = np.zeros(ahead.shape[0])
        return StepTime(step, finish, OffloadTime(zero, zero))
    offload = offload_seconds(
        problem, state.optimizer.T.take(behind, axis=1), state.weights.T.take(behind, axis=1),
        once.take(ahead, axis=1), forward, backward, slots,
    )  # fmt: skip
    return StepTime(step + offload.exposed, finish, offload)


ROUNDING = 1e-12
"""Share of a step below which a difference of sums in float64 is rounding, not idle time (a dozen terms of 1e-16)."""


def breakdown(
    problem: Problem, passes: Passes, time: StepTime, ahead: Ints
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Parts of the step along the critical stage (the bubble is the remainder), and what runs beside them; (n,)."""
    parts = {name: values[ahead] for name, values in passes.parts.items()}
    zero = np.zeros(ahead.shape[0])
    found = {name: parts[name] for name in BREAKDOWN[:7]}
    found["data_comm"] = time.finish.exchange + time.finish.sharded
    found["optimizer"] = time.finish.optimizer
    found["offload"] = time.offload.exposed
    found["input_stall"] = zero
    found["host_overhead"] = parts["host_overhead"] + problem.compute.stack.step_s
    known = zero
    for name in BREAKDOWN:
        if name != "pipeline_bubble":
            known = known + found[name]
    # a send counted on the critical stage may sit in a gap of the schedule: the bubble is never negative
    excess = np.maximum(known - time.step, 0.0)
    taken = np.minimum(excess, found["pipeline_comm"])
    found["pipeline_comm"] = found["pipeline_comm"] - taken
    bubble = time.step - (known - taken)
    found["pipeline_bubble"] = np.where(np.abs(bubble) <= ROUNDING * time.step, 0.0, bubble)
    hidden = {axis: parts[f"hidden_{axis}"] for axis in ("tensor", "context", "expert", "pipeline")}
    hidden |= {"data": time.finish.hidden, "offload": time.offload.hidden, "input": zero}
    return {name: found[name] for name in BREAKDOWN}, hidden

"""Structural constraints of a strategy, by name: what frameworks refuse to start with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import VEE, placement_of
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.workload.architecture import Attention, DenseFfn, LatentAttention, MoeFfn
from cann_plan.workload.operators.rows import CONTEXT_KINDS

REASONS = (
    "feasible",
    "device_count",
    "tensor_heads",
    "tensor_ffn",
    "context_length",
    "ulysses_heads",
    "pipeline_layers",
    "batch_divisibility",
    "interleaving_micro_batches",
    "dualpipe_stages",
    "dualpipe_micro_batches",
    "expert_count",
    "expert_data",
    "expert_tensor",
    "virtual_schedule",
    "shard_group",
    "device_memory",
    "host_memory",
)
"""Why a strategy is infeasible; the index is the code."""

EXPLAIN = {
    "device_count": "tensor x pipeline x context x data is not the number of devices",
    "tensor_heads": "attention heads do not divide by the tensor-parallel degree",
    "tensor_ffn": "feed-forward width does not divide by the tensor-parallel degree",
    "context_length": "sequence length does not divide by twice the context-parallel degree (Ulysses: by the degree)",
    "ulysses_heads": "heads per tensor rank do not divide by the Ulysses degree",
    "pipeline_layers": "fewer layers than pipeline stages x virtual stages",
    "batch_divisibility": "global batch does not divide by data-parallel degree x micro-batch",
    "interleaving_micro_batches": "interleaving needs micro-batches in multiples of the pipeline degree",
    "dualpipe_stages": "DualPipe needs an even number of pipeline stages",
    "dualpipe_micro_batches": "DualPipe needs micro-batches for twice the pipeline stages (an even number of them)",
    "expert_count": "experts do not divide by the expert-parallel degree",
    "expert_data": "devices per pipeline stage do not divide by expert x expert-tensor degree",
    "expert_tensor": "expert feed-forward width does not divide by the expert-tensor degree",
    "virtual_schedule": "virtual stages and schedule do not go together",
    "shard_group": "shard group does not divide the data-parallel group",
    "device_memory": "device memory is not enough",
    "host_memory": "host memory is not enough for what is offloaded",
}


def broken_constraint(problem: Problem, strategies: Strategies) -> NDArray[np.int64]:
    """Code of the first constraint each strategy breaks, 0 for none; shape (N,)."""
    s = strategies
    reason = np.zeros(len(s), np.int64)

    def require(name: str, holds: NDArray[np.bool_]) -> None:
        code = REASONS.index(name)
        reason[(reason == 0) & ~holds] = code

    require("device_count", s.devices == problem.devices)
    sequence = problem.settings.sequence_length
    for kind in problem.architecture.kinds:
        mixer, ffn = kind.mixer, kind.ffn
        if isinstance(mixer, Attention | LatentAttention):
            require("tensor_heads", mixer.heads % s.tensor == 0)
            ulysses = np.where(s.context_kind == 1, s.context, np.where(s.context_kind == 2, s.ulysses, 1))
            require("ulysses_heads", mixer.heads % (s.tensor * ulysses) == 0)
        if isinstance(ffn, DenseFfn):
            require("tensor_ffn", ffn.hidden % s.tensor == 0)
        if isinstance(ffn, MoeFfn):
            require("expert_count", ffn.experts % s.expert == 0)
            require("expert_tensor", ffn.hidden % s.expert_tensor == 0)
            if problem.nested_experts:
                require("expert_data", (s.data * s.context) % s.expert == 0)
            else:
                require("expert_data", (s.data * s.context * s.tensor) % (s.expert * s.expert_tensor) == 0)
    # a ring's causal balance cuts the sequence into two pieces per rank; an all-to-all needs one per rank
    pieces = np.where(s.context_kind == CONTEXT_KINDS.index("ulysses"), s.context, s.context * 2)
    require("context_length", (s.context == 1) | (sequence % pieces == 0))
    require("pipeline_layers", problem.architecture.layers >= s.pipeline * s.virtual)
    per_micro = s.data * s.micro_batch_size
    require("batch_divisibility", (per_micro > 0) & (problem.global_batch_size % np.maximum(per_micro, 1) == 0))
    slots = problem.global_batch_size // np.maximum(per_micro, 1)
    interleaved = s.schedule == SCHEDULES.index("interleaved")
    vee = placement_of(s.schedule) == VEE
    require("virtual_schedule", np.where(interleaved, s.virtual > 1, np.where(vee, s.virtual == 2, s.virtual == 1)))
    require("interleaving_micro_batches", ~interleaved | (slots % s.pipeline == 0))
    paired = s.schedule == SCHEDULES.index("dualpipe")
    require("dualpipe_stages", ~paired | (s.pipeline % 2 == 0))
    fused = paired | (s.schedule == SCHEDULES.index("dualpipe-v"))
    enough = (slots >= 2 * s.pipeline) & (~paired | (slots % 2 == 0))
    require("dualpipe_micro_batches", ~fused | enough)
    return reason


def broken_sharding(strategies: Strategies) -> NDArray[np.int64]:
    """Code of the constraint on the sharding of training states that each strategy breaks, 0 for none; shape (N,)."""
    s = strategies
    holds = (s.shard_group == 0) | ((s.data * s.context) % np.maximum(s.shard_group, 1) == 0)
    code: NDArray[np.int64] = np.where(holds, 0, REASONS.index("shard_group"))
    return code

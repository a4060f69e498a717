"""Single changes that save device memory, ranked by GiB saved per second lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.offload import UPDATE_RATE, default_link
from cann_plan.workload.operators.retention import LogitBytes

GIB = 2.0**30
WORTH = 0.01
"""A change is named if it saves this share of the visible memory."""
LOSS_CHUNK = 1024  # tokens whose logits exist at once in a chunked loss (MindSpeed's default chunk)
STEPS = 20
"""Offload shares are stated in twentieths."""

Change = tuple[dict[str, Any], Problem, Strategies]


def advice(job: Job, strategies: Strategies, *, timed: bool, limit: int = 12) -> list[dict[str, Any]]:
    """Changes that save memory, each evaluated by itself; `delta_step_s` is None where times are unknown.

    Changes that also make the step faster come first, then by GiB saved per second lost.
    """
    base = evaluate(job.problem, strategies)
    step, size = float(base.step[0]), float(base.device_bytes[0])
    items: list[tuple[float, dict[str, Any]]] = []
    for label, problem, rows in _changes(job, strategies, size):
        result = evaluate(problem, rows)
        new_step, new_size = float(result.step[0]), float(result.device_bytes[0])
        saved = size - new_size
        if not np.isfinite(new_step) or saved < WORTH * job.problem.memory.visible:
            continue
        slower = new_step - step
        fits = new_size <= job.problem.memory.visible and float(result.host_bytes[0]) <= problem.offload.capacity
        rate = np.inf if slower <= 0.0 else saved / slower
        why = _why(saved, slower / step, fits=fits, timed=timed)
        items.append(
            (
                float(rate) if timed else saved,
                {"set": label, "delta_gib": -saved / GIB, "delta_step_s": slower if timed else None, "why": why},
            )
        )
    items.sort(key=lambda item: (-item[0], item[1]["delta_gib"]))
    return [entry for _, entry in items[:limit]]


def _why(saved: float, slower: float, *, fits: bool, timed: bool) -> str:
    memory = f"{saved / GIB:.1f} GiB less"
    time = f", {abs(slower):.1%} {'slower' if slower > 0 else 'faster'}" if timed else ""
    return memory + time + ("" if fits else "; does not fit alone")


def _changes(job: Job, s: Strategies, size: float) -> Iterator[Change]:
    yield from _layouts(job, s)
    yield from _software(job, s)
    yield from _offloads(job, s, size)


def _with(s: Strategies, **axes: int) -> Strategies:
    return replace(s, **{name: np.array([value], np.int64) for name, value in axes.items()})


def _layouts(job: Job, s: Strategies) -> Iterator[Change]:
    """Recomputation, micro-batch, sharding and degrees."""
    problem = job.problem
    micro, policy = int(s.micro_batch_size[0]), int(s.policy[0])
    tensor, pipeline, data = int(s.tensor[0]), int(s.pipeline[0]), int(s.data[0])
    context, virtual = int(s.context[0]), int(s.virtual[0])
    per_chunk = problem.architecture.layers // max(pipeline * virtual, 1)
    full = next(index for index, entry in enumerate(problem.policies) if entry.name == "full")
    if policy != full or int(s.recompute_layers[0]) >= 0:
        yield {"parallel.recompute": "full"}, problem, _with(s, policy=full, recompute_layers=-1)
        for layers in sorted({per_chunk // 4, per_chunk // 2, 3 * per_chunk // 4} - {0}):
            section = {"policy": "full", "method": "block", "layers": layers, "scope": "chunk"}
            scoped = replace(problem, recompute_scope="chunk")
            yield {"parallel.recompute": section}, scoped, _with(s, policy=full, recompute_layers=layers)
    if policy == 0:
        for modules in (("norm",), ("activation",), ("norm", "activation"), ("mlp",), ("core_attention",)):
            named = type(problem.policies[0])("+".join(modules), frozenset(modules))
            more = replace(problem, policies=(*problem.policies, named))
            label = {"policy": "selective", "modules": list(modules)}
            yield {"parallel.recompute": label}, more, _with(s, policy=len(problem.policies), recompute_layers=-1)
    if micro > 1:
        yield {"parallel.micro_batch_size": micro // 2}, problem, _with(s, micro_batch_size=micro // 2)
    if tensor > 1 and not int(s.sequence_parallel[0]):
        yield {"parallel.sequence_parallel": True}, problem, _with(s, sequence_parallel=1)
    for stage in (1, 2, 3):
        if stage > int(s.zero_stage[0]) and data * context > 1:
            yield {"parallel.zero_stage": stage}, problem, _with(s, zero_stage=stage)
    if data % 2 == 0:
        if tensor * 2 <= job.cluster.devices_per_node:
            wider = {"parallel.tensor": tensor * 2, "parallel.data": data // 2}
            yield wider, problem, _with(s, tensor=tensor * 2, data=data // 2, sequence_parallel=1)
        if virtual == 1:
            deeper = {"parallel.pipeline": pipeline * 2, "parallel.data": data // 2}
            yield deeper, problem, _with(s, pipeline=pipeline * 2, data=data // 2, split=0)
        longer = {"parallel.context": context * 2, "parallel.data": data // 2}
        yield longer, problem, _with(s, context=context * 2, data=data // 2)
    if virtual > 1:
        one = SCHEDULES.index("1f1b")
        yield {"parallel.virtual_pipeline": 1}, problem, _with(s, virtual=1, schedule=one)


def _software(job: Job, s: Strategies) -> Iterator[Change]:
    """Loss, allocator, number formats."""
    problem = job.problem
    settings, states, memory = problem.settings, problem.states, problem.memory
    if not problem.fused_loss and settings.loss_chunk is None:
        yield {"software.loss": {"fused": True}}, replace(problem, fused_loss=True), s
    if settings.loss_chunk is None:
        chunked = replace(settings, loss_chunk=LOSS_CHUNK)
        yield {"software.loss.chunk": LOSS_CHUNK}, replace(problem, settings=chunked), s
    if problem.fused_loss and settings.retention.fused_logits != LogitBytes(2.0, 0.0, 0.0):
        lean = replace(settings, retention=replace(settings.retention, fused_logits=LogitBytes(2.0, 0.0, 0.0)))
        yield {"software.loss.kernel": "te"}, replace(problem, settings=lean), s
    lowest = job.profile.defaults.expandable_fragmentation
    if memory.fragmentation > lowest and not job.plan.memory.expandable_segments:
        tight = replace(memory, fragmentation=lowest)
        yield {"memory.expandable_segments": True}, replace(problem, memory=tight), s
    if states.gradient == 4.0 and states.weight == 2.0 and job.plan.training.gradient_dtype is None:
        half = replace(states, gradient=2.0, reduce=2.0)
        yield {"training.gradient_dtype": "bf16"}, replace(problem, states=half), s


def _offloads(job: Job, s: Strategies, size: float) -> Iterator[Change]:
    """The smallest shares off the device that fit, and all of it."""
    problem = job.problem
    base = evaluate(problem, s)
    over = size - problem.memory.visible
    link = default_link(job.cluster)
    for name in ("optimizer", "activations"):
        held = float(base.memory[name][0])
        present = getattr(problem.offload, name)
        if held <= 0.0 or present >= 1.0:
            continue
        shares = {1.0}
        if over > 0.0:
            share = over / (held * (1.0 + problem.memory.fragmentation))
            shares.add(min(np.ceil(share * STEPS) / STEPS, 1.0))
        for share in sorted(shares):
            options = replace(problem.offload, link=link if problem.offload.link == 1.0 else problem.offload.link)
            options = replace(options, **{name: present + (1.0 - present) * float(share)})
            if options.update_rate == 1.0:
                options = replace(options, update_on_host=job.cluster.device.kind != "npu", update_rate=UPDATE_RATE)
            label = {f"parallel.offload.{name}": getattr(options, name)}
            yield label, replace(problem, offload=options), s

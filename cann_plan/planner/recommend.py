"""Single changes to a plan that would help, each re-evaluated through the same path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.job import Job

GIB = 2.0**30
WORTH_TIME = 0.01  # a change is worth naming if it saves 1% of the step
WORTH_BYTES = 0.02  # or, where memory is short, 2% of the visible memory


def recommendations(job: Job, strategies: Strategies, limit: int = 5) -> tuple[list[dict[str, Any]], Evaluation]:
    """Changes of one axis that fit and are faster, or that save memory where the plan does not fit or barely does.

    Also returns the evaluation they come from, whose row 0 is the strategy itself.
    """
    rows, labels = _neighbours(job, strategies)
    result = evaluate(job.problem, _stack([strategies, *rows]))
    step, size = float(result.step[0]), float(result.device_bytes[0])
    tight = size > job.problem.memory.visible * (1.0 - job.problem.memory.borderline)
    items = []
    for index, label in enumerate(labels, 1):
        new_step, new_size = float(result.step[index]), float(result.device_bytes[index])
        if not np.isfinite(new_step):
            continue
        fits = bool(result.feasible[index])
        faster = new_step < step * (1.0 - WORTH_TIME) and fits
        smaller = tight and new_size < size - WORTH_BYTES * job.problem.memory.visible
        if faster or smaller:
            why = _why(step, size, new_step, new_size, fits)
            gain = (0 if fits else 1, new_step if not tight or fits else new_size)
            entry = {"set": label, "delta_gib": (new_size - size) / GIB, "delta_step_s": new_step - step, "why": why}
            items.append((gain, entry))
    items.sort(key=lambda item: item[0])
    return [entry for _, entry in items[:limit]], result


def _why(step: float, size: float, new_step: float, new_size: float, fits: bool) -> str:
    time = f"{abs(new_step / step - 1.0):.0%} {'faster' if new_step < step else 'slower'}"
    memory = f"{abs(new_size - size) / GIB:.1f} GiB {'less' if new_size < size else 'more'}"
    return f"{time}, {memory}" + ("" if fits else "; still does not fit alone")


def _stack(rows: list[Strategies]) -> Strategies:
    names = list(Strategies.__dataclass_fields__)
    return Strategies(**{name: np.concatenate([getattr(row, name) for row in rows]) for name in names})


def _neighbours(job: Job, s: Strategies) -> tuple[list[Strategies], list[dict[str, Any]]]:
    """Strategies that differ in one decision, with the plan keys that make the change."""
    rows: list[Strategies] = []
    labels: list[dict[str, Any]] = []

    def add(label: dict[str, Any], **axes: int) -> None:
        rows.append(replace(s, **{name: np.array([value], np.int64) for name, value in axes.items()}))
        labels.append({f"parallel.{name}": value for name, value in label.items()})

    tensor, pipeline, data = int(s.tensor[0]), int(s.pipeline[0]), int(s.data[0])
    micro, virtual, policy = int(s.micro_batch_size[0]), int(s.virtual[0]), int(s.policy[0])
    layers = job.architecture.layers
    listed = job.problem.splits[int(s.split[0])] is not None or int(s.recompute_layers[0]) < -1  # lists name the stages
    for size in (micro // 2, micro * 2):
        if size >= 1:
            add({"micro_batch_size": size}, micro_batch_size=size)
    for index, name in ((0, "none"), (1, "selective"), (2, "full")):
        if index != policy and (index != 1 or not job.problem.settings.flash):
            add({"recompute": name}, policy=index, recompute_layers=-1)
    if policy == 2 or policy == 0:
        per_stage = layers // (pipeline * virtual)
        for count in sorted({per_stage // 4, per_stage // 2, 3 * per_stage // 4} - {0}):
            label = {"recompute": {"policy": "full", "method": "block", "layers": count}}
            add(label, policy=2, recompute_layers=count)
    if tensor > 1:
        sequence = 1 - int(s.sequence_parallel[0])
        add({"sequence_parallel": bool(sequence)}, sequence_parallel=sequence)
    for stage in (0, 1, 3):
        if stage != int(s.zero_stage[0]) and data * int(s.context[0]) > 1:
            add({"zero_stage": stage}, zero_stage=stage)
    for new in (tensor // 2, tensor * 2):
        inside = 1 <= new <= job.cluster.devices_per_node
        if inside and (tensor * data) % new == 0 and tensor * data // new >= 1:
            share = tensor * data // new
            sequence = int(new > 1)
            add({"tensor": new, "data": share}, tensor=new, data=share, sequence_parallel=sequence)
    for new in (pipeline // 2, pipeline * 2):
        if new >= 1 and (pipeline * data) % new == 0 and virtual == 1 and not listed:
            share = pipeline * data // new
            add({"pipeline": new, "data": share}, pipeline=new, data=share)
    if pipeline > 1 and not listed:
        for new in (2, 4):
            if new != virtual and layers % (pipeline * new) == 0:
                interleaved = SCHEDULES.index("interleaved")
                add({"virtual_pipeline": new}, virtual=new, schedule=interleaved)
    return rows, labels

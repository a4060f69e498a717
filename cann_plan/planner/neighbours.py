"""Strategies that differ from one in a single decision, with the plan keys that make the change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cann_plan.cost.recompute import FULL, NONE, SELECTIVE
from cann_plan.cost.strategies import RANK_ORDERS, SCHEDULES, Strategies
from cann_plan.planner.choices import SPLITS, search_policies
from cann_plan.planner.job import Job
from cann_plan.planner.space_layouts import INTERLEAVED, TWO_CHUNKS, split_of
from cann_plan.workload.architecture import MoeFfn
from cann_plan.workload.operators.rows import CONTEXT_KINDS


class Neighbours:
    """Neighbours of one strategy (a block of one) of a job; `problem` knows the layer splits and policies they use."""

    def __init__(self, job: Job, strategies: Strategies) -> None:
        self.job, self.problem, self.base = job, job.problem, strategies
        self.rows: list[Strategies] = []
        self.labels: list[dict[str, Any]] = []
        s = strategies
        self.tensor, self.pipeline, self.data = int(s.tensor[0]), int(s.pipeline[0]), int(s.data[0])
        self.context, self.virtual = int(s.context[0]), int(s.virtual[0])
        self.layers = job.architecture.layers
        self.mixture = any(isinstance(kind.ffn, MoeFfn) for kind in job.architecture.kinds)
        # lists name the stages they are for
        self.listed = job.problem.splits[int(s.split[0])] is not None or int(s.recompute_layers[0]) < -1

    def block(self) -> Strategies:
        """The strategy itself, then its neighbours."""
        rows = [self.base, *self.rows]
        names = list(Strategies.__dataclass_fields__)
        return Strategies(**{name: np.concatenate([getattr(row, name) for row in rows]) for name in names})

    def add(self, label: dict[str, Any], **axes: int) -> None:
        """One neighbour: plan keys under `parallel`, and the axes that change."""
        self.rows.append(replace(self.base, **{name: np.array([value], np.int64) for name, value in axes.items()}))
        self.labels.append({f"parallel.{name}": value for name, value in label.items()})


def neighbours(job: Job, strategies: Strategies, *, wide: bool = False) -> Neighbours:
    """The usual single changes, or with `wide` every axis of a search."""
    found = Neighbours(job, strategies)
    _passes(found)
    _states(found, (0, 1, 2, 3) if wide else (0, 1, 3))
    _degrees(found)
    _chunks(found)
    if wide:
        _policies(found)
        _schedules(found)
        _splits(found)
        _groups(found)
    return found


def _passes(found: Neighbours) -> None:
    s, job = found.base, found.job
    micro, policy = int(s.micro_batch_size[0]), int(s.policy[0])
    for size in (micro // 2, micro * 2):
        if size >= 1:
            found.add({"micro_batch_size": size}, micro_batch_size=size)
    for index, name in ((0, "none"), (1, "selective"), (2, "full")):
        if index != policy and (index != 1 or not job.problem.settings.flash):
            found.add({"recompute": name}, policy=index, recompute_layers=-1)
    if policy in (0, 2):
        per_stage = found.layers // (found.pipeline * found.virtual)
        for count in sorted({per_stage // 4, per_stage // 2, 3 * per_stage // 4} - {0}):
            label = {"recompute": {"policy": "full", "method": "block", "layers": count}}
            found.add(label, policy=2, recompute_layers=count)
    if found.tensor > 1:
        sequence = 1 - int(s.sequence_parallel[0])
        found.add({"sequence_parallel": bool(sequence)}, sequence_parallel=sequence)


def _states(found: Neighbours, stages: tuple[int, ...]) -> None:
    """Stages of ZeRO; with a pipeline frameworks shard optimizer states alone (see `space.shardings`)."""
    for stage in stages if found.pipeline == 1 else (0, 1):
        if stage != int(found.base.zero_stage[0]) and found.data * found.context > 1:
            found.add({"zero_stage": stage}, zero_stage=stage)


def _degrees(found: Neighbours) -> None:
    tensor, pipeline, data = found.tensor, found.pipeline, found.data
    for new in (tensor // 2, tensor * 2):
        if 1 <= new <= found.job.cluster.devices_per_node and (tensor * data) % new == 0:
            share = tensor * data // new
            held = {"expert_tensor": int(found.base.expert_tensor[0])} if found.mixture else {}
            found.add({"tensor": new, "data": share, **held}, tensor=new, data=share, sequence_parallel=int(new > 1))
    for new in (pipeline // 2, pipeline * 2):
        if new >= 1 and (pipeline * data) % new == 0 and found.virtual == 1 and not found.listed:
            share = pipeline * data // new
            found.add({"pipeline": new, "data": share}, pipeline=new, data=share)


def _chunks(found: Neighbours) -> None:
    if found.pipeline > 1 and not found.listed:
        for new in (2, 4):
            if new != found.virtual and found.layers % (found.pipeline * new) == 0:
                found.add({"virtual_pipeline": new}, virtual=new, schedule=INTERLEAVED)


def _policies(found: Neighbours) -> None:
    """Selective recomputation of the modules of the model."""
    found.problem = replace(found.problem, policies=search_policies(found.problem))
    for index, policy in enumerate(found.problem.policies):
        if policy not in (NONE, SELECTIVE, FULL) and index != int(found.base.policy[0]):
            found.add({"recompute": {"modules": sorted(policy.modules)}}, policy=index, recompute_layers=-1)


def _schedules(found: Neighbours) -> None:
    current = int(found.base.schedule[0])
    if found.pipeline == 1:
        return
    for schedule, name in enumerate(SCHEDULES):
        if schedule in (current, INTERLEAVED):
            continue
        virtual = 2 if schedule in TWO_CHUNKS else 1
        if virtual != found.virtual and found.listed:
            continue
        label = {"schedule": name} | ({"virtual_pipeline": virtual} if virtual != found.virtual else {})
        found.add(label, schedule=schedule, virtual=virtual)


def _splits(found: Neighbours) -> None:
    """A layer less on the first or the last stage, or on both."""
    if found.virtual > 1 or found.listed:
        return
    splits = list(found.problem.splits)
    for kind in SPLITS[1:]:
        split = split_of(kind, found.layers, found.pipeline)
        if split is not None and min(split) >= 0:
            splits.append(split)
            found.add({"layer_split": list(split)}, split=len(splits) - 1)
    found.problem = replace(found.problem, splits=tuple(splits))


def _groups(found: Neighbours) -> None:
    s, data, context = found.base, found.data, found.context
    if found.pipeline > 1 and data > 1:
        order = 1 - int(s.rank_order[0])
        found.add({"rank_order": RANK_ORDERS[order]}, rank_order=order)
    for new in (context // 2, context * 2):
        if new >= 1 and (context * data) % new == 0:
            share = context * data // new
            found.add({"context": new, "data": share}, context=new, data=share)
    if context > 1:
        for kind, name in enumerate(CONTEXT_KINDS):
            if name != "hybrid" and kind != int(s.context_kind[0]):
                found.add({"context_kind": name}, context_kind=kind, ulysses=1)
    if int(s.zero_stage[0]) == 3:
        near = max(found.job.cluster.devices_per_node // found.tensor, 1)
        for size in sorted({near, 4 * near, data * context}):
            if (data * context) % size == 0 and size not in (1, int(s.shard_group[0])):
                found.add({"shard_group": size}, shard_group=size)
    if found.mixture:
        expert, etp = int(s.expert[0]), int(s.expert_tensor[0])
        for new in (expert // 2, expert * 2):
            if new >= 1:
                found.add({"expert": new}, expert=new)
        for new in sorted({1, found.tensor} - {etp}):
            found.add({"expert_tensor": new}, expert_tensor=new)

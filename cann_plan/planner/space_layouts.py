"""Layouts of a job over its devices: every combination of degrees, stages, placement and rank order worth a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.stages import LOOP, chunk_sizes, placement_of
from cann_plan.cost.strategies import SCHEDULES
from cann_plan.planner.choices import VIRTUAL, Choices
from cann_plan.workload.architecture import Attention, LatentAttention, MoeFfn
from cann_plan.workload.operators.rows import CONTEXT_KINDS

Ints = NDArray[np.int64]
Split = tuple[int, ...] | None

LONG_SEQUENCE = 16384
"""Context parallelism is tried from this sequence length on."""
LEAST_TOKENS = 2048
"""Tokens a context-parallel rank holds at least."""

DEGREES = ("tensor", "context", "pipeline", "data", "expert", "expert_tensor")
INSIDE = ("context_kind", "ulysses", "sequence_parallel", "rank_order")
STAGES = ("virtual", "schedule", "split")
AXES = (*DEGREES, *INSIDE, *STAGES)

INTERLEAVED = SCHEDULES.index("interleaved")
TWO_CHUNKS = tuple(SCHEDULES.index(name) for name in ("zb-v", "dualpipe-v"))
DUALPIPE = SCHEDULES.index("dualpipe")


def divisors(number: int) -> list[int]:
    """Divisors in ascending order."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def layouts(problem: Problem, choices: Choices) -> tuple[dict[str, Ints], tuple[Split, ...]]:
    """Every layout as arrays (L,) by axis, grouped by stages, and the layer splits that `split` indexes.

    Tensor parallelism stays inside a node; context parallelism is tried for long sequences; degrees that a framework
    refuses are left out unless the plan lists them.
    """
    base = _degrees(problem, choices)
    rows = [
        (*row, *inside) for row in base for inside in _inside(problem, choices, tensor=row[0], context=row[1],
                                                             pipeline=row[2], data=row[3])
    ]  # fmt: skip
    splits: list[Split] = list(problem.splits)
    by_pipeline = {pipeline: _stages(problem, choices, pipeline, splits) for pipeline in {row[2] for row in rows}}
    counts = np.array([by_pipeline[row[2]].shape[0] for row in rows], np.int64)
    width = len(DEGREES) + len(INSIDE)
    table = np.asarray(rows, np.int64).reshape(len(rows), width)
    stages = [by_pipeline[row[2]] for row in rows]
    joined = np.concatenate(stages) if stages else np.zeros((0, len(STAGES)), np.int64)
    table = np.concatenate([np.repeat(table, counts, axis=0), joined], axis=1)
    columns = {name: table[:, index] for index, name in enumerate(AXES)}
    keys = [columns[name] for name in reversed(AXES) if name not in STAGES]
    order = np.lexsort([*keys, columns["split"], columns["schedule"], columns["virtual"], columns["pipeline"]])
    return {name: np.ascontiguousarray(values[order]) for name, values in columns.items()}, tuple(splits)


def _degrees(problem: Problem, choices: Choices) -> list[tuple[int, ...]]:
    """(tensor, context, pipeline, data, expert, expert-tensor) that multiply to the devices."""
    architecture, devices = problem.architecture, problem.devices
    heads = [kind.mixer.heads for kind in architecture.kinds if isinstance(kind.mixer, Attention | LatentAttention)]
    experts = [kind.ffn.experts for kind in architecture.kinds if isinstance(kind.ffn, MoeFfn)]
    sequence = problem.settings.sequence_length
    every = divisors(devices)
    inside = [t for t in every if t <= problem.devices_per_node and not any(h % t for h in heads)]
    long = [c for c in every if c == 1 or (sequence >= LONG_SEQUENCE and sequence // c >= LEAST_TOKENS)]
    rows: list[tuple[int, ...]] = []
    for tensor in choices.of("tensor", inside):
        for context in choices.of("context", long):
            if devices % (tensor * context):
                continue
            rest = devices // (tensor * context)
            for pipeline in choices.of("pipeline", [p for p in divisors(rest) if p <= architecture.layers]):
                if rest % pipeline:
                    continue
                data = rest // pipeline
                divides = problem.global_batch_size % data == 0 or choices.listed("data")
                if not divides or data not in choices.of("data", [data]):
                    continue
                ranks = tensor * context * data
                for expert, etp in _expert_degrees(experts, tensor, ranks, problem, choices):
                    rows.append((tensor, context, pipeline, data, expert, etp))
    return rows


def _expert_degrees(
    experts: list[int], tensor: int, ranks: int, problem: Problem, choices: Choices
) -> list[tuple[int, int]]:
    """(expert, expert-tensor) degrees on `ranks` devices per pipeline stage."""
    if not experts:
        return [(1, 1)]
    limit = ranks // tensor if problem.nested_experts else ranks
    degrees = [e for e in divisors(experts[0]) if not any(n % e for n in experts) and limit % e == 0]
    return [
        (expert, etp)
        for expert in choices.of("expert", degrees)
        for etp in choices.of("expert_tensor", {1, tensor})
        if ranks % (expert * etp) == 0 or choices.listed("expert_tensor")
    ]


def _inside(
    problem: Problem, choices: Choices, *, tensor: int, context: int, pipeline: int, data: int
) -> list[tuple[int, ...]]:
    """(context kind, Ulysses degree, sequence parallel, rank order)."""
    kinds: list[tuple[int, int]] = [(0, 1)]
    if context > 1:
        usual = range(len(CONTEXT_KINDS)) if choices.whole else (0,)
        kinds = []
        for kind in choices.of("context_kind", usual):
            if CONTEXT_KINDS[kind] == "hybrid":
                kinds += [(kind, u) for u in choices.of("ulysses", divisors(context)[1:-1])]
            else:
                kinds.append((kind, 1))
    sequence = choices.of("sequence_parallel", (0, 1) if choices.whole else (1,)) if tensor > 1 else (0,)
    both = choices.whole and pipeline > 1 and data > 1
    orders = choices.of("rank_order", (0, 1) if both else (0,))
    return [(kind, ulysses, sp, order) for kind, ulysses in kinds for sp in sequence for order in orders]


def _stages(problem: Problem, choices: Choices, pipeline: int, splits: list[Split]) -> Ints:
    """(virtual, schedule, split) of a number of stages, (V, 3); new layer splits are appended to `splits`."""
    layers = problem.architecture.layers
    if pipeline == 1:
        return np.array([[1, 0, 0]], np.int64)
    rows = []
    for schedule in choices.schedules():
        if schedule == INTERLEAVED:
            even = [v for v in VIRTUAL if v > 1 and layers % (pipeline * v) == 0]
            rows += [(v, schedule, 0) for v in choices.of("virtual", even) if v > 1]
            continue
        virtual = 2 if schedule in TWO_CHUNKS else 1
        if virtual * pipeline > layers or (schedule == DUALPIPE and pipeline % 2):
            continue
        if virtual == 1 and 1 not in choices.of("virtual", (1,)):
            continue
        placement = int(placement_of(np.array([schedule]))[0])
        kinds = choices.splits() if virtual == 1 and placement == LOOP else ("even",)
        seen: set[tuple[int, ...]] = set()
        for kind in kinds:
            split = split_of(kind, layers, pipeline)
            sizes = tuple(chunk_sizes(layers, pipeline, virtual, split, placement).tolist())
            if sizes in seen or min(sizes) < 0:
                continue
            seen.add(sizes)
            if split not in splits:
                splits.append(split)
            rows.append((virtual, schedule, splits.index(split)))
    return np.asarray(rows, np.int64).reshape(len(rows), len(STAGES))


def split_of(kind: str, layers: int, pipeline: int) -> Split:
    """Layers per stage of a kind of `SPLITS`, None for an even split: a lighter end has one layer less than the most
    an even split gives a stage, the others share the rest with the larger stages first.
    """
    if kind == "even" or pipeline < 3:
        return None
    lighter = -(-layers // pipeline) - 1
    first = lighter if kind in ("first_lighter", "both_lighter") else None
    last = lighter if kind in ("last_lighter", "both_lighter") else None
    inner = pipeline - (first is not None) - (last is not None)
    base, extra = divmod(layers - (first or 0) - (last or 0), inner)
    middle = [base + (index < extra) for index in range(inner)]
    return (*([first] if first is not None else []), *middle, *([last] if last is not None else []))


def stage_layers(problem: Problem, columns: Mapping[str, Ints], splits: Sequence[Split], scope: str) -> Ints:
    """Most layers of a stage (`scope` stage) or chunk of each layout, (L,)."""
    from cann_plan.cost.layer_table import unique_rows
    from cann_plan.cost.stages import per_rank

    names = ("pipeline", "virtual", "schedule", "split")
    if not columns["pipeline"].shape[0]:
        return np.zeros(0, np.int64)
    first, number = unique_rows([columns[name] for name in names])
    most = np.zeros(first.shape[0], np.int64)
    for index, row in enumerate(first):
        pipeline, virtual, schedule, split = (int(columns[name][row]) for name in names)
        placement = int(placement_of(np.array([schedule]))[0])
        sizes = chunk_sizes(problem.architecture.layers, pipeline, virtual, splits[split], placement)
        if scope == "stage":
            # a paired rank recomputes in each of its two chunks by itself
            sizes = per_rank(sizes, pipeline, virtual, placement if virtual > 1 else LOOP)
        most[index] = int(sizes.max())
    result: Ints = most[number]
    return result

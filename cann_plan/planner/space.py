"""The strategy space of a job: layouts over devices times inner axes, enumerated lazily in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.records import dataclass
from cann_plan.workload.architecture import Attention, LatentAttention, MoeFfn

Ints = NDArray[np.int64]

BLOCK = 16384
"""Strategies per block: small enough to stay in cache, large enough to amortise calls."""
MICRO_BATCHES = (1, 2, 4, 8, 16)
VIRTUAL = (1, 2, 3, 4, 5, 6, 8, 10, 12)
LONG_SEQUENCE = 16384
"""Context parallelism is tried from this sequence length on, or where one sequence must span devices."""


@dataclass(frozen=True, slots=True)
class Space:
    """`layouts` maps an axis to an array (B,) of its value in each base layout; `inner` to the values it takes."""

    layouts: Mapping[str, Ints]
    inner: Mapping[str, tuple[int, ...]]

    def __len__(self) -> int:
        size = self.base
        for values in self.inner.values():
            size *= len(values)
        return size

    @property
    def base(self) -> int:
        """Number of base layouts."""
        return int(next(iter(self.layouts.values())).shape[0])

    def rows(self, start: int, stop: int) -> Strategies:
        """Strategies `start` to `stop` in enumeration order (base layout slowest)."""
        index = np.arange(start, min(stop, len(self)), dtype=np.int64)
        axes: dict[str, Ints] = {}
        for name in reversed(list(self.inner)):
            values = np.asarray(self.inner[name], np.int64)
            index, place = np.divmod(index, values.shape[0])
            axes[name] = values[place]
        axes |= {name: values[index] for name, values in self.layouts.items()}
        chunks = axes["virtual"] > 1
        axes["schedule"] = np.where(chunks, SCHEDULES.index("interleaved"), axes.get("schedule", 0))
        axes["sequence_parallel"] = np.where(axes["tensor"] > 1, axes.get("sequence_parallel", 1), 0)
        return Strategies.of(**axes)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, Strategies]]:
        """(index of the first row, block) in enumeration order."""
        for start in range(0, len(self), size):
            yield start, self.rows(start, start + size)


def divisors(number: int) -> list[int]:
    """Divisors in ascending order."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def strategy_space(problem: Problem, fixed: Mapping[str, int]) -> Space:
    """Every layout a framework would start, with `fixed` axes held.

    Tensor parallelism stays inside a node; context parallelism is tried for long sequences; expert degrees divide the
    experts; virtual stages divide the layers of a stage.
    """
    architecture = problem.architecture
    heads = [kind.mixer.heads for kind in architecture.kinds if isinstance(kind.mixer, Attention | LatentAttention)]
    experts = [kind.ffn.experts for kind in architecture.kinds if isinstance(kind.ffn, MoeFfn)]
    sequence = problem.settings.sequence_length
    devices = problem.devices
    contexts = [c for c in divisors(devices) if c == 1 or (sequence >= LONG_SEQUENCE and sequence // c >= 2048)]
    rows: list[tuple[int, ...]] = []
    for tensor in divisors(devices):
        if tensor > problem.devices_per_node or any(h % tensor for h in heads):
            continue
        for context in contexts:
            if devices % (tensor * context):
                continue
            for pipeline in divisors(devices // (tensor * context)):
                if pipeline > architecture.layers:
                    break
                data = devices // (tensor * context * pipeline)
                if problem.global_batch_size % data:
                    continue
                for expert, expert_tensor in _expert_degrees(experts, tensor, tensor * context * data, problem):
                    for virtual in VIRTUAL:
                        if virtual > 1 and (pipeline == 1 or architecture.layers % (pipeline * virtual)):
                            continue
                        rows.append((tensor, pipeline, context, data, expert, expert_tensor, virtual))
    names = ("tensor", "pipeline", "context", "data", "expert", "expert_tensor", "virtual")
    table = np.asarray(rows or [(1, 1, 1, devices, 1, 1, 1)], np.int64)
    layouts = {name: table[:, index] for index, name in enumerate(names)}
    zero = (0,) if devices == 1 else (1, 3)
    inner: dict[str, tuple[int, ...]] = {
        "micro_batch_size": MICRO_BATCHES,
        "zero_stage": zero,
        "policy": (0, 1, 2) if not problem.settings.flash else (0, 2),
    }
    for name, value in fixed.items():
        inner[name] = (int(value),)
    return Space(layouts, inner)


def _expert_degrees(experts: list[int], tensor: int, ranks: int, problem: Problem) -> list[tuple[int, int]]:
    """(expert, expert-tensor) degrees on `ranks` devices per pipeline stage."""
    if not experts:
        return [(1, 1)]
    limit = ranks // tensor if problem.nested_experts else ranks
    pairs = []
    for expert in divisors(experts[0]):
        if any(count % expert for count in experts) or limit % expert:
            continue
        pairs += [(expert, etp) for etp in sorted({1, tensor}) if ranks % (expert * etp) == 0]
    return pairs

"""Search of a strategy space through the same `evaluate` as an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import REASONS
from cann_plan.planner.evaluate import DOES_NOT_FIT, Evaluation, evaluate

Progress = Callable[[int, int], None]


class Space(Protocol):
    """What a search goes through: a number of strategies in blocks."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterable[tuple[int, Strategies]]:
        """(index of the first row, block) in enumeration order."""
        ...


@dataclass(slots=True)
class Found:
    """Outcome of a search: the best rows, how many were looked at, and why the others failed.

    `closest`: where nothing fits, the row that needs least memory beyond what the device has.
    """

    best: list[Strategies] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    evaluated: int = 0
    feasible: int = 0
    infeasible: dict[str, int] = field(default_factory=dict)
    closest: Strategies | None = None
    closest_bytes: float = float("inf")


def mechanisms(strategies: Strategies) -> NDArray[np.int64]:
    """How many mechanisms a strategy switches on, (N,): ties go to the simpler plan."""
    s = strategies
    flags = (s.tensor > 1, s.pipeline > 1, s.context > 1, s.expert > 1, s.virtual > 1, s.policy > 0, s.zero_stage > 1)
    count = np.zeros(len(s), np.int64)
    for flag in flags:
        count = count + flag
    return count


def search(problem: Problem, space: Space, top: int = 1, on_progress: Progress | None = None) -> Found:
    """The `top` fastest feasible strategies; ties by fewer mechanisms, then by enumeration order."""
    found = Found()
    pool: list[tuple[float, int, int, Strategies]] = []
    total = len(space)
    for start, block in space.blocks():
        result = evaluate(problem, block)
        _count(found, result)
        rows = np.flatnonzero(result.feasible)
        if rows.shape[0]:
            order = np.lexsort((rows, mechanisms(block)[rows], result.step[rows]))[:top]
            for row in rows[order]:
                single = block.take(np.array([row]))
                pool.append((float(result.step[row]), int(mechanisms(single)[0]), start + int(row), single))
            pool = sorted(pool, key=lambda item: item[:3])[:top]
        _closest(found, block, result)
        if on_progress is not None:
            on_progress(min(start + len(block), total), total)
    found.best = [item[3] for item in pool]
    found.steps = [item[0] for item in pool]
    return found


def _count(found: Found, result: Evaluation) -> None:
    reasons, counts = np.unique(result.reason, return_counts=True)
    for code, number in zip(reasons.tolist(), counts.tolist(), strict=True):
        if code == 0:
            found.feasible += number
        else:
            name = REASONS[code]
            found.infeasible[name] = found.infeasible.get(name, 0) + number
        found.evaluated += number


def _closest(found: Found, block: Strategies, result: Evaluation) -> None:
    short = np.flatnonzero(result.reason == DOES_NOT_FIT)
    if short.shape[0]:
        row = short[np.argmin(result.device_bytes[short])]
        if result.device_bytes[row] < found.closest_bytes:
            found.closest_bytes = float(result.device_bytes[row])
            found.closest = block.take(np.array([row]))

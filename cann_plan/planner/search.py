"""Search of a strategy space through the same cost models as an estimate, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.layer_block import LayerIndex
from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import REASONS
from cann_plan.planner.evaluate import DOES_NOT_FIT, score
from cann_plan.planner.front import Front
from cann_plan.planner.objective import TIME, Objective
from cann_plan.planner.pairs import Pairs, pairs_of
from cann_plan.planner.space import BLOCK, Space

Progress = Callable[[int, int], None]
Ints = NDArray[np.int64]

WORTH_WORKERS = 200_000
"""Strategies from which starting processes pays."""


LAYERS_AT_ONCE = 40_000
"""Combinations of layer axes up to which one layer table (some 4 kB each) serves the whole search."""
WITHOUT_LAYERS = 8
"""Blocks are so many times larger where each works out its own layer table."""
SAMPLE = 4096
"""Strategies, spread evenly over a space, whose best give a search its first limit."""


class Blocks(Protocol):
    """What can be gone through: a number of strategies in blocks."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterable[tuple[int, Strategies]]:
        """(index of the first row, block) in enumeration order."""
        ...


@dataclass(slots=True)
class Found:
    """Outcome of a search: the best rows, how many were looked at, and why the others failed.

    `best`, `index`, `steps`: layouts, their numbers in the space and their step times, best first. `closest`: where
    nothing fits, the row that needs least memory beyond what the device has. `better`: feasible rows with a step time
    below the one asked about.
    """

    best: list[Strategies] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    evaluated: int = 0
    feasible: int = 0
    infeasible: dict[str, int] = field(default_factory=dict)
    closest: Strategies | None = None
    closest_bytes: float = float("inf")
    better: int = 0


@dataclass(slots=True)
class Part:
    """What one stretch of a space contributes: counts by reason, the best rows, the row that needs least memory."""

    counts: Ints
    front: Front
    closest: tuple[float, int] = (float("inf"), -1)
    better: int = 0

    def add(self, other: Part) -> None:
        """Take in another stretch; the order does not matter."""
        self.counts = self.counts + other.counts
        self.front.merge(other.front)
        self.closest = min(self.closest, other.closest)
        self.better += other.better


@dataclass(frozen=True, slots=True)
class Question:
    """A search as its workers see it: `than` is the step time that `Found.better` counts below.

    `limit` holds one number, a step time that `top` feasible strategies reach: where time alone counts, slower ones
    need not be worked out. Every process lowers its own.
    """

    space: Space
    layers: LayerIndex | None
    objectives: tuple[Objective, ...]
    top: int
    than: float
    limit: list[float] = field(default_factory=lambda: [float("inf")])

    def part(self, start: int, stop: int) -> Part:
        """Answer for strategies `start` to `stop`."""
        pairs = self.space.pairs(start, stop)
        scores = score(self.space.problem, pairs, self.layers, max(self.limit[0], self.than))
        rows = np.flatnonzero(scores.feasible)
        front = Front(self.top, len(self.objectives))
        values = np.stack([objective.values(scores, rows) for objective in self.objectives])
        kept = front.candidates(values)
        front.add(values[:, kept], mechanisms(pairs, rows[kept]), start + rows[kept], scores.step[rows[kept]])
        if self.objectives == (TIME,) and len(front.steps) == self.top:
            self.limit[0] = min(self.limit[0], float(front.steps[-1]))
        short = np.flatnonzero(scores.reason == DOES_NOT_FIT)
        closest = (float("inf"), -1)
        if short.shape[0]:
            least = int(short[np.argmin(scores.device_bytes[short])])
            closest = (float(scores.device_bytes[least]), start + least)
        better = int((scores.step[rows] < self.than).sum())
        return Part(np.bincount(scores.reason, minlength=len(REASONS)), front, closest, better)


def mechanisms(pairs: Pairs, rows: Ints) -> Ints:
    """How many mechanisms strategies switch on, (n,): ties go to the simpler plan."""
    s = pairs.strategies(rows)
    count = np.zeros(rows.shape[0], np.int64) + s.zero_stage
    for flag in (
        s.tensor > 1, s.pipeline > 1, s.context > 1, s.context_kind > 0, s.expert > 1, s.expert_tensor > 1,
        s.virtual > 1, s.schedule > 0, s.policy > 0, s.recompute_layers >= 0, s.sequence_parallel > 0,
        s.shard_group > 0, s.split > 0, s.rank_order > 0,
    ):  # fmt: skip
        count = count + flag
    return count


def search(
    space: Space, top: int = 1, on_progress: Progress | None = None, *,
    objectives: tuple[Objective, ...] = (TIME,), than: float = 0.0, workers: int | None = None, block: int = BLOCK,
) -> Found:  # fmt: skip
    """The `top` best feasible strategies by one objective, or those that no other beats in two.

    Ties go to fewer mechanisms, then to the order of the space. The outcome does not depend on the number of `workers`
    (default: the cores, for spaces worth it) or the size of a `block`.
    """
    found = Found()
    if not len(space):
        return found
    combinations = space.layers()
    layers = LayerIndex(space.problem, combinations) if len(combinations) <= LAYERS_AT_ONCE else None
    if layers is None and block == BLOCK:
        block *= WITHOUT_LAYERS
    question = Question(space, layers, objectives, top, than)
    if objectives == (TIME,) and len(space) > 4 * SAMPLE:
        question.limit[0] = _reached(space, layers, top)
    spans = space.spans(block)
    whole = Part(np.zeros(len(REASONS), np.int64), Front(top, len(objectives)))
    done = 0
    for span, part in _answers(question, spans, workers):
        whole.add(part)
        done += span[1] - span[0]
        if on_progress is not None:
            on_progress(done, len(space))
    for index, step in whole.front.ranked():
        found.best.append(space.rows(index, index + 1))
        found.index.append(index)
        found.steps.append(step)
    found.evaluated, found.feasible = int(whole.counts.sum()), int(whole.counts[0])
    found.infeasible = {REASONS[code]: int(n) for code, n in enumerate(whole.counts) if code and n}
    if whole.closest[1] >= 0:
        found.closest_bytes = whole.closest[0]
        found.closest = space.rows(whole.closest[1], whole.closest[1] + 1)
    found.better = whole.better
    return found


def _reached(space: Space, layers: LayerIndex | None, top: int) -> float:
    """A step time that `top` feasible strategies of a sample reach; infinite where the sample has too few."""
    index = np.arange(SAMPLE) * (len(space) // SAMPLE)
    pairs = pairs_of(space.at(index))
    steps = np.sort(score(space.problem, pairs, layers).step)
    reached = steps[np.isfinite(steps)]
    return float(reached[top - 1]) if reached.shape[0] >= top else float("inf")


def _answers(
    question: Question, spans: list[tuple[int, int]], workers: int | None
) -> Iterable[tuple[tuple[int, int], Part]]:
    """Every stretch with its part, in any order."""
    from cann_plan.planner.workers import cores, spread

    count = min(workers if workers is not None else cores(), len(spans))
    if count > 1 and (workers is not None or len(question.space) >= WORTH_WORKERS):
        return spread(question.part, spans, count)
    return ((span, question.part(*span)) for span in spans)

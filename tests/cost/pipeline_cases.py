"""Random realistic pipelines on which the closed forms are compared with the simulator."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cann_plan.cost.pipeline_orders import Schedule, chunks_per_stage

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """One pipeline: arrays of (p*v,) seconds in model order."""

    schedule: Schedule
    stages: int
    virtual: int
    micro_batches: int
    forward: Floats
    backward: Floats  # whole backward, or the gradient of the input
    backward_weight: Floats | None
    send: float


def random_cases(schedule: Schedule, number: int, seed: int, largest_stages: int = 64) -> Iterator[Case]:
    """Stages 2 to `largest_stages` (log-uniform), micro-batches 1 to 8p, 1 to 16 layers a chunk.

    First and last chunk weigh 0.3 to 2.5 of a middle one (embedding, head); some chunks have a remainder layer; the
    backward takes twice the forward, or three times with full recompute; a send takes 0 to 10% of a chunk's slot.
    """
    rng = np.random.default_rng(seed)
    for _ in range(number):
        yield _random_case(schedule, rng, largest_stages)


def _random_case(schedule: Schedule, rng: np.random.Generator, largest: int) -> Case:
    p = int(np.exp(rng.uniform(np.log(2), np.log(largest + 1))))
    m = int(rng.integers(1, 8 * p + 1))
    v = int(rng.integers(1, 9)) if schedule is Schedule.INTERLEAVED else chunks_per_stage(schedule, 1)
    if schedule is Schedule.INTERLEAVED:
        m = p * int(rng.integers(1, 9))
    if schedule in (Schedule.DUALPIPE, Schedule.DUALPIPE_V):
        p += p % 2
        m = 2 * int(rng.integers(p, 4 * p + 1))
    layers = np.full(p * v, float(rng.integers(1, 17)))
    if rng.random() < 0.5:
        layers[rng.permutation(p * v)[: rng.integers(0, p * v)]] += 1.0
    layers *= np.exp(rng.normal(0.0, 0.01, p * v)) if rng.random() < 0.3 else 1.0
    middle = float(np.median(layers))
    if rng.random() < 0.85:
        layers[0] = middle * rng.uniform(0.3, 2.5)
        layers[-1] = middle * rng.uniform(0.3, 2.5)
    recompute = rng.random() < 0.4
    forward = layers * 1e-3
    weight = forward * rng.uniform(0.8, 1.1)
    gradient = forward * (rng.uniform(0.9, 1.3) + float(recompute))
    if rng.random() < 0.5:  # embedding and head have another ratio of backward to forward
        gradient[[0, -1]] *= rng.uniform(0.7, 1.3, 2)
    slot = middle * 1e-3 * (3.0 + float(recompute))
    send = 0.0 if rng.random() < 0.25 else slot * rng.uniform(0.0, 0.1)
    if schedule.splits_backward:
        return Case(schedule, p, v, m, forward, gradient, weight, send)
    return Case(schedule, p, v, m, forward, gradient + weight, None, send)

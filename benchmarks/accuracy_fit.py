"""The joint calibration with its cross-validations and the studies that show what it is worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy_workers import Sample, Workers
from cann_plan.planner import calibrate_hierarchy as hierarchy

Array = NDArray[np.float64]
VERIFIED = 2
"""Groups whose linear refit is checked against a full one."""
SHARE_KEPT, DRAWS = 0.8, 5
"""Share of groups kept and number of draws of the stability study."""
SEED = 20240607


@dataclass(frozen=True, slots=True)
class Result:
    """Log errors (predicted over measured) of all samples by how they were made.

    `prior`: nothing fitted; `shipped`: the profiles as they were; `in`: fitted on all runs (runs that may not be
    fitted are predicted with the same parameters); `group`, `pair`, `stack`: fitted on the runs of other (source,
    model) groups, other (device, stack) pairs, other stacks; `constant`, `constant_group`: one MFU per pair.
    """

    samples: list[Sample]
    fitted: NDArray[np.int64]
    joint: hierarchy.Joint
    errors: dict[str, Array]


def calibrate(workers: Workers) -> Result:
    samples = workers.samples
    fitted = np.flatnonzero([sample.fitted for sample in samples])
    chosen = [samples[i] for i in fitted]
    observations = [sample.observation for sample in chosen]
    base = np.array([sample.base for sample in chosen])
    slopes = np.array([sample.slopes for sample in chosen])
    joint = hierarchy.fit(observations, base, slopes, lambda thetas: workers.predict(thetas, fitted))
    log = np.log([sample.observation.measured for sample in samples])
    everywhere = [joint.posterior.theta(sample.place) for sample in samples]
    errors = {
        "prior": np.array([sample.base for sample in samples]) - log,
        "shipped": np.log([sample.shipped_s for sample in samples]) - log,
        "in": workers.predict(everywhere) - log,
    }
    folds = {
        "group": [item.group for item in observations],
        "pair": [f"{item.place.device} {item.place.stack}" for item in observations],
        "stack": [str(item.place.stack) for item in observations],
    }
    for name, fold in folds.items():
        thetas = list(everywhere)
        for i, theta in zip(fitted, hierarchy.left_out(joint, fold), strict=True):
            thetas[int(i)] = theta
        errors[name] = workers.predict(thetas) - log
    errors["constant"], errors["constant_group"] = _constants(samples, fitted)
    return Result(samples, fitted, joint, errors)


def _constants(samples: Sequence[Sample], fitted: NDArray[np.int64]) -> tuple[Array, Array]:
    """Errors of the simplest model there is: one MFU per device and stack, in sample and left out by group.

    A group that is its pair's only one gets the median MFU of all others.
    """
    ratio = np.array([np.log(s.flop_s / s.observation.measured) for s in samples])  # log MFU
    places = [s.place for s in samples]
    groups = [s.observation.group for s in samples]
    inside, outside = np.zeros(len(samples)), np.zeros(len(samples))
    everything = float(np.median(ratio[fitted]))
    for i in range(len(samples)):
        peers = [int(j) for j in fitted if places[j] == places[i]]
        inside[i] = ratio[i] - (np.median(ratio[peers]) if peers else everything)
        others = [j for j in peers if groups[j] != groups[i]]
        outside[i] = ratio[i] - (np.median(ratio[others]) if others else everything)
    return inside, outside


def without_source(result: Result, workers: Workers, word: str) -> tuple[list[Sample], Array]:
    """Runs whose id starts with `word`, predicted with parameters fitted on no run of that source."""
    gone = np.array([result.samples[i].id.startswith(word) for i in result.fitted])
    part = hierarchy.without(result.joint, gone)
    index = [i for i, sample in enumerate(result.samples) if sample.id.startswith(word)]
    samples = [result.samples[i] for i in index]
    log = np.log([sample.observation.measured for sample in samples])
    return samples, workers.predict([part.theta(sample.place) for sample in samples], index) - log


def verify_refits(result: Result, workers: Workers) -> list[tuple[str, int, float, float]]:
    """(group, runs, mean |error| by the linear refit, by a full refit) of the largest groups."""
    samples = [result.samples[i] for i in result.fitted]
    names = np.array([sample.observation.group for sample in samples])
    sizes = {name: int((names == name).sum()) for name in np.unique(names)}
    found = []
    for name in sorted(sizes, key=lambda item: -sizes[item])[:VERIFIED]:
        keep = np.flatnonzero(names != name)
        left = np.flatnonzero(names == name)
        part = [samples[i] for i in keep]
        index = result.fitted[keep]
        full = hierarchy.fit(
            [s.observation for s in part], np.array([s.base for s in part]), np.array([s.slopes for s in part]),
            lambda thetas, index=index: workers.predict(thetas, index),
        )  # fmt: skip
        at = result.fitted[left]
        log = np.log([samples[i].observation.measured for i in left])
        errors = workers.predict([full.posterior.theta(samples[i].place) for i in left], at) - log
        linear = result.errors["group"][at]
        found.append((str(name), len(left), _mape(linear), _mape(errors)))
    return found


def stability(result: Result, workers: Workers) -> Array:
    """|change| of the predictions of runs left out when a random 80% of the groups is fitted, against fitting all."""
    samples = [result.samples[i] for i in result.fitted]
    names = np.array([sample.observation.group for sample in samples])
    distinct = np.unique(names)
    generator = np.random.default_rng(SEED)
    moved = []
    for _ in range(DRAWS):
        kept = generator.choice(distinct, round(SHARE_KEPT * len(distinct)), replace=False)
        gone = ~np.isin(names, kept)
        part = hierarchy.without(result.joint, gone)
        left = np.flatnonzero(gone)
        index = result.fitted[left]
        now = workers.predict([part.theta(samples[i].place) for i in left], index)
        log = np.log([samples[i].observation.measured for i in left])
        moved.append(np.abs(np.exp(now - log - result.errors["in"][index]) - 1.0))
    return np.concatenate(moved)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Layouts of one model on one number of devices at one batch: does the predicted order match the measured one?

    `tau`: Kendall's rank correlation; `regret`: measured time of the layout predicted fastest over the fastest's, - 1.
    """

    model: str
    stack: str
    devices: int
    batch: int
    layouts: int
    tau: float
    regret: float
    chosen: str
    best: str


def rankings(result: Result, least: int = 5) -> list[Ranking]:
    """Every set of at least `least` layouts, with the runs of its model left out of the fit."""
    sets: dict[tuple[str, str, str, int, int, int], list[int]] = defaultdict(list)
    for i in result.fitted:
        s = result.samples[i]
        key = (s.observation.group, str(s.place.device), str(s.place.stack), s.devices, s.global_batch_size,
               s.sequence_length)  # fmt: skip
        sets[key].append(int(i))
    found = []
    for (_, _, stack, devices, batch, _), members in sets.items():
        by_layout: dict[str, list[int]] = defaultdict(list)
        for i in members:
            by_layout[result.samples[i].observation.configuration].append(i)
        if len(by_layout) < least:
            continue
        log = {i: float(np.log(result.samples[i].observation.measured)) for i in members}
        measured = np.array([np.mean([log[i] for i in v]) for v in by_layout.values()])
        predicted = np.array([np.mean([result.errors["group"][i] + log[i] for i in v]) for v in by_layout.values()])
        names = [result.samples[v[0]].layout for v in by_layout.values()]
        pick, best = int(predicted.argmin()), int(measured.argmin())
        regret = float(np.exp(measured[pick] - measured[best]) - 1.0)
        model = result.samples[members[0]].model
        tau = kendall(predicted, measured)
        found.append(Ranking(model, stack, devices, batch, len(names), tau, regret, names[pick], names[best]))
    return sorted(found, key=lambda item: -item.layouts)


def kendall(one: Array, other: Array) -> float:
    """Kendall's tau-a."""
    i, j = np.triu_indices(one.shape[0], 1)
    return float(np.mean(np.sign(one[i] - one[j]) * np.sign(other[i] - other[j])))


def _mape(errors: Array) -> float:
    return float(np.abs(np.exp(errors) - 1.0).mean())

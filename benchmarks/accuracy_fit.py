"""The joint calibration with its cross-validations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy_workers import Sample, Workers
from cann_plan.planner import calibrate_hierarchy as hierarchy

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Result:
    """Log errors (predicted over measured) by how they were made: prior, shipped, in (sample), and left out by group,
    pair (device and stack) and stack.
    """

    samples: list[Sample]
    joint: hierarchy.Joint
    errors: dict[str, Array]


def calibrate(workers: Workers) -> Result:
    samples = workers.samples
    observations = [sample.observation for sample in samples]
    base = np.array([sample.base for sample in samples])
    slopes = np.array([sample.slopes for sample in samples])
    measured = np.log([item.measured for item in observations])
    joint = hierarchy.fit(observations, base, slopes, workers.predict)
    shipped = np.log([sample.shipped_s for sample in samples])
    errors = {"prior": base - measured, "shipped": shipped - measured, "in": joint.errors}
    folds = {
        "group": [item.group for item in observations],
        "pair": [f"{item.place.device} {item.place.stack}" for item in observations],
        "stack": [str(item.place.stack) for item in observations],
    }
    for name, fold in folds.items():
        errors[name] = workers.predict(hierarchy.left_out(joint, fold)) - measured
    return Result(samples, joint, errors)

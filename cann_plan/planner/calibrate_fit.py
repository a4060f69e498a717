"""Robust maximum-a-posteriori fit of a stack's parameters on measured step times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cann_plan.planner.calibrate_model import PARAMETERS
from cann_plan.records import dataclass

Array = NDArray[np.float64]
Predict = Callable[[int, Array], float]
"""(index of a run, parameter values) -> predicted step time in seconds."""

NOISE = 0.06
"""Log standard deviation of repeated runs of one configuration (6% in the median between dates)."""
SOFT = 1.5
"""Residuals beyond this many standard deviations count linearly (soft-L1)."""
STEP = 0.02
"""Relative step of the numerical derivative."""
MOVES = 0.005
"""A parameter whose prior spread moves predictions by less than this (root mean square) is left at its prior."""


MOST_ACTIVE = 4
"""Parameters a fit may move: more buy nothing under cross-validation."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameter values (profile units), their log standard deviations, which the data moved, residuals of all runs."""

    values: Array
    log_sigmas: Array
    identified: tuple[bool, ...]
    residuals: Array  # log(predicted / measured)
    jacobian: Array  # d log predicted / d log parameter, (runs, parameters)


def fit(measured: Array, weights: Array, predict: Predict, prior: Array | None = None) -> Fit:
    """Gauss-Newton on log errors with log-normal priors and iteratively re-weighted soft-L1 loss.

    The first parameter and up to three others, those whose priors' spread moves the predictions most, are fitted; the
    rest stay at their priors. measured: (n,) seconds; weights: (n,), 1 for one independent observation.
    """
    mean = np.log(prior if prior is not None else np.array([p.prior for p in PARAMETERS]))
    sigma = np.array([p.log_sigma for p in PARAMETERS])
    low = np.log([p.low for p in PARAMETERS])
    high = np.log([p.high for p in PARAMETERS])
    theta = mean.copy()
    target = np.log(measured)
    jacobian = np.zeros((measured.shape[0], theta.shape[0]))
    predicted = _predict_all(predict, theta, measured.shape[0])
    precision = np.diag(1.0 / sigma**2)
    active = _active(_jacobian(predict, theta, predicted), sigma, weights)
    for _ in range(6):
        jacobian = _jacobian(predict, theta, predicted) * active
        residual = predicted - target
        scaled = residual / NOISE
        robust = weights / NOISE**2 / np.sqrt(1.0 + (scaled / SOFT) ** 2)
        hessian = np.einsum("ni,n,nj->ij", jacobian, robust, jacobian) + np.diag(1.0 / sigma**2)
        gradient = np.einsum("ni,n,n->i", jacobian, robust, residual) + (theta - mean) / sigma**2
        change = np.clip(-np.linalg.solve(hessian, gradient), -0.3, 0.3)
        theta = np.clip(theta + change, low, high)
        predicted = _predict_all(predict, theta, measured.shape[0])
        precision = hessian
        if np.abs(change).max() < 2e-3:
            break
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    identified = tuple(bool(v) for v in active > 0.0)
    return Fit(np.exp(theta), spread, identified, predicted - target, jacobian)


def _active(jacobian: Array, sigma: Array, weights: Array) -> Array:
    """1 for parameters that are fitted, 0 for those left at their priors, (k,)."""
    moved = np.sqrt(np.einsum("ni,n->i", jacobian**2, weights) / weights.sum()) * sigma
    moved[0] = np.inf
    order = np.argsort(-moved)[:MOST_ACTIVE]
    chosen = np.zeros(moved.shape[0])
    chosen[order] = (moved[order] > MOVES).astype(np.float64)
    return chosen


def refit_without(full: Fit, measured: Array, weights: Array, left_out: NDArray[np.bool_], prior: Array) -> Array:
    """Log errors of the runs left out when fitted on the others, from the full fit's derivatives.

    One linear step from the full optimum: exact where predictions are log-linear in the parameters, which small
    changes of them are. Returns residuals of the runs in `left_out`, in order.
    """
    mean, sigma = np.log(prior), np.array([p.log_sigma for p in PARAMETERS])
    low = np.log([p.low for p in PARAMETERS])
    high = np.log([p.high for p in PARAMETERS])
    start = np.log(full.values)
    keep = ~left_out
    jacobian, residual = full.jacobian[keep], full.residuals[keep]
    theta = start.copy()
    for _ in range(4):
        current = residual + np.einsum("ni,i->n", jacobian, theta - start)
        robust = weights[keep] / NOISE**2 / np.sqrt(1.0 + (current / NOISE / SOFT) ** 2)
        hessian = np.einsum("ni,n,nj->ij", jacobian, robust, jacobian) + np.diag(1.0 / sigma**2)
        gradient = np.einsum("ni,n,n->i", jacobian, robust, current) + (theta - mean) / sigma**2
        theta = np.clip(theta - np.linalg.solve(hessian, gradient), low, high)
    moved: Array = full.residuals[left_out] + np.einsum("ni,i->n", full.jacobian[left_out], theta - start)
    return moved


def _predict_all(predict: Predict, theta: Array, runs: int) -> Array:
    values = np.exp(theta)
    return np.log(np.array([predict(index, values) for index in range(runs)]))


def _jacobian(predict: Predict, theta: Array, base: Array) -> Array:
    columns = []
    for index in range(theta.shape[0]):
        moved = theta.copy()
        moved[index] += STEP
        columns.append((_predict_all(predict, moved, base.shape[0]) - base) / STEP)
    return np.stack(columns, axis=1)


def cluster_weights(keys: Sequence[object]) -> Array:
    """1 / (number of runs of the same configuration) for each run, so that a configuration counts once."""
    counts: dict[object, int] = {}
    for item in keys:
        counts[item] = counts.get(item, 0) + 1
    return np.array([1.0 / counts[item] for item in keys])

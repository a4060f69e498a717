"""Joint calibration of many devices and stacks: what a pair has too few runs to show, its kin lend it.

The log parameters of every (device, stack) pair are one Gaussian field: a common mean plus independent deviations of
the device's family, the device, the stack, and the pair (a hierarchical, or mixed-effects, model; Gelman and Hill 2007,
chapters 11 to 13; computed in run space, Rasmussen and Williams 2006, chapter 2). Runs of one source and model share an
error of their own, so that a model with many published runs does not outvote the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cann_plan.planner.calibrate_model import PARAMETERS, prior_values
from cann_plan.records import dataclass

Array = NDArray[np.float64]

NOISE = 0.06
"""Log standard deviation of repeated runs of one configuration (6% in the median between dates)."""
SOFT = 1.5
"""Errors beyond this many standard deviations count linearly (soft-L1)."""
MODEL_ERROR = 0.06
"""Log standard deviation of what all runs of one model from one source share: what the cost models miss about it."""
CONFIGURATION_ERROR = 0.03
"""The same of one configuration."""
SHARES = {"all": 0.75, "family": 0.6, "device": 0.45, "stack": 1.05, "pair": 0.75}
"""Standard deviation of each level of kinship over the parameter's own (`Parameter.log_sigma`). Chosen by the marginal
likelihood of the public runs; half and twice these values change cross-validated errors by 0.2 points."""
MOST_ACTIVE = 4
"""Parameters the runs of one pair may move."""
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where parameters apply. None: unknown, so nothing is shared at that level."""

    device: str | None
    family: str | None
    stack: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One run: where it ran, what it measured [s], which runs share an error with it."""

    place: Place
    measured: float
    group: str
    configuration: str


@dataclass(frozen=True, slots=True)
class Prior:
    """Mean of the log parameters everywhere, and the scale of their deviations, both (k,)."""

    mean: Array
    sigma: Array


PRIOR = Prior(np.log(prior_values()), np.array([parameter.log_sigma for parameter in PARAMETERS]))
LOW = np.log([parameter.low for parameter in PARAMETERS])
HIGH = np.log([parameter.high for parameter in PARAMETERS])


@dataclass(frozen=True, slots=True)
class Posterior:
    """Linearised field given runs: `weights` (n,) of the runs, `jacobian` (n, k) with inactive parameters zero."""

    prior: Prior
    observations: tuple[Observation, ...]
    jacobian: Array
    weights: Array
    information: Array  # (n, n) inverse of the covariance of the runs' errors

    def theta(self, place: Place) -> Array:
        """Log parameters at a place, (k,), within their bounds."""
        lent = np.array([kinship(place, other.place) for other in self.observations])
        moved = np.einsum("n,nk,n->k", lent, self.jacobian, self.weights) * self.prior.sigma**2
        theta: Array = np.clip(self.prior.mean + moved, LOW, HIGH)
        return theta

    def spread(self, place: Place) -> Array:
        """Posterior log standard deviation of each parameter at a place, (k,)."""
        lent = np.array([kinship(place, other.place) for other in self.observations])
        rows = lent[:, None] * self.jacobian * self.prior.sigma**2
        prior = kinship(place, place) * self.prior.sigma**2
        known = np.einsum("nk,nm,mk->k", rows, self.information, rows)
        spread: Array = np.sqrt(np.maximum(prior - known, 0.0))
        return spread


def kinship(one: Place, other: Place) -> float:
    """Prior covariance of a parameter at two places over its own variance."""
    device = one.device is not None and one.device == other.device
    stack = one.stack is not None and one.stack == other.stack
    total = SHARES["all"] ** 2
    if one.family is not None and one.family == other.family:
        total += SHARES["family"] ** 2
    if device:
        total += SHARES["device"] ** 2
    if stack:
        total += SHARES["stack"] ** 2
    return total + SHARES["pair"] ** 2 if device and stack else total


def active(observations: Sequence[Observation], jacobian: Array, prior: Prior = PRIOR) -> Array:
    """1 for the parameters that the runs of their pair may move, else 0, (n, k)."""
    chosen = np.zeros(jacobian.shape)
    places = [item.place for item in observations]
    for place in set(places):
        mine = np.array([other == place for other in places])
        moved = np.sqrt(np.mean(jacobian[mine] ** 2, axis=0)) * prior.sigma
        moved[0] = np.inf
        for index in np.argsort(-moved)[:MOST_ACTIVE]:
            chosen[mine, index] = float(moved[index] > 0.0)
    return chosen


def posterior(
    observations: Sequence[Observation], jacobian: Array, error: Array, covariance: Array, prior: Prior = PRIOR
) -> Posterior:
    """The field given runs.

    error: (n,) log(predicted / measured) as linearised at the prior mean; covariance: (n, n) of `run_covariance`.
    """
    count = error.shape[0]
    trust = np.ones(count)
    weights: Array = np.zeros(count)
    information: Array = np.zeros((count, count))
    for _ in range(5):  # soft-L1 by re-weighting
        information = np.asarray(np.linalg.inv(covariance + np.diag(NOISE**2 / trust)), np.float64)
        weights = np.einsum("nm,m->n", information, -error)
        left = NOISE / trust * weights
        trust = 1.0 / np.sqrt(1.0 + (left / SOFT) ** 2)
    return Posterior(prior, tuple(observations), jacobian, weights, information)


def run_covariance(observations: Sequence[Observation], jacobian: Array, prior: Prior = PRIOR) -> Array:
    """Prior covariance of the runs' log errors without repeat noise, (n, n)."""
    places = [item.place for item in observations]
    distinct = list(dict.fromkeys(places))
    lent = np.array([[kinship(one, other) for other in distinct] for one in distinct])
    at = np.array([distinct.index(place) for place in places])
    field: Array = lent[np.ix_(at, at)] * np.einsum("nk,mk->nm", jacobian * prior.sigma, jacobian * prior.sigma)
    model = _shared(observations, "group", MODEL_ERROR)
    return field + model + _shared(observations, "configuration", CONFIGURATION_ERROR)


def _shared(observations: Sequence[Observation], key: str, sigma: float) -> Array:
    names = np.array([repr((getattr(item, key), item.place)) for item in observations])
    shared: Array = sigma**2 * (names[:, None] == names[None, :]).astype(np.float64)
    return shared


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint fit: its posterior, each run's log error, and what a refit without some runs needs."""

    posterior: Posterior
    linear_error: Array  # (n,) error at the prior mean by the derivatives at the optimum
    covariance: Array
    errors: Array  # (n,) log(predicted / measured) at the optimum
    active: Array  # (n, k)


Predict = Callable[[list[Array]], Array]
"""Log parameters of every run -> log predicted step time, (n,)."""


def fit(
    observations: Sequence[Observation], base: Array, slopes: Array, predict: Predict, prior: Prior = PRIOR
) -> Joint:
    """Gauss-Newton from the prior mean. base (n,), slopes (n, k): log prediction and derivatives there.

    Derivatives are kept up to date by Broyden's rule from the predictions of each round.
    """
    measured = np.log([item.measured for item in observations])
    chosen = active(observations, slopes, prior)
    theta = np.tile(prior.mean, (len(observations), 1))
    predicted, slopes = base, slopes.copy()
    touched = slopes != 0.0
    for _ in range(ROUNDS):
        field = _solve(observations, slopes * chosen, predicted - measured, theta, prior)[0]
        moved = _thetas(field, observations) - theta
        after = predict(list(theta + moved))
        length = np.maximum(np.einsum("nk,nk->n", moved, moved), 1e-12)
        missed = after - predicted - np.einsum("nk,nk->n", slopes, moved)
        slopes = slopes + np.where(touched, missed[:, None] * moved / length[:, None], 0.0)
        theta, predicted = theta + moved, after
    field, error, covariance = _solve(observations, slopes * chosen, predicted - measured, theta, prior)
    return Joint(field, error, covariance, predicted - measured, chosen)


def _solve(
    observations: Sequence[Observation], jacobian: Array, error: Array, theta: Array, prior: Prior
) -> tuple[Posterior, Array, Array]:
    """Field, errors linearised at the prior mean, and covariance, from errors at `theta`."""
    at_mean = error - np.einsum("nk,nk->n", jacobian, theta - prior.mean)
    covariance = run_covariance(observations, jacobian, prior)
    return posterior(observations, jacobian, at_mean, covariance, prior), at_mean, covariance


def _thetas(field: Posterior, observations: Sequence[Observation]) -> Array:
    found = {place: field.theta(place) for place in {item.place for item in observations}}
    return np.array([found[item.place] for item in observations])


def left_out(joint: Joint, folds: Sequence[str]) -> list[Array]:
    """Log parameters for every run when all runs of its fold are left out, one (k,) array per run.

    Every fold refits the whole field on the other runs, from the derivatives at the full optimum.
    """
    names = np.array(folds)
    result: list[Array] = [joint.posterior.prior.mean] * names.shape[0]
    for fold in np.unique(names):
        part = without(joint, names == fold)
        for index in np.flatnonzero(names == fold):
            result[int(index)] = part.theta(joint.posterior.observations[int(index)].place)
    return result


def without(joint: Joint, gone: NDArray[np.bool_]) -> Posterior:
    """The field refitted without some runs, from the derivatives at the full optimum."""
    field, keep = joint.posterior, np.flatnonzero(~gone)
    return posterior(
        [field.observations[i] for i in keep], field.jacobian[keep], joint.linear_error[keep],
        joint.covariance[np.ix_(keep, keep)], field.prior,
    )  # fmt: skip


def configuration_weights(observations: Sequence[Observation]) -> Array:
    """1 / (number of runs of the same configuration at the same place), so that a configuration counts once."""
    keys = [(item.place, item.configuration) for item in observations]
    counts: dict[object, int] = {}
    for item in keys:
        counts[item] = counts.get(item, 0) + 1
    return np.array([1.0 / counts[item] for item in keys])

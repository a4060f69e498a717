"""Calibration entries of profile documents: parameters with provenance, their spreads, and the interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.planner.calibrate_model import NAMES, PARAMETERS

Array = NDArray[np.float64]
CONFIDENCE = 0.8
TENTH, NINETIETH = (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0
Z = 1.2816
"""Standard normal deviate of the 90th percentile."""
POOLED_GROUPS = 4.0
"""Groups of runs the pooled spread counts as beside a pair's own: below about four, own quantiles mean little."""
SMALL_SPREAD = 0.05
"""Relative spread below which parameters are not worth an interval of their own; also rounding of `significant`."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Log(measured / predicted) of runs that were left out, weighted so that a configuration counts once."""

    errors: Array
    weights: Array
    groups: int

    def quantile(self, q: float) -> float:
        """Weighted quantile (of the step function's midpoints)."""
        order = np.argsort(self.errors)
        weights = self.weights[order]
        middle = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
        return float(np.interp(q, middle, self.errors[order]))


def interval(own: Spread | None, pooled: Spread, basis: str) -> dict[str, Any]:
    """80% interval as multiples of the prediction: own quantiles drawn to those of `pooled` where groups are few."""
    share = 0.0 if own is None else own.groups / (own.groups + POOLED_GROUPS)
    ends = []
    for q in (TENTH, NINETIETH):
        mine = 0.0 if own is None else own.quantile(q)
        ends.append(float(np.exp(share * mine + (1.0 - share) * pooled.quantile(q))))
    return {
        "confidence": CONFIDENCE,
        "low": round(min(ends[0], 0.99), 3),
        "high": round(max(ends[1], 1.01), 3),
        "n": 0 if own is None else int(own.errors.shape[0]),
        "basis": basis,
    }


def parameter_values(theta: Array, source: str) -> dict[str, Any]:
    """`parameters:` of a profile at log parameters `theta`."""
    return {name: significant(float(value)) for name, value in zip(NAMES, np.exp(theta), strict=True)} | {
        "source": source
    }


def parameter_intervals(theta: Array, spread: Array, chosen: Sequence[bool]) -> dict[str, list[float]]:
    """80% interval of every fitted parameter, within its bounds."""
    result = {}
    for index, parameter in enumerate(PARAMETERS):
        if chosen[index]:
            ends = np.exp(theta[index] + np.array([-Z, Z]) * spread[index])
            low, high = np.clip(ends, parameter.low, parameter.high)
            result[parameter.name] = [significant(float(low)), significant(float(high))]
    return result


def remarks(theta: Array, spread: Array, chosen: Sequence[bool]) -> list[str]:
    """What a reader must know about the fit: parameters the runs do not show, and those at a bound."""
    notes = []
    unseen = [name for name, seen in zip(NAMES, chosen, strict=True) if not seen]
    if unseen:
        notes.append(f"not identified by these runs, taken from their kin: {', '.join(unseen)}")
    for index, parameter in enumerate(PARAMETERS):
        if not chosen[index]:
            continue
        if spread[index] > 0.7 * parameter.log_sigma:
            notes.append(f"{parameter.name}: weakly identified, the runs leave {spread[index]:.0%} of spread")
        if theta[index] in (np.log(parameter.low), np.log(parameter.high)):
            notes.append(f"{parameter.name}: at its bound")
    return notes


def span(values: Sequence[int]) -> list[int]:
    """Smallest and largest."""
    return [min(values), max(values)]


def significant(value: float, digits: int = 4) -> float:
    """Rounded to significant digits."""
    return float(f"{value:.{digits}g}")

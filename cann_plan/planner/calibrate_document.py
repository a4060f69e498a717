"""Calibration entries of profile documents: parameters with provenance, their spreads, and the interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cann_plan.planner.calibrate_model import NAMES, PARAMETERS
from cann_plan.records import dataclass

Array = NDArray[np.float64]
CONFIDENCE = 0.8
TENTH, NINETIETH = (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0
Z = 1.2816
"""Standard normal deviate of the 90th percentile."""
POOLED_GROUPS = 4.0
"""Groups of runs the pooled spread counts as beside a pair's own: below about four, own quantiles mean little."""
WEAK = 0.7
"""Posterior over prior spread from which a parameter counts as weakly identified."""


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

    def ends(self) -> tuple[float, float]:
        """10th and 90th percentile."""
        return self.quantile(TENTH), self.quantile(NINETIETH)


def interval(own: Spread | None, pooled: tuple[float, float], basis: str) -> dict[str, Any]:
    """80% interval as multiples of the prediction: own percentiles drawn to the `pooled` ones where groups are few."""
    share = 0.0 if own is None else own.groups / (own.groups + POOLED_GROUPS)
    mine = (0.0, 0.0) if own is None else own.ends()
    low, high = (float(np.exp(share * a + (1.0 - share) * b)) for a, b in zip(mine, pooled, strict=True))
    return {
        "confidence": CONFIDENCE,
        "low": round(min(low, 0.99), 3),
        "high": round(max(high, 1.01), 3),
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


def remarks(theta: Array, spread: Array, prior: Array, chosen: Sequence[bool]) -> list[str]:
    """What a reader must know about the fit: parameters the runs do not show, and those at a bound.

    theta, spread, prior: log parameters, their standard deviations after and before the runs, (k,).
    """
    notes = []
    unseen = [name for name, seen in zip(NAMES, chosen, strict=True) if not seen]
    if unseen:
        notes.append(f"not identified by these runs, taken from their kin: {', '.join(unseen)}")
    for index, parameter in enumerate(PARAMETERS):
        if not chosen[index]:
            continue
        if spread[index] > WEAK * prior[index]:
            narrowed = f"from {prior[index]:.0%} to {spread[index]:.0%}"
            notes.append(f"{parameter.name}: weakly identified, these runs narrow its spread {narrowed} only")
        if theta[index] in (np.log(parameter.low), np.log(parameter.high)):
            notes.append(f"{parameter.name}: at its bound")
    return notes


def span(values: Sequence[int]) -> list[int]:
    """Smallest and largest."""
    return [min(values), max(values)]


def significant(value: float, digits: int = 4) -> float:
    """Rounded to significant digits."""
    return float(f"{value:.{digits}g}")

"""Energy and carbon of a run."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

CARBON_G_PER_KWH: Final = {
    "world": 475.0, "china": 582.3, "usa": 369.5, "germany": 381.0, "france": 56.0, "norway": 30.1, "sweden": 40.7,
    "finland": 79.2, "uk": 237.6, "netherlands": 267.6, "india": 713.4, "japan": 485.4, "korea": 430.6,
    "singapore": 470.8, "taiwan": 642.4, "canada": 170.0, "brazil": 98.3, "australia": 548.7, "uae": 561.1,
    "saudi": 706.8,
}  # fmt: skip
"""Grid carbon intensity, g CO2e per kWh (mlco2/codecarbon@b05965e global_energy_mix.json; world: IEA 2019)."""

PUE = 1.55
"""Facility over equipment energy where a plan states none: average of large data centres in China (2022 report)."""


def energy_kwh(watts: ArrayLike, seconds: ArrayLike, pue: ArrayLike) -> NDArray[np.float64]:
    """Energy at the meter, kWh: equipment watts x seconds x PUE."""
    power = np.atleast_1d(np.asarray(watts, np.float64))
    result: NDArray[np.float64] = power * np.asarray(seconds, np.float64) * np.asarray(pue, np.float64) / 3.6e6
    return result

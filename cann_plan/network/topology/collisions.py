"""Flows hashed onto parallel links (ECMP): how much more than the even share the fullest link carries."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=4096)
def expected_maximum(flows: int, links: int) -> float:
    """Expected number of flows on the fullest of `links` links when each of `flows` picks one at random.

    Exact: P(max <= m) is the coefficient of z^flows in (sum_{j<=m} Poisson(j) z^j)^links over that of the full sum
    (balls into bins; Raab, Steger 1998). Beyond 20,000 flows the bins are taken as independent. Raises ValueError for
    negative flows or no links.
    """
    if flows < 0 or links < 1:
        raise ValueError("flows must not be negative, and there must be a link")
    if flows == 0 or links == 1:
        return float(flows)
    mean = flows / links
    low = int(np.ceil(mean))
    high = min(flows, int(mean + 12.0 * np.sqrt(mean) + 24.0))
    counts = np.arange(high + 1)
    steps = np.concatenate([[0.0], np.log(np.maximum(counts[1:], 1)).cumsum()])
    density = np.exp(counts * np.log(mean) - mean - steps)
    if flows > 20000:
        upto = density.cumsum()[low : high + 1] ** links
    else:
        upto = np.array([_tail(density[: m + 1], flows, links) for m in range(low, high + 1)])
        upto = np.minimum(upto / upto[-1], 1.0) if upto[-1] > 0 else np.ones_like(upto)
    # E[max] = low + sum over m >= low of P(max > m); below `low` it is certain
    return float(low + (1.0 - upto).sum())


def _tail(density: np.ndarray, flows: int, links: int) -> float:
    """Coefficient of z^flows in density(z)^links."""
    length = 1 << int(flows + density.shape[0]).bit_length()
    while length <= links * (density.shape[0] - 1):
        length <<= 1
    spectrum = np.fft.rfft(density, length)
    return max(0.0, float(np.fft.irfft(spectrum**links, length)[flows]))


def hashed_load(units: float, links: int, flows_per_unit: float) -> float:
    """Units on the fullest link of a pool that carries `units` in all, in flows of 1/`flows_per_unit` units each."""
    flows = units * flows_per_unit
    if links == 1 or flows <= 1.0:
        return units / (links if flows > 1.0 else 1)
    whole = int(flows)
    part = flows - whole
    load = expected_maximum(whole, links) * (1.0 - part)
    if part > 0.0:
        load += expected_maximum(whole + 1, links) * part
    return load / flows_per_unit

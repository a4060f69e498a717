"""Groups that are boxes of a grid: the same extent and step along every axis."""

from __future__ import annotations

import numpy as np

from cann_plan.network.topology.traffic import IntArray


def box(positions: IntArray, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...] | None:
    """(extent, step) of the groups along each axis, first axis fastest; None where they are no such boxes.

    `positions` (groups, size). Only where all groups are translates of the first, so that groups with the same other
    coordinates interleave along an axis.
    """
    first = positions[0]
    spans = []
    total = 1
    stride = 1
    for length in shape:
        place = np.unique(first // stride % length)
        extent = int(place.shape[0])
        step = int(place[1] - place[0]) if extent > 1 else 1
        if extent > 1 and ((np.diff(place) != step).any() or length % (extent * step)):
            return None
        spans.append((extent, step))
        total *= extent
        stride *= length
    if total != positions.shape[1]:
        return None
    if positions.shape[0] > 1:
        shifted = np.sort(positions, axis=1)
        apart = shifted - shifted[:, :1]
        if not (apart == apart[0]).all():
            return None
    return tuple(spans)

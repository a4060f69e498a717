"""Traffic of a grid line by line, dimension by dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cann_plan.network.topology.traffic import FloatArray, Flows, IntArray, Traffic


def line_traffic(shape: tuple[int, ...], traffic: Traffic) -> Iterator[tuple[int, FloatArray]]:
    """Per axis longer than one: units between positions of every line along it, (lines, length, length).

    In dimension order a message on axis i has the destination's coordinates before i and the source's after i. Lines
    are numbered by the coordinates after the axis, then those before it.
    """
    points = math.prod(shape)
    everyone = np.arange(points)
    stride = 1
    for axis, length in enumerate(shape):
        if length > 1:
            later = everyone // stride  # own and later coordinates of the source
            earlier = everyone % (stride * length)  # earlier and own coordinates of the destination
            counted = traffic.count(later, points // stride, earlier, stride * length)
            outer = points // (stride * length)
            matrix = counted.reshape(outer, length, length, stride)
            yield axis, np.moveaxis(matrix, 3, 1).reshape(outer * stride, length, length)
        stride *= length


def line_hops(
    shape: tuple[int, ...], traffic: Traffic
) -> Iterator[tuple[int, IntArray, IntArray, IntArray, FloatArray]]:
    """Per axis longer than one: (axis, line, from, to, units) of everything that moves along it, in dimension order.

    Explicit flows one by one, unless there are more of them than pairs of positions.
    """
    points = math.prod(shape)
    if not isinstance(traffic, Flows) or traffic.source.shape[0] > points * max(shape):
        for axis, matrix in line_traffic(shape, traffic):
            line, one, other = np.nonzero(matrix * ~np.eye(shape[axis], dtype=bool))
            yield axis, line, one, other, matrix[line, one, other]
        return
    stride = 1
    for axis, length in enumerate(shape):
        if length > 1:
            one = traffic.source // stride % length
            other = traffic.destination // stride % length
            moves = one != other
            line = (traffic.source // (stride * length) * stride + traffic.destination % stride)[moves]
            yield axis, line, one[moves], other[moves], traffic.weight[moves]
        stride *= length


def along_rings(
    line: IntArray, one: IntArray, other: IntArray, units: FloatArray, lines: int, length: int
) -> tuple[FloatArray, FloatArray]:
    """Units on links x -> x+1 and x+1 -> x of closed lines, each (lines, length); ties go both ways evenly."""
    ahead = (other - one) % length
    back = length - ahead
    split = np.where(2 * ahead == length, 0.5, 1.0) * units
    forward = _covered(line, one, ahead, np.where(ahead <= back, split, 0.0), lines, 2 * length)
    backward = _covered(line, other, back, np.where(back <= ahead, split, 0.0), lines, 2 * length)
    return forward[:, :length] + forward[:, length:], backward[:, :length] + backward[:, length:]


def along_stretches(
    line: IntArray, one: IntArray, other: IntArray, units: FloatArray, lines: int, length: int
) -> tuple[FloatArray, FloatArray]:
    """Units on links x -> x+1 and x+1 -> x of open lines, each (lines, length - 1)."""
    apart = np.abs(other - one)
    right = other > one
    start = np.minimum(one, other)
    forward = _covered(line, start, apart, np.where(right, units, 0.0), lines, length)
    backward = _covered(line, start, apart, np.where(right, 0.0, units), lines, length)
    return forward[:, : length - 1], backward[:, : length - 1]


def _covered(
    line: IntArray, start: IntArray, extent: IntArray, units: FloatArray, lines: int, length: int
) -> FloatArray:
    """Units over every position of lines of `length` when each entry covers start ... start + extent - 1."""
    width = length + 1
    change = np.bincount(line * width + start, weights=units, minlength=lines * width)
    change -= np.bincount(line * width + start + extent, weights=units, minlength=lines * width)
    total: FloatArray = change.reshape(lines, width).cumsum(axis=1)[:, :length]
    return total

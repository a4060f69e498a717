"""Rings and tori of any dimension, wrapped or not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cann_plan.network.topology.axes import Axis
from cann_plan.network.topology.base import Topology
from cann_plan.network.topology.boxes import box
from cann_plan.network.topology.components import COPPER, OPTICAL, Cables, Components
from cann_plan.network.topology.graph import Graph, join
from cann_plan.network.topology.lines import along_rings, along_stretches, line_hops
from cann_plan.network.topology.loads import ClassLoad, LinkLoads
from cann_plan.network.topology.traffic import IntArray, Traffic

RACK_EDGE = 4
"""Edge of the block of a torus inside one rack, joined by copper: 4 x 4 x 4 in TPU v4 (arXiv 2304.01433)."""


@dataclass(frozen=True)
class Torus(Topology):
    """Endpoints at the points of a grid, first dimension fastest, each joined to both neighbours along every axis.

    Minimal routing goes dimension by dimension; at exactly half way round it uses both directions evenly.

    Attributes:
        shape: length of each axis.
        wrap: whether axes close.
    """

    shape: tuple[int, ...]
    wrap: bool = True
    direct = True

    def __post_init__(self) -> None:
        """Raise ValueError for an empty shape."""
        if not self.shape or min(self.shape) < 1:
            raise ValueError("a torus needs at least one axis of at least one endpoint")

    @property
    def endpoints(self) -> int:  # type: ignore[override]
        """Number of endpoints."""
        return math.prod(self.shape)

    @property
    def link(self) -> float:
        """Capacity of one link: the injection shared by both directions of every axis longer than one."""
        return 1.0 / (2.0 * max(1, sum(1 for length in self.shape if length > 1)))

    @property
    def summary(self) -> str:
        """Axis lengths."""
        return " x ".join(str(length) for length in self.shape) + ("" if self.wrap else ", open")

    def coordinates(self, endpoint: IntArray) -> list[IntArray]:
        """Coordinate along each axis, first axis fastest."""
        place = []
        for length in self.shape:
            place.append(endpoint % length)
            endpoint = endpoint // length
        return place

    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Dimension order: along axis i a message has the destination's earlier and the source's later coordinates."""
        classes = []
        for axis, line, one, other, units in line_hops(self.shape, traffic):
            length = self.shape[axis]
            spread = along_rings if self.wrap else along_stretches
            loads = spread(line, one, other, units, self.endpoints // length, length)
            classes.append(ClassLoad(f"axis {axis} link", np.concatenate(loads, axis=1).reshape(-1), self.link))
        if not classes:
            classes.append(ClassLoad("axis 0 link", np.zeros(1), 1.0))
        return LinkLoads(tuple(classes))

    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """Distance in steps along the grid."""
        steps = np.zeros(source.shape, dtype=np.int64)
        for length, a, b in zip(self.shape, self.coordinates(source), self.coordinates(destination), strict=True):
            apart = np.abs(a - b)
            steps = steps + (np.minimum(apart, length - apart) if self.wrap else apart)
        return steps

    @property
    def diameter(self) -> int:
        """Half of every axis (all of it where axes do not close)."""
        return sum(length // 2 if self.wrap else length - 1 for length in self.shape)

    @property
    def bisection(self) -> float:
        """Links across the middle of the longest axis: 2 N / k_max closed, N / k_max open."""
        longest = max(self.shape)
        if longest == 1:
            return 0.5
        return self.endpoints / longest * (2 if self.wrap else 1) * self.link

    def components(self) -> Components:
        """No switches; copper inside blocks of `RACK_EDGE` per axis, optical between them."""
        copper = optical = 0
        for length in self.shape:
            links = self.endpoints // length * (length if self.wrap and length > 1 else length - 1)
            far = links // RACK_EDGE if length > RACK_EDGE else 0
            copper, optical = copper + links - far, optical + far
        cables: tuple[Cables, ...] = (Cables("axis, inside racks", COPPER, copper, self.link),)
        if optical:
            cables += (Cables("axis, between racks", OPTICAL, optical, self.link),)
        return Components({}, 1.0, cables, self.endpoints)

    def graph(self) -> Graph:
        """Every link; an axis of two closed ends has two parallel links."""
        everyone = np.arange(self.endpoints)
        bundles = []
        stride = 1
        for axis, length in enumerate(self.shape):
            place = everyone // stride % length
            if length > 1:
                start = everyone if self.wrap else everyone[place < length - 1]
                ahead = start + np.where(place[start] == length - 1, -(length - 1) * stride, stride)
                bundles.append((f"axis {axis} link", start, ahead, self.link))
            stride *= length
        return join(self.endpoints, self.endpoints, bundles)

    def axes(self, positions: IntArray) -> tuple[Axis, ...] | None:
        """Rings along every axis a group extends over, both directions, all axes at once."""
        spans = box(positions, self.shape)
        if spans is None:
            return None
        result = []
        for length, (extent, step) in zip(self.shape, spans, strict=True):
            if extent > 1:
                # `step` interleaved groups share the links; on an open stretch the way back takes the links of the
                # other direction
                closed = self.wrap and extent * step == length
                rate = (2.0 if closed else 1.0) * self.link / step
                result.append(Axis(extent, rate, extent - 1, step))
        return tuple(result)

"""Axes of a product of rings or meshes along which a group can communicate at the same time."""

from __future__ import annotations

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a group.

    Attributes:
        extent: members along the axis.
        rate: units one endpoint can send along the axis while all groups do, of the one unit it injects in all.
        steps: messages one after the other.
        hops: links between neighbouring members.
    """

    extent: int
    rate: float
    steps: int
    hops: int

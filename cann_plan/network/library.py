"""Rows of a collective as the network's library runs it."""

from __future__ import annotations

from dataclasses import dataclass

from cann_plan.network.algorithms import Row, ideal_rows
from cann_plan.network.layout import GroupLayout
from cann_plan.network.levels import Network
from cann_plan.network.links import LinkUse, link_uses


@dataclass(frozen=True, slots=True)
class CommunicationOptions:
    """Choices that hold for every collective of a run.

    Attributes:
        algorithm: "library" takes what the library would choose, "best" the fastest algorithm it offers, any other
            value the rows of that algorithm where it exists.
    """

    algorithm: str = "library"


def collective_rows(
    network: Network, layout: GroupLayout, operation: str, options: CommunicationOptions, concurrent: bool
) -> tuple[list[Row], tuple[LinkUse, ...]]:
    """(rows, crossed levels) of one collective for one group layout of at least two ranks."""
    efficiency = tuple(1.0 if level.efficiency is None else level.efficiency for level in network.levels)
    overhead = tuple(0.0 for _ in network.levels)
    uses = link_uses(network, layout, efficiency, overhead, concurrent)
    return ideal_rows(uses, layout, operation), uses

"""What every topology answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from cann_plan.network.topology.axes import Axis
from cann_plan.network.topology.components import Components
from cann_plan.network.topology.graph import Graph
from cann_plan.network.topology.loads import LinkLoads
from cann_plan.network.topology.traffic import Groups, IntArray, Traffic


class Topology(ABC):
    """A network of equal endpoints. Every endpoint injects one unit; link capacities are relative to that.

    Attributes:
        endpoints: number of endpoints.
        direct: endpoints forward for each other (no switches).
    """

    endpoints: int
    direct: bool = False

    @property
    @abstractmethod
    def summary(self) -> str:
        """Shape in words, for example "32 x 32 x 16"."""

    @abstractmethod
    def minimal(self, traffic: Traffic) -> LinkLoads:
        """Loads of minimal routing, spread evenly over equal parallel links."""

    @abstractmethod
    def hops(self, source: IntArray, destination: IntArray) -> IntArray:
        """Links a minimal path crosses, those to and from the endpoints included; (F,)."""

    @property
    @abstractmethod
    def diameter(self) -> int:
        """Most links between two endpoints on minimal paths."""

    @property
    @abstractmethod
    def bisection(self) -> float:
        """Least capacity between two halves cut along the structure, one direction, in units of injection."""

    @abstractmethod
    def components(self) -> Components:
        """Switches, cables and adapters."""

    @abstractmethod
    def graph(self) -> Graph:
        """The same network link by link."""

    @cached_property
    def uniform(self) -> LinkLoads:
        """Loads when every endpoint sends one unit in all, evenly to all others."""
        return self.minimal(Groups.everyone(self.endpoints, 1.0 / max(1, self.endpoints - 1)))

    def valiant(self, sent: float, received: float) -> LinkLoads:
        """Loads of Valiant routing: to a random endpoint first, from there to the destination.

        `sent`, `received`: most units one endpoint sends and receives. Source: Valiant 1982 (SIAM J. Comput. 11):
        two uniform patterns one after the other. Adapters of switched networks carry only what their endpoint sends.
        """
        classes = (
            item.scaled(max(sent, received)) if item.name == "adapter" else item.scaled(sent + received)
            for item in self.uniform.classes
        )
        return LinkLoads(tuple(classes))

    @property
    def non_blocking(self) -> bool:
        """Whether no link slows any traffic in which endpoints send and receive at most one unit, spread evenly."""
        return False

    @property
    def shortest(self) -> int:
        """Links between the closest pair of endpoints: 1 where endpoints are joined directly, else 2."""
        return 1 if self.direct else 2

    def axes(self, positions: IntArray) -> tuple[Axis, ...] | None:
        """Axes along which groups can run rings or meshes of their own at once, None where they are no such product.

        `positions` (groups, size): the members of all groups that communicate at once.
        """
        del positions
        return None

    def phases(self, positions: IntArray) -> tuple[tuple[Axis, ...], ...]:
        """Axes phase by phase, each phase on the vector divided by the members of those before; empty for none."""
        axes = self.axes(positions)
        return (axes,) if axes else ()

"""Topology to the time of a collective."""

from cann_plan.network.levels import Level, Network
from cann_plan.network.library import CommunicationOptions
from cann_plan.network.table import CollectiveDescription, CommunicationTable, LinkDescription

__all__ = [
    "CollectiveDescription",
    "CommunicationOptions",
    "CommunicationTable",
    "Level",
    "LinkDescription",
    "Network",
]

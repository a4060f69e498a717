"""Where a terminal screen will be read."""

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class Screen:
    """Width in cells, whether colour is wanted, whether Unicode can be shown."""

    width: int = 100
    colour: bool = False
    unicode: bool = True

"""`economics:` price, energy and carbon of device time."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from cann_plan.spec.base import Section, key
from cann_plan.spec.quantity import AtLeastOne, GramsPerKilowattHour, Money, Name, Watts

Currency = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z]{3}$")]


class EconomicsSpec(Section):
    """Price, energy and carbon."""

    price_per_device_hour: Money | None = key("price of one device for one hour", unit="currency/h")
    currency: Currency | None = key("ISO 4217 code, for example CNY or USD")
    region: Name | None = key("region whose grid carbon intensity applies")
    pue: AtLeastOne | None = key("power usage effectiveness: facility energy over equipment energy")
    power_w: Watts | None = key("power of one device with its share of the server, while training", unit="W")
    carbon_intensity: GramsPerKilowattHour | None = key("carbon of the grid; overrides region", unit="g/kWh")

"""`limits:` what `check` and `size` hold a plan to."""

from __future__ import annotations

from cann_plan.spec.base import Section, key
from cann_plan.spec.quantity import (
    Days,
    KilowattHours,
    Money,
    NonNegativeNumber,
    PositiveFraction,
    PositiveInt,
)


class LimitsSpec(Section):
    """Limits; every one that is stated must hold."""

    days: Days | None = key("longest ideal training time", unit="d")
    goodput_days: Days | None = key("longest elapsed time with warm-up, checkpoints and failures", unit="d")
    cost: Money | None = key("largest total price", unit="currency")
    kwh: KilowattHours | None = key("largest energy of the run", unit="kWh")
    memory_fraction: PositiveFraction | None = key("worst-rank device memory over framework-visible capacity")
    host_memory_fraction: PositiveFraction | None = key("host memory over its capacity on the worst node")
    min_mfu: PositiveFraction | None = key("smallest model FLOPs utilisation")
    min_tokens_per_s_per_device: NonNegativeNumber | None = key("smallest throughput", unit="tokens/s per device")
    max_devices: PositiveInt | None = key("largest number of devices")
    confidence: PositiveFraction | None = key(
        "probability with which the limits must hold; absent: the central estimate"
    )

"""A device as the operator functions see it: peak rates, memory bandwidth and the operator constants of its family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cann_plan.hardware.operator_model import OperatorModel
from cann_plan.records import dataclass


class UnsupportedPrecision(ValueError):  # noqa: N818 - reads as the reason, which is shown to the user
    """The device has no known dense peak, or the family no operator constants, for a precision."""

    def __init__(self, device: str, dtype: str, reason: str) -> None:
        self.device = device
        self.dtype = dtype
        self.reason = reason
        super().__init__(f"{device}: precision {dtype} is not supported: {reason}")


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator as frameworks count it (a die of a two-die package where they count dies)."""

    name: str
    peak_flops: Mapping[str, float]  # FLOP/s, dense, by precision; unknown precisions are absent
    memory_bandwidth: float  # bytes/s, nominal
    operators: OperatorModel
    vector_flops: Mapping[str, float] = field(default_factory=dict)  # FLOP/s of the vector unit by precision

    def peak(self, dtype: str) -> float:
        """Dense peak in FLOP/s.

        Raises:
            UnsupportedPrecision: no dense peak is known for `dtype`.
        """
        peak = self.peak_flops.get(dtype)
        if peak is None:
            known = ", ".join(sorted(self.peak_flops)) or "none"
            raise UnsupportedPrecision(self.name, dtype, f"no dense peak is known (known: {known})")
        return peak

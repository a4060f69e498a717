"""Devices of the tests: datasheet peaks (dense) and bandwidths, operator constants as shipped."""

from __future__ import annotations

from cann_plan.hardware.device import Device
from cann_plan.hardware.operator_presets import load_operator_model

DATASHEET: dict[str, tuple[dict[str, float], float]] = {
    "a100": ({"bf16": 312e12, "fp16": 312e12}, 2.039e12),
    "h100": ({"bf16": 989e12, "fp16": 989e12, "fp8": 1979e12}, 3.35e12),
    "h200": ({"bf16": 989e12, "fp16": 989e12, "fp8": 1979e12}, 4.8e12),
    "b200": ({"bf16": 2250e12, "fp16": 2250e12, "fp8": 4500e12, "fp4": 9000e12}, 8.0e12),
    "v100": ({"fp16": 125e12}, 0.9e12),
    "ascend-910a": ({"fp16": 256e12}, 1.2e12),
    "ascend-910b": ({"bf16": 353.9e12, "fp16": 376e12, "int8": 752e12}, 1.6e12),
    "ascend-a3-die": ({"bf16": 353.9e12, "fp16": 376e12, "int8": 752e12}, 1.6e12),
}


def device(family: str) -> Device:
    peaks, bandwidth = DATASHEET[family]
    return Device(family, peaks, bandwidth, load_operator_model(family))


DEVICES = {family: device(family) for family in DATASHEET}
PAIRS = [(family, dtype) for family, (peaks, _) in DATASHEET.items() for dtype in peaks]

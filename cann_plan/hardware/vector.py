"""Time of element-wise work and of the optimizer step, by bytes moved.

All functions broadcast their array arguments to shape (N,), work in float64 and SI units, and return seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cann_plan.hardware.device import Device
from cann_plan.hardware.operator_model import BoolArray, FloatArray, VectorFit, as_array

DEFAULT_KIND = "elementwise"


def vector_fit(device: Device, kind: str = DEFAULT_KIND) -> VectorFit:
    """Constants of a kind of element-wise work; a kind the family did not measure uses `elementwise`."""
    vector = device.operators.vector
    return vector.get(kind, vector[DEFAULT_KIND])


def vector_seconds(
    device: Device, moved_bytes: ArrayLike, launches: ArrayLike = 1.0, kind: str = DEFAULT_KIND
) -> FloatArray:
    """Seconds of element-wise kernels: launches * t0 + bytes / (bandwidth eB).

    Args:
        device: bandwidth and constants.
        moved_bytes: bytes read plus bytes written, all launches together.
        launches: kernels.
        kind: elementwise, normalization, softmax, reduction, ...
    """
    fit = vector_fit(device, kind)
    moved, kernels = as_array(moved_bytes), as_array(launches)
    seconds = kernels * fit.launch_s + moved / (device.memory_bandwidth * fit.memory_efficiency)
    return np.where(moved > 0.0, seconds, 0.0)


def vector_outside_validity(
    device: Device, moved_bytes: ArrayLike, launches: ArrayLike = 1.0, kind: str = DEFAULT_KIND
) -> BoolArray:
    """True where the kind was not measured or the bytes per launch leave the fitted range; shape (N,)."""
    per_launch = as_array(moved_bytes) / np.maximum(as_array(launches), 1.0)
    return vector_fit(device, kind).validity.outside(bytes=per_launch) | (kind not in device.operators.vector)


def optimizer_seconds(
    device: Device, parameters: ArrayLike, bytes_per_parameter: ArrayLike, launches: ArrayLike = 1.0
) -> FloatArray:
    """Seconds of a fused Adam(W) update on the device.

    Args:
        device: bandwidth and constants.
        parameters: parameters updated by this device.
        bytes_per_parameter: bytes read plus written per parameter: with fp32 master weights, moments and gradients
            and a bf16 copy, 16 read + 14 written = 30.
        launches: kernels (1 for a multi-tensor update).
    """
    fit = device.operators.optimizer
    moved = as_array(parameters) * as_array(bytes_per_parameter)
    seconds = as_array(launches) * fit.launch_s + moved / (device.memory_bandwidth * fit.memory_efficiency)
    return np.where(moved > 0.0, seconds, 0.0)

"""Time of decode attention: one query per sequence reads the whole key/value cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cann_plan.hardware.device import Device
from cann_plan.hardware.operator_model import BoolArray, FloatArray, as_array

KEY_TILE = 128.0
"""Keys one work item of a split decode kernel handles."""


def decode_attention_seconds(
    device: Device,
    batch: ArrayLike,
    kv_heads: ArrayLike,
    context: ArrayLike,
    key_value_bytes: ArrayLike,
) -> FloatArray:
    """Seconds of one decode step of one layer's attention; the form is in `DecodeFit`.

    Args:
        device: bandwidth and constants.
        batch: sequences.
        kv_heads: key/value heads on this device.
        context: keys per sequence [tokens].
        key_value_bytes: bytes of one key plus its value in the cache, one head [bytes].

    Returns:
        seconds, shape (N,).
    """
    fit = device.operators.decode
    heads_keys = as_array(batch) * as_array(kv_heads) * as_array(context)
    moved = heads_keys * as_array(key_value_bytes)
    units = np.where(heads_keys > 0.0, heads_keys / KEY_TILE, 1.0)
    seconds = fit.launch_s + moved / (device.memory_bandwidth * fit.memory_efficiency) * (1.0 + fit.half_units / units)
    return np.where(moved > 0.0, seconds, 0.0)


def decode_attention_outside_validity(device: Device, batch: ArrayLike, context: ArrayLike) -> BoolArray:
    """True where an input leaves the fitted range; shape (N,)."""
    return device.operators.decode.validity.outside(batch=batch, context=context)

"""Time of matrix products.

All functions broadcast their array arguments to shape (N,), work in float64 and SI units, and return seconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cann_plan.hardware.device import Device, UnsupportedPrecision
from cann_plan.hardware.operator_model import (
    ELEMENT_BYTES,
    BoolArray,
    FloatArray,
    GemmFit,
    GroupedGemmFit,
    as_array,
)

RESULT_TILE = 128.0 * 128.0
"""Elements of one result tile, the unit `half_units` counts (a common tile of cuBLAS and Ascend cube kernels)."""

CAST_BYTES = 3.0
"""Bytes moved per element of a conversion from 2 bytes to 1 (read 2, write 1)."""


def gemm_fit(device: Device, dtype: str) -> GemmFit:
    """Constants for `dtype`.

    Raises:
        UnsupportedPrecision: the family has no constants for it.
    """
    fit = device.operators.gemm.get(dtype)
    if fit is None:
        family = device.operators.family
        raise UnsupportedPrecision(
            device.name, dtype, f"operator family {family} has no matrix-product constants for it"
        )
    return fit


def grouped_gemm_fit(device: Device, dtype: str) -> GroupedGemmFit:
    """Constants of grouped products for `dtype`.

    Raises:
        UnsupportedPrecision: the family has no constants for it.
    """
    fit = device.operators.grouped_gemm.get(dtype)
    if fit is None:
        family = device.operators.family
        raise UnsupportedPrecision(
            device.name, dtype, f"operator family {family} has no grouped-product constants for it"
        )
    return fit


def gemm_seconds(
    device: Device,
    dtype: str,
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    batch: ArrayLike = 1.0,
    out_bytes: ArrayLike = 2.0,
    accumulate: bool = False,
    rate: ArrayLike = 1.0,
    cast: bool = True,
) -> FloatArray:
    """Seconds of `batch` products (m, k) x (k, n) under one launch; the form is in `GemmFit`.

    A size of zero (nothing to do on this device) costs nothing.

    Args:
        device: peak, bandwidth and constants.
        dtype: precision of both operands.
        m: rows (tokens) [elements].
        n: columns of the result [elements].
        k: contraction length [elements].
        batch: independent products.
        out_bytes: bytes of one result element (4 for fp32 main gradients).
        accumulate: the result is also read (gradient accumulation into fp32 main gradients).
        rate: multiplies the compute rate; comes from a software profile (an FP8 recipe, a library release).
            The product never gets faster than the dense peak.
        cast: charge the conversion of the (m, k) operand to a 1-byte precision, where the measured call has one; False
            where the software fuses it into the operator before.

    Raises:
        UnsupportedPrecision: no peak or no constants for `dtype`.
    """
    fit = gemm_fit(device, dtype)
    peak = device.peak(dtype)
    operators = device.operators
    m, n, k, batch = as_array(m), as_array(n), as_array(k), as_array(batch)
    tile_m, tile_n, tile_k = (_pad(size, operators.tile) for size in (m, n, k))
    fill = _fill(batch * tile_m, fit.half_m) * _fill(tile_n, fit.half_n) * _fill(tile_k, fit.half_k)
    fill = fill * _fill(batch * tile_m * tile_n / RESULT_TILE, fit.half_units)
    efficiency = np.minimum(fit.efficiency * as_array(rate) / fill, 1.0)
    compute = 2.0 * batch * tile_m * tile_n * tile_k / (peak * efficiency)
    if operators.aligned_elements > 1:
        step = float(operators.aligned_elements)
        misaligned = (np.floor(n / step) * step != n) | (np.floor(k / step) * step != k)
        compute = np.where(misaligned, compute * operators.misaligned_slowdown, compute)
    size = ELEMENT_BYTES[dtype]
    result_passes = 2.0 if accumulate else 1.0
    moved = batch * (size * (m * k + n * k) + as_array(out_bytes) * result_passes * (m * n))
    memory = moved / (device.memory_bandwidth * fit.memory_efficiency)
    seconds = fit.launch_s + np.maximum(compute, memory)
    if cast and fit.cast_efficiency > 0.0:
        converted = CAST_BYTES * batch * m * k
        seconds = seconds + fit.cast_launch_s + converted / (device.memory_bandwidth * fit.cast_efficiency)
    return np.where(batch * m * n * k > 0.0, seconds, 0.0)


def gemm_outside_validity(device: Device, dtype: str, m: ArrayLike, n: ArrayLike, k: ArrayLike) -> BoolArray:
    """True where the shape leaves the range the constants were fitted on; same shapes and errors as `gemm_seconds`."""
    return gemm_fit(device, dtype).validity.outside(m=m, n=n, k=k)


def grouped_gemm_seconds(
    device: Device,
    dtype: str,
    experts: ArrayLike,
    tokens: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    out_bytes: ArrayLike = 2.0,
    accumulate: bool = False,
    rate: ArrayLike = 1.0,
) -> FloatArray:
    """Seconds of one grouped product: `tokens` rows in total, spread evenly over `experts` local experts.

    Each expert is a product (tokens / experts, k) x (k, n); weights of experts that receive no row are not read
    (at most `tokens` experts are touched). Imbalance is the caller's: pass the rows of the busiest device.

    Args:
        device: peak, bandwidth and constants.
        dtype: precision of both operands.
        experts: experts held by this device.
        tokens: routed rows on this device, all experts together (tokens times top-k).
        n: columns of the result [elements].
        k: contraction length [elements].
        out_bytes: bytes of one result element.
        accumulate: the result is also read.
        rate: multiplies the compute rate (software profile).

    Raises:
        UnsupportedPrecision: no peak or no constants for `dtype`.
    """
    fit = grouped_gemm_fit(device, dtype)
    peak = device.peak(dtype)
    experts, tokens, n, k = as_array(experts), as_array(tokens), as_array(n), as_array(k)
    touched = np.maximum(np.minimum(experts, tokens), 1.0)
    rows = np.maximum(tokens / touched, 1.0)
    fill = _fill(rows, fit.half_m) * _fill(n, fit.half_n) * _fill(k, fit.half_k)
    efficiency = np.minimum(fit.efficiency * as_array(rate) / fill, 1.0)
    compute = 2.0 * tokens * n * k / (peak * efficiency)
    size = ELEMENT_BYTES[dtype]
    result_passes = 2.0 if accumulate else 1.0
    moved = size * (tokens * k + touched * (n * k)) + as_array(out_bytes) * result_passes * (tokens * n)
    memory = moved / (device.memory_bandwidth * fit.memory_efficiency)
    seconds = fit.launch_s + np.maximum(compute, memory)
    return np.where(tokens * n * k > 0.0, seconds, 0.0)


def grouped_gemm_outside_validity(
    device: Device, dtype: str, experts: ArrayLike, tokens: ArrayLike, n: ArrayLike, k: ArrayLike
) -> BoolArray:
    """True where the shape leaves the fitted range; `tokens` are checked per expert."""
    rows = as_array(tokens) / np.maximum(as_array(experts), 1.0)
    return grouped_gemm_fit(device, dtype).validity.outside(rows=rows, n=n, k=k)


def _fill(size: FloatArray, half: float) -> FloatArray:
    """1 + half / size: the factor by which a short dimension stretches the compute time; zero sizes are discarded."""
    return 1.0 + half / np.where(size > 0.0, size, 1.0)


def _pad(size: FloatArray, tile: int) -> FloatArray:
    """`size` rounded up to a multiple of `tile`."""
    return size if tile == 1 else np.ceil(size / float(tile)) * float(tile)

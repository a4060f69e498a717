"""Stand-ins for rates nobody states: with them a job has memory figures, and its times mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.hardware.device import Device
from cann_plan.hardware.operator_presets import load_operator_model
from cann_plan.spec.cluster import Cluster

Array = NDArray[np.float64]

FORMATS: Final = ("bf16", "fp16", "fp32", "tf32", "fp8", "int8")
UNKNOWN_RATE: Final = 1.0  # FLOP/s and bytes/s that stand for an unknown rate


class NoTraffic:
    """Communication that takes no time."""

    def seconds(
        self,
        operation: str,
        nbytes: ArrayLike,
        group_size: ArrayLike,
        stride: ArrayLike = 1,
        *,
        outer_size: ArrayLike | None = None,
        outer_stride: ArrayLike | None = None,
        concurrent: bool = True,
    ) -> Array:
        """Zeros in the shape of the groups."""
        return np.zeros(np.broadcast_shapes(np.shape(nbytes), np.shape(group_size)))

    def groups(
        self,
        group_size: ArrayLike,
        stride: ArrayLike = 1,
        *,
        outer_size: ArrayLike | None = None,
        outer_stride: ArrayLike | None = None,
        concurrent: bool = True,
    ) -> NDArray[np.int64]:
        """One group for all."""
        return np.zeros(np.shape(group_size), np.int64)

    def seconds_of(self, operation: str, nbytes: ArrayLike, groups: NDArray[np.int64]) -> Array:
        """Zeros in the shape of the groups."""
        return np.zeros(np.broadcast_shapes(np.shape(nbytes), groups.shape))


def untimed_device(cluster: Cluster) -> Device:
    """The cluster's device with unknown rates in every number format."""
    spec = cluster.device
    peaks: Mapping[str, float] = dict.fromkeys(FORMATS, UNKNOWN_RATE)
    vector: Mapping[str, float] = dict.fromkeys(FORMATS, UNKNOWN_RATE)
    return Device(spec.name, peaks, UNKNOWN_RATE, load_operator_model(spec.operators.family), vector)

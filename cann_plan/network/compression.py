"""Compressed gradient exchange: bytes on the wire, codec time on the device, what it costs in accuracy.

Sources:
[1] PyTorch DDP communication hooks: fp16_compress and bf16_compress cast, all-reduce and cast back.
[2] ZeRO++, arXiv 2306.10209: block-quantised gradients by one all-to-all in place of reduce-scatter, int4 from fp16
    gives a quarter of the volume; values are restored before each sum.
[3] Deep Gradient Compression, arXiv 1712.01887: 99.9% of gradient entries can wait; 270x to 600x without loss of
    accuracy with momentum correction, local clipping, momentum masking and warm-up.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from cann_plan.network.groups import IntArray
from cann_plan.records import dataclass

FloatArray = npt.NDArray[np.float64]

KINDS: Final = ("none", "bf16", "fp16", "fp8", "int8", "int4", "top_k")

_ELEMENT: Final = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}

BLOCK: Final = 256.0
"""Elements that share one fp16 scale in fp8, int8 and int4 (assumption; the scale adds below 2%)."""

DENSITY: Final = 0.001
"""Share of entries top-k sends where nothing is stated [3]."""

INDEX_BYTES: Final = 4.0
"""Bytes of the position of one sparse entry."""

SELECT_PASSES: Final = 3.0
"""Passes over the gradient to find a threshold and pack what exceeds it (sampled top-k: sample, compare, gather)."""

NOTES: Final = {
    "none": "",
    "bf16": "sums in 16 bits; exponent range kept, 8 bits of precision",
    "fp16": "sums in 16 bits; gradients beyond 65504 overflow without scaling",
    "fp8": "block-scaled; not validated for every model, watch the loss",
    "int8": "block-quantised, restored before each sum; loss curves match in published runs",
    "int4": "block-quantised, restored before each sum; needs the two-step exchange to hold accuracy",
    "top_k": "sparse exchange needs error feedback and momentum correction; unusual for large language models",
}


@dataclass(frozen=True, slots=True)
class Compression:
    """One way to shrink gradients on the wire.

    Attributes:
        kind: none | bf16 | fp16 | fp8 | int8 | int4 | top_k.
        ratio: bytes without compression over bytes with; None follows from `kind` and the gradient's element size.
    """

    kind: str = "none"
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown kind or a ratio below 1."""
        if self.kind not in KINDS:
            raise ValueError(f"unknown compression {self.kind!r}; allowed: {', '.join(KINDS)}")
        if self.ratio is not None and self.ratio < 1:
            raise ValueError(f"compression ratio must be at least 1, not {self.ratio}")

    @property
    def sparse(self) -> bool:
        """Whether ranks send different positions, so that sums on the way are impossible."""
        return self.kind == "top_k"

    @property
    def quantised(self) -> bool:
        """Whether values must be restored before each sum."""
        return self.kind in ("fp8", "int8", "int4")

    def wire_share(self, element_bytes: float) -> float:
        """Bytes on the wire over bytes of the gradient with elements of `element_bytes` bytes; at most 1."""
        if self.kind == "none":
            return 1.0
        if self.ratio is not None:
            return 1.0 / self.ratio
        if self.sparse:
            return DENSITY * (element_bytes + INDEX_BYTES) / element_bytes
        scale = 2.0 / BLOCK if self.quantised else 0.0
        return min(1.0, (_ELEMENT[self.kind] + scale) / element_bytes)

    def codec_traffic(self, element_bytes: float) -> float:
        """Device-memory bytes per gradient byte to encode once and decode once: reads and writes of each side."""
        if self.kind == "none" or self.wire_share(element_bytes) >= 1.0:
            return 0.0
        share = self.wire_share(element_bytes)
        if self.sparse:
            return SELECT_PASSES + 2.0 * share + 1.0
        return 2.0 * (1.0 + share)


NO_COMPRESSION: Final = Compression()
"""Gradients as they are."""


class Times(Protocol):
    """What an exchange needs of the communication table."""

    def seconds_of(self, operation: str, nbytes: npt.ArrayLike, groups: IntArray) -> FloatArray:
        """Seconds of one collective per row, shape (N,)."""
        ...


@dataclass(frozen=True, slots=True)
class ExchangeTime:
    """Seconds of an exchange, arrays of shape (N,): on the wire, and of encoding and decoding on the device."""

    wire: FloatArray
    codec: FloatArray

    @property
    def total(self) -> FloatArray:
        """Wire and codec, one after the other."""
        return self.wire + self.codec


def compressed_exchange(
    table: Times,
    operation: str,
    nbytes: FloatArray,
    groups: IntArray,
    ranks: IntArray,
    compression: Compression,
    element_bytes: float,
    memory_bandwidth: float,
) -> ExchangeTime:
    """Gradient all-reduce or reduce-scatter of `nbytes` uncompressed bytes with compression. Arrays (N,).

    A cast runs the same collective on fewer bytes. Quantised values travel by all-to-all, are restored and summed,
    and (all-reduce) gathered in the wire format [2]. Sparse entries of every rank are gathered by every rank, so
    their volume grows with the number of ranks [3]. `memory_bandwidth` in bytes/s. Raises ValueError for another
    operation.
    """
    if operation not in ("all_reduce", "reduce_scatter"):
        raise ValueError(f"gradients are exchanged by all_reduce or reduce_scatter, not {operation!r}")
    share = compression.wire_share(element_bytes)
    sent = nbytes * share
    codec = nbytes * (compression.codec_traffic(element_bytes) / memory_bandwidth) * (ranks > 1)
    if compression.sparse:
        return ExchangeTime(table.seconds_of("all_gather", sent * ranks, groups), codec)
    if compression.quantised and share < 1.0:
        wire = table.seconds_of("all_to_all", sent, groups)
        if operation == "all_reduce":
            wire = wire + table.seconds_of("all_gather", sent, groups)
        return ExchangeTime(wire, codec)
    return ExchangeTime(table.seconds_of(operation, sent, groups), codec)

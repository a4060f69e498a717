"""Operator-time constants of one device family: what the fits found, in which range, and how well.

Efficiencies are fractions of the device's dense peak or nominal bandwidth, so one family serves its bins (a 313-TFLOP/s
and a 376-TFLOP/s part) by scaling. The numbers live in `presets/operators/<family>.yaml`; nothing here is tuned on
training runs. What a software stack changes (attention kernel rate, FP8 recipe) enters the operator functions
through their `rate` argument instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.records import dataclass

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ELEMENT_BYTES: Mapping[str, float] = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
}
"""Bytes of one operand element by precision (IEEE 754 and OCP microscaling formats, scales not counted)."""


def as_array(value: ArrayLike) -> FloatArray:
    """`value` as a float64 array of at least one dimension."""
    return np.atleast_1d(np.asarray(value, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a fit comes from and how far it was off.

    `mape`, `median` and `p90` are absolute relative errors (fractions) on all `points`; the `held_out_` ones come
    from fitting one half of the shapes and predicting the other. None where nothing was measured.
    """

    source: str
    points: int = 0
    mape: float | None = None
    median: float | None = None
    p90: float | None = None
    held_out_mape: float | None = None
    held_out_median: float | None = None
    held_out_p90: float | None = None
    inherited: bool = False
    date: str = ""


@dataclass(frozen=True, slots=True)
class Validity:
    """Closed ranges of the inputs a fit was made on, by input name; an input not named is not bounded."""

    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def outside(self, **inputs: ArrayLike) -> BoolArray:
        """True where any named input leaves its range; the inputs broadcast, the result has shape (N,)."""
        result: BoolArray = np.zeros(1, dtype=np.bool_)
        for name, value in inputs.items():
            low, high = self.ranges.get(name, (-np.inf, np.inf))
            array = as_array(value)
            result = result | (array < low) | (array > high)
        return result


@dataclass(frozen=True, slots=True)
class GemmFit:
    """t = launch_s + max(FLOPs / (peak * efficiency) * fill, bytes / (bandwidth * memory_efficiency)) + cast.

    fill = (1 + half_m / (batch m))(1 + half_n / n)(1 + half_k / k)(1 + half_units / units): a pipeline prologue or tile
    edge costs a dimension a fixed number of elements. The products of a batch share the grid, so their rows add up (two
    measured batched products of a 910B: +8 and +17%, against +25 and +34% with rows counted singly). units = batch *
    m * n / 128^2 is the number of result tiles, few of which leave cores idle.
    cast = cast_launch_s + 3 m k / (bandwidth * cast_efficiency) is the conversion of a 2-byte
    activation to 1 byte inside the call (2 bytes read, 1 written); efficiency 0 means that the call has none.
    """

    launch_s: float  # s, device-side floor of one kernel
    efficiency: float  # fraction of dense peak for an infinite product
    memory_efficiency: float  # fraction of nominal bandwidth
    half_m: float  # elements
    half_n: float  # elements
    half_k: float  # elements
    half_units: float  # result tiles of 128 x 128
    cast_launch_s: float  # s
    cast_efficiency: float  # fraction of nominal bandwidth
    provenance: Provenance
    validity: Validity


@dataclass(frozen=True, slots=True)
class GroupedGemmFit:
    """A grouped product is a product per expert under one launch; `half_m` then counts rows per expert."""

    launch_s: float  # s
    efficiency: float  # fraction of dense peak
    memory_efficiency: float  # fraction of nominal bandwidth
    half_m: float  # rows per expert
    half_n: float  # elements
    half_k: float  # elements
    provenance: Provenance
    validity: Validity


@dataclass(frozen=True, slots=True)
class AttentionFit:
    """t = launch_s + hypot(FLOPs / (peak * efficiency) * fill, bytes / (bandwidth * memory_efficiency)).

    fill = (1 + half_keys / keys)(1 + half_units / units)(1 + half_dim / d) / (1 + half_dim / 128), d at most 128.
    keys = mean number of keys a query attends to; its factor is the work in masked parts of diagonal blocks, so it
    applies under a causal mask only. units = batch * heads * queries / 128 are the work items of the grid. The
    quadratic mean stands between a kernel that overlaps loads with products fully (maximum) and not at all (sum).
    """

    launch_s: float  # s
    efficiency: float  # fraction of dense peak for long sequences, many heads, head dimension 128
    memory_efficiency: float  # fraction of nominal bandwidth
    half_keys: float  # keys
    half_units: float  # work items of 128 queries
    half_dim: float  # elements of the head dimension
    backward_efficiency: float  # backward rate / forward rate, both per FLOP
    provenance: Provenance
    validity: Validity


@dataclass(frozen=True, slots=True)
class DecodeFit:
    """Decode attention reads the cache: t = launch_s + bytes / (bandwidth * memory_efficiency) * fill.

    fill = 1 + half_units / units, units = batch * kv_heads * context / 128.
    """

    launch_s: float  # s
    memory_efficiency: float  # fraction of nominal bandwidth
    half_units: float  # work items of 128 keys
    provenance: Provenance
    validity: Validity


@dataclass(frozen=True, slots=True)
class VectorFit:
    """t = launches * launch_s + bytes / (bandwidth * memory_efficiency)."""

    launch_s: float  # s, device-side floor of one kernel
    memory_efficiency: float  # fraction of nominal bandwidth
    provenance: Provenance
    validity: Validity


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """All operator constants of one device family."""

    family: str
    reference: str  # which peak and bandwidth the fractions refer to
    gemm: Mapping[str, GemmFit]  # by precision
    grouped_gemm: Mapping[str, GroupedGemmFit]  # by precision
    attention: Mapping[str, AttentionFit]  # by kernel
    default_attention: str  # kernel that stands for one without its own entry
    decode: DecodeFit
    vector: Mapping[str, VectorFit]  # by kind: elementwise, normalization, softmax, ...
    optimizer: VectorFit
    tile: int = 1  # matrix unit pads each dimension of a product to this many elements
    aligned_elements: int = 1  # n and k must be multiples of this to stay on the fast path
    misaligned_slowdown: float = 1.0  # factor on compute time otherwise
    inherits: str | None = None  # family and rule the constants come from where not measured

"""Which communication hides behind which compute, what never hides, and how much it slows the compute down.

Sources:
[1] Megatron-LM megatron/core/distributed: gradient buckets of max(40e6, 1e6 x data-parallel ranks) parameters; the
    reduction of a bucket starts when its last gradient is ready, so the last bucket of backward has nothing to hide
    behind; parameter gathers start with the first bucket of the next forward, which waits.
[2] Step-time model against 524 published training runs: MC2 hides about 25% of tensor-parallel communication
    (assumed there, worth 1.0 to 1.4 points of error); expert all-to-all overlap 70%.
[3] Ascend/MindSpeed docs/zh/features: asynchronous gradient reduction +2 to 3%, parameter gather +3.4%, CoC +3.2 to
    +7.85%, 2-D tensor parallel +5%; forward-backward overlap with DualPipeV hides 100% of the expert all-to-all in
    steady state and 50% in warm-up and cool-down.
[4] DeepEP: 20 of 132 processors of an H100 or H200 move data in the normal mode.
[5] HCCL guidance of MindSpore: compute and communication contend for HBM, communication slows by 1 to 2 times.
[6] MindSpeed auto_settings: ring attention needs 8192 tokens per rank (910B) or 4096 (A3) to hide its sends.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

TENSOR_HIDDEN: Final = {"none": 0.0, "mc2": 0.25, "coc": 0.25, "bulk": 0.0}
"""Share of tensor-parallel communication hidden inside the operator; CoC as MC2 [2]."""

EXPERT_HIDDEN: Final = {"none": 0.0, "all_to_all": 0.7, "forward_backward": 1.0, "forward_backward_ramp": 0.5}
"""Share of the expert all-to-all hidden: plain overlap [2], forward-backward overlap in steady state and ramps [3]."""

RING_ATTENTION_TOKENS: Final = {"a2": 8192, "a3": 4096}
"""Tokens per rank from which ring attention hides its sends [6]."""

COMMUNICATION_PROCESSORS: Final = {"nccl": 20.0 / 132.0, "rccl": 20.0 / 132.0, "hccl": 0.0, "ideal": 0.0}
"""Share of the compute units that communication kernels occupy [4]; HCCL moves data by SDMA and RDMA engines."""

MEMORY_PASSES: Final = 3.0
"""Bytes of device memory touched per byte received and reduced: read own, read received, write sum."""


def bucket_parameters(data_parallel: IntArray) -> FloatArray:
    """Parameters of one gradient bucket, shape (N,): max(40e6, 1e6 x data-parallel ranks) [1]."""
    return np.asarray(np.maximum(40.0e6, 1.0e6 * data_parallel), dtype=np.float64)


def never_hidden_share(parameters: FloatArray, data_parallel: IntArray) -> FloatArray:
    """Share of gradient (or parameter) traffic in the bucket that finishes last (or is needed first). Shape (N,).

    `parameters`: parameters a rank exchanges. 1 where everything fits into one bucket.
    """
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, bucket_parameters(data_parallel) / np.maximum(parameters, 1.0))


def exposed_seconds(
    communication: FloatArray, compute: FloatArray, never_hidden: npt.ArrayLike = 0.0, slowdown: npt.ArrayLike = 0.0
) -> FloatArray:
    """Seconds that communication adds to compute it may run behind. Shape (N,).

    Communication hides as far as compute lasts, except the share `never_hidden`; while both run, compute is slower by
    the fraction `slowdown`, which is charged here: max(never C, C - W) + slowdown x hidden, W the compute seconds.
    """
    never = np.asarray(never_hidden, dtype=np.float64) * communication
    exposed = np.maximum(never, communication - compute)
    hidden = communication - exposed
    result: FloatArray = exposed + np.asarray(slowdown, dtype=np.float64) * hidden
    return result


def compute_slowdown(
    library: str, rate: npt.ArrayLike, memory_bandwidth: float, memory_bound_share: npt.ArrayLike = 0.5
) -> FloatArray:
    """Fraction by which compute is slower while communication at `rate` bytes/s runs beside it. Shape (N,).

    Compute units taken by the library [4], plus the device-memory traffic of the reduction on the share of compute
    that is bound by memory [5].
    """
    traffic = MEMORY_PASSES * np.atleast_1d(np.asarray(rate, dtype=np.float64)) / memory_bandwidth
    units = COMMUNICATION_PROCESSORS.get(library, 0.0)
    result: FloatArray = units / (1.0 - units) + traffic * np.asarray(memory_bound_share, dtype=np.float64)
    return result


def pipelined_tensor_exposed(
    communication: FloatArray, compute: FloatArray, chunks: int, per_chunk: float
) -> FloatArray:
    """Exposed seconds of a matrix product cut into `chunks` that alternate with their communication (CoC). Shape (N,).

    Compute of one chunk runs beside communication of another; the first compute chunk and the last communication
    chunk stand alone: C/k + W/k + (k-1) max(C, W)/k - W + k x per_chunk, never above C without splitting.
    """
    k = float(chunks)
    split = communication / k + compute / k + (k - 1.0) / k * np.maximum(communication, compute) - compute
    return np.minimum(communication, np.maximum(split, 0.0) + k * per_chunk)

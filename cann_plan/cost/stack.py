"""What a software stack adds to the operator and link models: the few parameters a profile may calibrate."""

from __future__ import annotations

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class Stack:
    """Parameters of one device x software stack; the defaults are the uncalibrated model (operator tables as fitted).

    Times multiply by `*_time`, rates by `*_rate`. Shares are fractions of a communication's time.
    """

    name: str = "uncalibrated"
    compute_time: float = 1.0  # matrix products and attention: training time over operator-table time
    vector_time: float = 1.0  # element-wise work
    attention_rate: float = 1.0  # attention kernel of this stack over the operator table's kernel
    fp8_rate: float = 1.0  # fp8 recipe over the operator table's fp8 product
    grouped_time: float = 1.0  # grouped expert products
    launch_s: float = 0.0  # host time per operator launch, seconds (0: never host bound)
    gap_s: float = 0.0  # idle time between dependent kernels, per launch, seconds; nothing hides it
    step_s: float = 0.0  # fixed time per step, seconds
    expert_hidden: float = 0.0  # share of expert all-to-all hidden behind compute when expert overlap is on
    mc2_hidden: float = 0.25  # share of tensor-parallel collectives hidden by fused matmul-communication kernels
    bulk_hidden: float = 0.0  # share of tensor-parallel collectives hidden by bulk overlap (Transformer Engine)

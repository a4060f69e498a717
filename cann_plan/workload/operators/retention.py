"""What a software stack's kernels keep from forward to backward, or hold while they run, beside the tensors that every
implementation must keep.
"""

from __future__ import annotations

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class LogitBytes:
    """Bytes per logit of an implementation of cross entropy; `saved` lives from forward to backward.

    `forward`, `backward`: what is alive besides at the worst point of each pass.
    """

    saved: float
    forward: float
    backward: float


@dataclass(frozen=True, slots=True)
class Retention:
    """Habits of a stack.

    `softmax_statistics`: bytes per query and head that fused attention keeps. `context_copy`: the attention output is
    kept in the kernel's layout and again in the layer's. `rope_input`: the fused rotary kernel keeps its input.
    `weight_gradient`: a weight's gradient exists in the compute precision before it is added to the gradient buffer;
    `reduced_gradient`: bytes per element of its copy in the precision of the exchange.
    `logits`: of an unfused loss; `fused_logits`: of a fused one.
    """

    softmax_statistics: float = 4.0
    context_copy: bool = False
    rope_input: bool = False
    weight_gradient: bool = True
    reduced_gradient: float = 0.0
    logits: LogitBytes = LogitBytes(4.0, 2.0, 2.0)
    fused_logits: LogitBytes = LogitBytes(2.0, 0.0, 0.0)


DEFAULT_RETENTION = Retention()
"""Megatron-Core's loss, a fused attention kernel that keeps one statistic."""

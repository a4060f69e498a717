"""Bytes per parameter of training states, by stack and precision."""

from __future__ import annotations

from dataclasses import replace

from cann_plan.cost.problem import StateBytes
from cann_plan.planner.assumptions import Assumptions
from cann_plan.spec.profile import ProfileSpec
from cann_plan.spec.training import TrainingSpec

ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
MOMENTS = {"adam": 2, "adamw": 2, "lamb": 2, "sgd": 0, "momentum": 1, "lion": 1, "adafactor": 1, "muon": 1}
"""Moment tensors per parameter; Adafactor's factored second moment is negligible beside its first moment."""


def compute_dtype(precision: str) -> str:
    """Precision of activations and unquantised products."""
    return precision if precision in ("bf16", "fp16", "fp32", "tf32") else "bf16"


def linear_dtype(precision: str) -> str:
    """Precision of linear layers."""
    return "fp8" if precision in ("fp8", "fp8_blockwise", "mxfp8", "hif8") else compute_dtype(precision)


def state_bytes(training: TrainingSpec, precision: str, profile: ProfileSpec, assumptions: Assumptions) -> StateBytes:
    """Weights, gradients and optimizer states, before sharding, and which of them the first update creates."""
    states = _state_bytes(training, precision, profile, assumptions)
    optimizer = training.optimizer
    late = MOMENTS[optimizer.name or "adamw"] * ELEMENT_BYTES[optimizer.state_dtype or "fp32"]
    kept = 0.0 if optimizer.in_backward else states.gradient
    return replace(states, late=min(late, states.optimizer), gradient=kept)


def _state_bytes(training: TrainingSpec, precision: str, profile: ProfileSpec, assumptions: Assumptions) -> StateBytes:
    """Weights, gradients and optimizer states, before sharding.

    megatron: bf16 2 + 4 (fp32 main gradients) + 12 = 18; fp16 2 + 2 + 16 (fp32 copy of the gradients in the
    optimizer) = 20 unsharded, 4 + 16/d with a distributed optimizer. fsdp: fp32 shards 4 + 4 + 8, half-precision
    gathered copies. deepspeed: 2 + 2 + 12. mindspore: fp32 parameters and
    moments with half-precision gradients.
    """
    scheme = profile.defaults.states
    dtype = compute_dtype(precision)
    width = ELEMENT_BYTES[dtype]
    half = width == 2.0
    optimizer = training.optimizer
    name = optimizer.name or "adamw"
    if optimizer.name is None:
        assumptions.add("training.optimizer", "adamw", "default")
    moment = ELEMENT_BYTES[optimizer.state_dtype or "fp32"]
    moments = MOMENTS[name] * moment
    master = 4.0 if half and optimizer.master_weights is not False else 0.0
    if master and optimizer.reuse_master_weights:
        master = 2.0  # MindSpeed docs/features/reuse-fp32-param: the lower halves alone are added
    gradient = ELEMENT_BYTES[training.gradient_dtype] if training.gradient_dtype else None
    if gradient is None and profile.defaults.gradient_bytes is not None:
        gradient = profile.defaults.gradient_bytes
    if scheme == "fsdp":
        held = 4.0 if half and optimizer.master_weights is not False else width
        grads = gradient if gradient is not None else held
        return StateBytes(held, grads, moments, grads, width, width, held * 2.0 + moments * 2.0 + grads)
    if scheme == "deepspeed":
        grads = gradient if gradient is not None else width
        reduced = grads
        if dtype == "bf16" and profile.defaults.legacy and gradient is None:
            # BF16_Optimizer under the pipeline engine accumulates in fp32 and keeps the 16-bit gradients beside
            # (deepspeed/runtime/bf16_optimizer.py, pipe/engine.py: update_hp_grads(clear_lp_grads=False))
            grads, reduced = width + 4.0, 4.0
        states = master + moments
        return StateBytes(width, grads, states, reduced, width, width, 2.0 * states + reduced + 2.0 * width)
    if scheme == "mindspore":
        grads = gradient if gradient is not None else width
        return StateBytes(width, grads, master + moments, grads, width, width,
                          2.0 * (master + moments) + grads + width)  # fmt: skip
    if dtype == "fp16":
        grads = gradient if gradient is not None else 2.0
        copy = 4.0 if grads == 2.0 else 0.0
        return StateBytes(2.0, grads, master + moments + copy, grads, 2.0, 2.0,
                          2.0 * (master + moments + copy) + grads + 2.0)  # fmt: skip
    grads = gradient if gradient is not None else 4.0
    return StateBytes(width, grads, master + moments, grads, width, width, 2.0 * (master + moments) + grads + width)

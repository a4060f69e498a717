"""Dense feed-forward block as an ordered list of operators."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.architecture import DenseFfn
from cann_plan.workload.operators.common import (
    ALTERNATE,
    enter_tensor_parallel,
    leave_tensor_parallel,
    linear,
    lora_adapter,
    norm,
    residual,
    trained,
)
from cann_plan.workload.operators.operator import Array, Operator, Saved, Vector
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

BLOCK = "mlp"


def activation(
    name: str,
    settings: LayerSettings,
    tokens: Array,
    width: Array,
    *,
    gated: bool,
    modules: tuple[str, ...] = (BLOCK, "activation"),
) -> Operator:
    """The non-linearity: gated reads two widths and writes one; unfused keeps and moves one more tensor.

    Saves its output, the next linear's input; a fused SwiGLU saves nothing more, since its input is the up
    projection's saved output.
    """
    size = tokens * width * settings.element_bytes
    fused = "swiglu" in settings.fused if gated else "bias_gelu" in settings.fused
    saved = [Saved(f"{name}_output", size, ("layer", *modules, ALTERNATE))] if trained(settings, "mlp") else []
    if gated:
        passes, backward = (3.0, 5.0) if fused else (5.0, 9.0)
        if not fused:
            saved.append(Saved(f"{name}_silu", size, ("layer", *modules, ALTERNATE)))
    else:
        passes, backward = (2.0, 3.0) if fused else (4.0, 6.0)
    return Operator(
        name,
        (*modules, ALTERNATE),
        Vector(size * passes, size * backward, 1 if fused else 2, 1 if fused else 3),
        saved=tuple(saved),
        forward_temporary=size,
        backward_temporary=size * (2.0 if gated else 1.0),
    )


def feed_forward_operators(
    ffn: DenseFfn,
    rows: LayerRows,
    settings: LayerSettings,
    *,
    norms: int = 2,
    skip_norm: bool = False,
    first: bool = False,
) -> list[Operator]:
    """Operators of a dense feed-forward block in execution order."""
    e = settings.element_bytes
    tokens = settings.tokens(rows)
    width = ffn.hidden / rows.tensor
    up_width = width * (2.0 if ffn.gated else 1.0)
    hidden = np.full_like(width, float(settings.hidden))
    operators: list[Operator] = []
    if not skip_norm:
        kept = trained(settings, "mlp")
        operators.append(norm("mlp_norm", rows, settings, settings.hidden, keep_input=first, keep_output=kept))
    operators.append(enter_tensor_parallel("mlp_gather", (BLOCK,), rows, settings, settings.hidden))
    operators.append(
        linear("mlp_up", (BLOCK, "mlp_up"), settings, tokens, up_width, hidden,
               saved=(Saved("mlp_up_output", tokens * width * e, ("layer", BLOCK)),
                      Saved("mlp_second_up_output", tokens * (up_width - width) * e, ("layer", BLOCK, ALTERNATE))))
    )  # fmt: skip
    if settings.lora_rank and "mlp" in settings.lora_targets:
        operators += lora_adapter("mlp_up", (BLOCK,), settings, tokens, up_width, hidden)
    operators.append(activation("mlp_activation", settings, tokens, width, gated=ffn.gated))
    # of equal work as the second up projection, in whose place it is charged to a replay of every second product
    operators.append(
        linear("mlp_down", (BLOCK, ALTERNATE), settings, tokens, hidden, width,
               saved=(Saved("mlp_down_output", tokens * settings.hidden * e, (), (ALTERNATE,)),))
    )  # fmt: skip
    if settings.lora_rank and "mlp" in settings.lora_targets:
        operators += lora_adapter("mlp_down", (BLOCK,), settings, tokens, hidden, width)
    operators.append(leave_tensor_parallel("mlp_scatter", (BLOCK,), rows, settings, settings.hidden))
    if norms >= 4:
        operators.append(norm("mlp_post_norm", rows, settings, settings.hidden, keep_input=False))
    operators.append(residual("mlp_residual", (BLOCK,), rows, settings))
    return operators

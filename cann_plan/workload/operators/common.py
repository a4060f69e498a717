"""Operators that several layer kinds share: norms, linear layers, tensor-parallel exchanges, residual adds."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.operators.operator import Array, Exchange, Gemm, Message, Operator, Saved, Vector
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

ALTERNATE = "alternate_linear"
"""Recompute module of torchtitan's selective policy: outputs of every second matrix product and of attention are kept,
all else is rebuilt. Of a LLaMA layer's seven products k, o and the second up projection are run again."""
NORM_PASSES_FUSED = 2.0
"""Read the input, write the output (one kernel)."""
NORM_PASSES_UNFUSED = 8.0
"""RMSNorm in separate kernels: cast up, square, mean, rsqrt-multiply, cast down, weight: 8 passes of two bytes."""
NORM_BACKWARD_PASSES = 3.0
"""Read input and output gradient, write input gradient."""
ROPE_PASSES_FUSED = 2.0
ROPE_PASSES_UNFUSED = 9.0
"""split, neg, cat (3 passes), two products and a sum (2 reads + 1 write each) in separate kernels."""


def trained(settings: LayerSettings, projection: str) -> bool:
    """Whether a projection's weight gradient needs the projection's input: always, except frozen ones that LoRA gives
    no adapter.
    """
    return settings.lora_rank == 0 or projection in settings.lora_targets


def norm(
    name: str,
    rows: LayerRows,
    settings: LayerSettings,
    width: Array | float,
    *,
    keep_input: bool,
    module: str = "norm",
    keep_output: bool = True,
) -> Operator:
    """A normalisation of `width` elements per token; saves its output (the next linear's input) and its input.

    `keep_input` marks the layer input, which every recompute policy keeps; `keep_output`: the next linear needs it.
    """
    elements = settings.tokens(rows) * width / rows.sequence_shards
    size = elements * settings.element_bytes
    passes = NORM_PASSES_FUSED if "rmsnorm" in settings.fused or "layernorm" in settings.fused else NORM_PASSES_UNFUSED
    if settings.norm == "layernorm":
        passes = NORM_PASSES_FUSED  # every framework ships a fused layer norm
    launches = 1 if passes == NORM_PASSES_FUSED else 6
    return Operator(
        name,
        (module, ALTERNATE),
        Vector(size * passes, size * NORM_BACKWARD_PASSES * passes / NORM_PASSES_FUSED, launches, 2 * launches),
        saved=(
            Saved("layer_input" if keep_input else f"{name}_input", size, () if keep_input else ("layer", ALTERNATE)),
            *((Saved(f"{name}_output", size, ("layer", module, ALTERNATE)),) if keep_output else ()),
        ),
        forward_temporary=size,
        backward_temporary=2.0 * size,
    )


def linear(
    name: str,
    modules: tuple[str, ...],
    settings: LayerSettings,
    tokens: Array,
    n: Array,
    k: Array,
    *,
    saved: tuple[Saved, ...] = (),
    quantised: bool = True,
    frozen: bool = False,
) -> Operator:
    """A linear layer on `tokens` rows; the output is a forward temporary, both gradients are backward temporaries,
    and so is the gradient of a trained weight until it is added to the gradient buffer.
    """
    e = settings.element_bytes
    untrained = frozen or settings.lora_rank > 0
    keeps = settings.retention
    weight = n * k * (0.0 if untrained or not keeps.weight_gradient else e + keeps.reduced_gradient)
    return Operator(
        name,
        modules,
        Gemm(tokens, n, k, quantised=quantised, frozen=untrained),
        saved=saved,
        forward_temporary=tokens * n * e,
        backward_temporary=tokens * (n + k) * e + weight,
    )


def lora_adapter(
    name: str, modules: tuple[str, ...], settings: LayerSettings, tokens: Array, n: Array, k: Array
) -> list[Operator]:
    """The two trained low-rank products beside a frozen linear layer (LoRA, arXiv 2106.09685)."""
    if settings.lora_rank == 0:
        return []
    rank = np.full_like(n, float(settings.lora_rank))
    e = settings.element_bytes
    return [
        Operator(
            f"{name}_lora_a",
            modules,
            Gemm(tokens, rank, k, quantised=False),
            saved=(Saved(f"{name}_lora_hidden", tokens * rank * e, ("layer", *modules)),),
        ),
        Operator(f"{name}_lora_b", modules, Gemm(tokens, n, rank, quantised=False)),
    ]


def enter_tensor_parallel(
    name: str, modules: tuple[str, ...], rows: LayerRows, settings: LayerSettings, width: Array | float
) -> Operator:
    """Before a column-parallel linear: all-gather with sequence parallelism, else only the backward all-reduce.

    With sequence parallelism the backward re-gathers the input behind the input-gradient product (Megatron-LM,
    arXiv 2205.05198 section 4.2.2), so only the reduce-scatter of the input gradient is exposed.
    """
    size = settings.tokens(rows) * width * settings.element_bytes
    split = np.where(rows.sequence_parallel > 0, size, 0.0)
    whole = np.where(rows.sequence_parallel > 0, 0.0, size)
    return Operator(
        name,
        modules,
        Exchange(
            "tensor",
            (Message("all_gather", split),),
            (Message("reduce_scatter", split), Message("all_reduce", whole)),
            (Message("all_gather", split),),
        ),
        forward_temporary=split,
        backward_temporary=split,
    )


def leave_tensor_parallel(
    name: str, modules: tuple[str, ...], rows: LayerRows, settings: LayerSettings, width: Array | float
) -> Operator:
    """After a row-parallel linear: reduce-scatter with sequence parallelism (backward all-gather), else all-reduce."""
    size = settings.tokens(rows) * width * settings.element_bytes
    split = np.where(rows.sequence_parallel > 0, size, 0.0)
    whole = np.where(rows.sequence_parallel > 0, 0.0, size)
    return Operator(
        name,
        modules,
        Exchange(
            "tensor",
            (Message("reduce_scatter", split), Message("all_reduce", whole)),
            (Message("all_gather", split),),
        ),
    )


def residual(name: str, modules: tuple[str, ...], rows: LayerRows, settings: LayerSettings) -> Operator:
    """Bias, dropout and residual add: one kernel when fused (read two, write one), else one more pass each."""
    elements = settings.tokens(rows) * settings.hidden / rows.sequence_shards
    size = elements * settings.element_bytes
    fused = "dropout_add" in settings.fused or not settings.dropout
    saved = (Saved(f"{name}_mask", elements * 1.0, ("layer", *modules)),) if settings.dropout else ()
    passes = 3.0 if fused else 7.0
    mask = elements if settings.dropout else elements * 0.0
    # without dropout the gradient passes through the add; gradients of the two branches are summed once
    backward = size * 3.0 + mask if settings.dropout else size * 3.0
    return Operator(
        name,
        modules,
        Vector(size * passes + mask, backward, 1 if fused else 3, 1 if fused else 3),
        saved=saved,
        forward_temporary=size,
        backward_temporary=size,
    )

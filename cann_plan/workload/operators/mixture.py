"""Mixture-of-experts feed-forward block as an ordered list of operators."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.architecture import DenseFfn, MoeFfn
from cann_plan.workload.operators.common import linear, norm, residual, trained
from cann_plan.workload.operators.feed_forward import activation, feed_forward_operators
from cann_plan.workload.operators.operator import Exchange, GroupedGemm, Message, Operator, Saved, Vector
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

BLOCK = "moe"


def mixture_operators(
    ffn: MoeFfn,
    rows: LayerRows,
    settings: LayerSettings,
    *,
    norms: int = 2,
    skip_norm: bool = False,
    first: bool = False,
) -> list[Operator]:
    """Operators of a routed block: norm, router, permute, dispatch, experts, combine, un-permute, shared experts.

    A device routes its own tokens (sharded over the tensor-parallel group with sequence parallelism), sends each to
    `top_k` experts over the expert-parallel group, and its experts see top_k x its own tokens on average (x
    `imbalance` on the busiest rank, or at most `capacity_factor` x with dropping), gathered over the expert-tensor
    group.
    """
    e = settings.element_bytes
    tokens = settings.tokens(rows) / rows.sequence_shards
    hidden = np.full_like(tokens, float(settings.hidden))
    inner = np.full_like(tokens, float(ffn.latent or settings.hidden))
    routed = tokens * ffn.top_k
    load = settings.imbalance if settings.capacity_factor is None else settings.capacity_factor
    received = routed * load * rows.expert_tensor
    width = ffn.hidden / rows.expert_tensor
    up_width = width * (2.0 if ffn.gated else 1.0)
    local_experts = ffn.experts / rows.expert
    # gradients of all local experts in the compute precision before they are added to the gradient buffer
    gradient = local_experts * (0.0 if settings.lora_rank or not settings.retention.weight_gradient else e)
    layer = ("layer", BLOCK)
    operators: list[Operator] = []
    if not skip_norm:
        kept = trained(settings, "mlp")
        operators.append(norm("moe_norm", rows, settings, settings.hidden, keep_input=first, keep_output=kept))
    router = linear(
        "router", (BLOCK, "router"), settings, tokens, np.full_like(tokens, float(ffn.experts)), hidden,
        saved=(Saved("router_probabilities", tokens * ffn.experts * 4.0, layer),), quantised=False,
    )  # fmt: skip
    operators.append(router)
    operators.append(
        Operator("router_top_k", (BLOCK, "router"),
                 Vector(tokens * ffn.experts * 4.0 * 4.0, tokens * ffn.experts * 4.0 * 3.0, 6, 4))
    )  # fmt: skip
    if ffn.latent:
        operators.append(linear("latent_down", (BLOCK,), settings, tokens, inner, hidden))
    fused = "moe_permute" in settings.fused
    permute = routed * inner * e
    operators.append(
        Operator("permute", (BLOCK, "permute"), Vector(permute * (2.0 if fused else 4.0), permute * 3.0, 2, 2),
                 forward_temporary=permute, backward_temporary=permute)
    )  # fmt: skip
    send = np.where(rows.expert > 1.0, permute * load, 0.0)
    gathered = np.where(rows.expert_tensor > 1.0, received * inner * e, 0.0)
    whole = np.where(rows.expert > 1.0, tokens * inner * e * rows.expert, 0.0) * float(settings.gather_dispatch)
    if settings.gather_dispatch:
        scatter, collect = Message("reduce_scatter", whole), Message("all_gather", whole)
        dispatch = Exchange("expert", (collect,), (scatter,))
        combine = Exchange("expert", (scatter,), (collect,))
    else:
        dispatch = combine = Exchange("expert", (Message("all_to_all", send),), (Message("all_to_all", send),))
    gather = Exchange("expert_tensor", (Message("all_gather", gathered),), (Message("reduce_scatter", gathered),))
    # a gathering dispatcher holds every rank's tokens, and their gradients, on both sides of the experts
    operators.append(
        Operator("dispatch", (BLOCK, "dispatch"), dispatch, forward_temporary=received * inner * e + whole,
                 backward_temporary=whole)
    )  # fmt: skip
    operators.append(Operator("dispatch_gather", (BLOCK, "dispatch"), gather))
    operators.append(
        Operator("expert_up", (BLOCK, "experts"), GroupedGemm(local_experts, received, up_width, inner),
                 saved=(*((Saved("expert_input", received * inner * e, layer),) if trained(settings, "mlp") else ()),
                        Saved("expert_up_output", received * up_width * e, layer)),
                 forward_temporary=received * up_width * e,
                 backward_temporary=received * (up_width + inner) * e + gradient * up_width * inner)
    )  # fmt: skip
    operators.append(
        activation("expert_activation", settings, received, width, gated=ffn.gated, modules=(BLOCK, "moe_activation"))
    )
    down_saved = () if settings.probs_in_activation else (Saved("expert_output", routed * inner * e, layer),)
    operators.append(
        Operator("expert_down", (BLOCK, "experts"), GroupedGemm(local_experts, received, inner, width),
                 saved=down_saved, forward_temporary=received * inner * e,
                 backward_temporary=received * (width + inner) * e + gradient * inner * width)
    )  # fmt: skip
    combine_gather = Exchange(
        "expert_tensor", (Message("reduce_scatter", gathered),), (Message("all_gather", gathered),)
    )
    operators.append(Operator("combine_scatter", (BLOCK, "dispatch"), combine_gather))
    operators.append(
        Operator("combine", (BLOCK, "dispatch"), combine, forward_temporary=permute + whole, backward_temporary=whole)
    )  # fmt: skip
    operators.append(
        Operator("unpermute", (BLOCK, "permute"), Vector(permute * (1.5 if fused else 4.0), permute * 3.0, 2, 2),
                 forward_temporary=permute, backward_temporary=permute)
    )  # fmt: skip
    if ffn.latent:
        operators.append(linear("latent_up", (BLOCK,), settings, tokens, hidden, inner))
    if ffn.shared_hidden:
        shared = DenseFfn(ffn.shared_hidden, ffn.gated, ffn.activation, ffn.bias)
        operators += feed_forward_operators(shared, rows, settings, norms=2, skip_norm=True)[:-1]
    if norms >= 4:
        operators.append(norm("moe_post_norm", rows, settings, settings.hidden, keep_input=False))
    operators.append(residual("moe_residual", (BLOCK,), rows, settings))
    return operators

"""The ends of the model: token embedding on the first stage, final norm, head and loss on the last."""

from __future__ import annotations

import numpy as np

from cann_plan.workload.operators.common import enter_tensor_parallel, leave_tensor_parallel, linear, norm
from cann_plan.workload.operators.operator import Array, Operator, Saved, Vector
from cann_plan.workload.operators.rows import LayerRows, LayerSettings


def embedding_operators(rows: LayerRows, settings: LayerSettings) -> list[Operator]:
    """Vocabulary-parallel lookup, its reduction over the tensor-parallel group and the embedding dropout."""
    tokens = settings.tokens(rows)
    size = tokens * settings.hidden * settings.element_bytes
    local = size / rows.sequence_shards
    mask = tokens * settings.hidden / rows.sequence_shards
    lookup = Operator(
        "embedding", ("embedding",),
        # backward adds token gradients into the fp32 table gradient: read gradient, read and write the table rows
        Vector(size * 2.0, size + tokens * settings.hidden * 8.0, 2, 2), forward_temporary=size,
    )  # fmt: skip
    operators = [lookup, leave_tensor_parallel("embedding_scatter", ("embedding",), rows, settings, settings.hidden)]
    if settings.dropout:
        operators.append(
            Operator("embedding_dropout", ("embedding",), Vector(local * 2.0 + mask, local * 2.0 + mask),
                     saved=(Saved("embedding_mask", mask),))
        )  # fmt: skip
    return operators


def head_operators(
    rows: LayerRows, settings: LayerSettings, padded_vocabulary: Array, *, final_norm: bool, fused_loss: bool
) -> list[Operator]:
    """Final norm, logits product and cross entropy over the vocabulary-parallel logits.

    Saved: norm input and output, and the logits: in fp32 (arXiv 2205.05198 section 4.3), or in the compute precision
    with a fused loss that writes the gradient over them. How many copies exist at once is the stack's habit.
    """
    tokens = settings.tokens(rows)
    vocabulary = padded_vocabulary / rows.tensor
    hidden = np.full_like(tokens, float(settings.hidden))
    e = settings.element_bytes
    operators: list[Operator] = []
    if final_norm:
        operators.append(norm("final_norm", rows, settings, settings.hidden, keep_input=True))
    operators.append(enter_tensor_parallel("head_gather", ("head",), rows, settings, settings.hidden))
    logits = tokens * vocabulary
    operators.append(linear("head", ("head",), settings, tokens, vocabulary, hidden, quantised=False))
    share = np.ones_like(tokens)
    if settings.loss_chunk is not None:
        # a chunked loss computes its gradient in forward, chunk by chunk, and keeps no logits
        share = np.minimum(settings.loss_chunk / tokens, 1.0)
    chunked = settings.loss_chunk is not None
    per_logit = settings.retention.fused_logits if fused_loss else settings.retention.logits
    kept = logits * (0.0 if chunked else per_logit.saved)
    alive = logits * share
    # unfused (Megatron-LM vocab_parallel_cross_entropy): cast to fp32 e + 4, maximum 4, subtract 8, exponentiate 8,
    # sum 4, divide 8 bytes per logit; backward multiplies the kept softmax 8 and casts back 4 + e
    passes = logits * (e * 2.0 if fused_loss else e + 36.0)
    backward = logits * (e * 2.0 if fused_loss else 12.0 + e)
    operators.append(
        Operator(
            "loss", ("head",), Vector(passes, backward, 2 if fused_loss else 8, 1 if fused_loss else 3),
            saved=(Saved("logits", kept),),
            forward_temporary=alive * (per_logit.saved * chunked + per_logit.forward),
            backward_temporary=alive * (0.0 if chunked else per_logit.backward),
        )
    )  # fmt: skip
    return operators

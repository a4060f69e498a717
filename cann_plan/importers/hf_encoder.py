"""Encoders of the BERT kind: bidirectional attention, norms behind the blocks, a masked-token head."""

from __future__ import annotations

from cann_plan.importers.hf_config import FFN, Fields, HfConfig, decoder


def _encoder(c: HfConfig, **fields: object) -> Fields:
    base: Fields = {
        "ffn_hidden_size": c.integer(*FFN, "hidden_dim"),
        "gated": False,
        "activation": c.activation("gelu"),
        "norm": "layernorm",
        "bias": True,
        "position": "learned",
        "position_table": c.integer("max_position_embeddings"),
        "embedding_norm": True,
        "final_norm": False,
        "tied_embeddings": c.flag("tie_word_embeddings", default=True),
        "encoder": True,
        "dropout": True,
    }
    return decoder(c, **(base | fields))


def bert(c: HfConfig) -> Fields:
    """BERT, RoBERTa and what uses their classes; `architectures` says which head is trained.

    Counted outside the layers: the pooler, the masked-token transform with its norm, the next-sentence classifier.
    A masked-token model (the default) has no pooler; a bare model has nothing else.
    """
    architecture = c.architecture() or "MaskedLM"
    hidden = c.hidden
    dense = hidden * hidden + hidden
    pooler, transform, next_sentence = dense, dense + 2 * hidden, 2 * hidden + 2
    if architecture.endswith("ForPreTraining"):
        extra, note, head = pooler + transform + next_sentence, "pooler, transform, next-sentence classifier", True
    elif architecture.endswith(("MaskedLM", "LMHeadModel", "CausalLM")):
        extra, note, head = transform, "masked-token transform", True
    elif architecture.endswith("Model"):
        extra, note, head = pooler, "pooler", False
    else:
        raise c.unsupported(f"with the head of {architecture}")
    return _encoder(
        c, token_types=c.integer("type_vocab_size", default=2), head_bias=head, extra_parameters=extra, extra_note=note,
        **({} if head else {"tied_embeddings": True}),
    )  # fmt: skip


def distilbert(c: HfConfig) -> Fields:
    """DistilBERT: BERT without token types and pooler."""
    hidden = c.integer("hidden_size", "dim")
    architecture = c.architecture() or "MaskedLM"
    head = not architecture.endswith("Model")
    if head and not architecture.endswith("MaskedLM"):
        raise c.unsupported(f"with the head of {architecture}")
    extra = hidden * hidden + hidden + 2 * hidden if head else 0
    fields = _encoder(
        HfConfig({**c.data, "hidden_size": hidden}, c.defaults, c.model_type), head_bias=head, extra_parameters=extra
    )
    return fields | ({"extra_note": "masked-token transform"} if head else {})

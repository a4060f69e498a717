"""What a user writes to describe a model: flat for the usual transformer, with lists and parts for the unusual one."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from cann_plan.spec.base import Section
from cann_plan.spec.model_parts import (
    Activation,
    FeedForward,
    LinearAttentionSpec,
    Mixer,
    MlaSpec,
    MoeSpec,
    PerLayer,
    PerLayerPositive,
    PublishedParameters,
    StateSpaceSpec,
)
from cann_plan.spec.quantity import Count, Name, NonNegativeInt, PositiveInt, refuse

MAX_LAYERS = 10_000
"""Layers; no published model has more than a few hundred."""


class ModelSpec(Section):
    """A transformer, or a hybrid of attention, linear attention and state-space layers.

    Sizes are element counts, unsharded. A number marked "per layer" may be a list with one entry per layer; 0 for the
    feed-forward width means a layer without one. `mixers` and `feed_forwards` are repeated to the number of layers.
    """

    kind: Literal["transformer"] = "transformer"
    name: Name = Field("model", description="name shown in reports")
    extends: Name | None = Field(None, description="preset or file this description starts from")
    source: Name | dict[str, Name] | None = Field(None, description="where the figures come from, whole or by key")
    assumptions: dict[str, Name] = Field({}, description="keys nobody states, with the reason for the value chosen")
    published: PublishedParameters | None = Field(None, description="published parameter counts, for checking")

    layers: PositiveInt = Field(description="layers, without multi-token-prediction modules")
    hidden_size: PositiveInt = Field(description="width of the residual stream")
    vocabulary_size: PositiveInt = Field(description="tokens, unpadded")
    heads: PerLayerPositive = Field(description="query heads, per layer")
    kv_heads: PerLayerPositive | None = Field(None, description="key/value heads, per layer; absent: as many as heads")
    head_dim: PerLayerPositive | None = Field(None, description="width of a head; absent: hidden_size / heads")
    value_head_dim: PerLayerPositive | None = Field(None, description="width of a value head; absent: head_dim")
    ffn_hidden_size: PerLayer | None = Field(None, description="intermediate width of the dense blocks, per layer")
    gated: bool = Field(True, description="two up projections (SwiGLU, GeGLU)")
    activation: Activation = "silu"

    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_scale: bool = Field(True, description="False: norms without learned values (OLMo)")
    norm_bias: bool | None = Field(None, description="absent: yes for layernorm, no for rmsnorm")
    block_norms: Literal[1, 2] = Field(1, description="norms of a block: 2 for sandwich norms (Gemma 2)")
    final_norm: bool = True
    embedding_norm: bool = Field(False, description="a norm behind the embedding (BLOOM, BERT)")
    parallel_block: bool = Field(False, description="attention and feed-forward read the same input")
    shared_norm: bool = Field(False, description="one norm for both halves of a parallel block (Falcon-7B, GPT-J)")
    qk_norm: Literal["none", "head", "full", "unit"] = "none"
    qk_norm_bias: bool = False

    bias: bool = Field(False, description="biases in every projection of a layer")
    qkv_bias: bool | None = Field(None, description="absent: as `bias`")
    attention_output_bias: bool | None = Field(None, description="absent: as `bias`")
    ffn_bias: bool | None = Field(None, description="absent: as `bias`")
    head_bias: bool = False

    position: Literal["rotary", "learned", "alibi", "sinusoidal", "none"] = "rotary"
    position_table: NonNegativeInt = Field(0, description="rows of a learned position table")
    token_types: NonNegativeInt = Field(0, description="rows of a token-type table (BERT)")
    embedding_dim: PositiveInt | None = Field(None, description="width of the token embedding where it is projected")
    tied_embeddings: bool = Field(False, description="the head uses the token embedding's weights")
    encoder: bool = Field(False, description="bidirectional attention")
    dropout: bool = Field(False, description="trained with dropout")

    window: PositiveInt | None = Field(None, description="keys a query of a `sliding` layer sees at most")
    chunk: PositiveInt | None = Field(None, description="keys per chunk of a `chunked` layer (Llama 4)")
    mixers: tuple[Mixer, ...] | None = Field(None, description="mixer of each layer; absent: as window and chunk say")
    feed_forwards: tuple[FeedForward, ...] | None = Field(None, description="feed-forward block of each layer")
    shared_kv: PerLayer = Field(
        0, description="per layer: 1 if the value projection is the key projection, 2 if an earlier layer's are reused"
    )
    output_gate: bool = Field(False, description="a gate on the attention output as wide as it (gated attention)")
    sinks: bool | Literal["sliding"] = Field(
        False, description="one learned attention-sink logit per head; `sliding`: in sliding layers alone"
    )

    moe: MoeSpec | None = None
    mla: MlaSpec | None = None
    linear_attention: LinearAttentionSpec | None = None
    state_space: StateSpaceSpec | None = None
    mtp_layers: NonNegativeInt = Field(0, description="multi-token-prediction modules, outside the published totals")
    layer_extra_parameters: PerLayer = Field(0, description="learned values of a layer not described above")
    extra_parameters: Count = Field(0, description="learned values outside the layers not described above")
    extra_note: Name | None = Field(None, description="what the extra parameters are")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.layers > MAX_LAYERS:
            raise refuse(f"{self.layers} layers", f"at most {MAX_LAYERS}")
        self._check_lists()
        self._check_heads()
        mixers, blocks = set(self.mixers or ()), set(self.feed_forwards or ())
        needed = {
            "window": "sliding" in mixers and self.window is None,
            "chunk": "chunked" in mixers and self.chunk is None,
            "linear_attention": "linear" in mixers and self.linear_attention is None,
            "state_space": "state_space" in mixers and self.state_space is None,
            "moe": "moe" in blocks and self.moe is None,
            "position_table": self.position == "learned" and self.position_table == 0,
        }
        for key, missing in needed.items():
            if missing:
                raise refuse(f"`{key}` is needed by the layers described, but not stated")
        if self.ffn_hidden_size is None and self._has_dense_block(blocks):
            raise refuse("the width of the dense feed-forward blocks is not stated", "`ffn_hidden_size`")
        return self

    def _has_dense_block(self, blocks: set[FeedForward]) -> bool:
        if blocks:
            return "dense" in blocks
        return self.moe is None or self.moe.leading_dense_layers > 0 or self.moe.layer_frequency > 1

    def _check_lists(self) -> None:
        moe = self.moe
        lists = {
            "heads": self.heads, "kv_heads": self.kv_heads, "head_dim": self.head_dim,
            "value_head_dim": self.value_head_dim, "ffn_hidden_size": self.ffn_hidden_size,
            "shared_kv": self.shared_kv, "layer_extra_parameters": self.layer_extra_parameters,
        }  # fmt: skip
        if moe is not None:
            for key in ("experts", "top_k", "hidden_size", "shared_experts", "shared_hidden_size"):
                lists[f"moe.{key}"] = getattr(moe, key)
        for key, value in lists.items():
            if isinstance(value, tuple) and len(value) != self.layers:
                raise refuse(f"`{key}` has {len(value)} entries for {self.layers} layers", "one entry per layer")
        for key in ("mixers", "feed_forwards"):
            pattern = getattr(self, key)
            if pattern is not None and not 0 < len(pattern) <= self.layers:
                raise refuse(f"`{key}` has {len(pattern)} entries for {self.layers} layers", "at most one per layer")
        if moe is not None:
            for experts, top_k in zip(*_spread((moe.experts, moe.top_k), self.layers), strict=True):
                if top_k > experts:
                    raise refuse(f"a token visits {top_k} of {experts} experts", "top_k of at most experts")

    def _check_heads(self) -> None:
        if self.mla is not None:
            return
        kv = self.heads if self.kv_heads is None else self.kv_heads
        for heads, kv_heads in zip(*_spread((self.heads, kv), self.layers), strict=True):
            if kv_heads > heads or heads % kv_heads:
                raise refuse(f"{heads} heads are not divisible by {kv_heads} key/value heads")
            if self.head_dim is None and self.hidden_size % heads:
                raise refuse(f"hidden_size {self.hidden_size} is not divisible by {heads} heads", "state `head_dim`")


def _spread(values: tuple[int | tuple[int, ...], ...], layers: int) -> list[tuple[int, ...]]:
    """Each value as one entry per layer, or a single entry where all are single."""
    length = layers if any(isinstance(value, tuple) for value in values) else 1
    return [value if isinstance(value, tuple) else (value,) * length for value in values]

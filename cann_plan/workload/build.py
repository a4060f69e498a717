"""A model as a user describes it (`ModelSpec`) to the normalised `Architecture` that cost models read."""

from __future__ import annotations

from cann_plan.spec.model import ModelSpec
from cann_plan.spec.model_parts import FeedForward, Mixer, MoeSpec
from cann_plan.workload import architecture as a


def build_architecture(spec: ModelSpec) -> a.Architecture:
    """The layer kinds of `spec`, distinct and in order of first appearance, and the order they are stacked in."""
    index: dict[a.LayerKind, int] = {}
    sequence = tuple(index.setdefault(_layer(spec, layer), len(index)) for layer in range(spec.layers))
    embedding_dim = spec.embedding_dim or 0
    return a.Architecture(
        name=spec.name,
        hidden=spec.hidden_size,
        vocabulary=spec.vocabulary_size,
        kinds=tuple(index),
        sequence=sequence,
        norm=spec.norm,
        norm_bias=spec.norm == "layernorm" if spec.norm_bias is None else spec.norm_bias,
        norm_scale=spec.norm_scale,
        position=spec.position,
        position_table=spec.position_table,
        tied_embeddings=spec.tied_embeddings,
        embedding_norm=spec.embedding_norm,
        embedding_dim=0 if embedding_dim == spec.hidden_size else embedding_dim,
        token_types=spec.token_types,
        final_norm=spec.final_norm,
        head_bias=spec.head_bias,
        extra_parameters=spec.extra_parameters,
        extra_note=spec.extra_note or "",
        mtp_layers=spec.mtp_layers,
        dropout=spec.dropout,
        encoder=spec.encoder,
    )


def _layer(spec: ModelSpec, layer: int) -> a.LayerKind:
    mixer = _mixer(spec, layer)
    ffn = _feed_forward(spec, layer)
    blocks = int(not isinstance(mixer, a.NoMixer)) + int(not isinstance(ffn, a.NoFfn))
    parallel = spec.parallel_block and blocks == 2
    return a.LayerKind(
        mixer,
        ffn,
        norms=1 if parallel and spec.shared_norm else blocks * spec.block_norms,
        parallel_block=parallel,
        extra_parameters=_at(spec.layer_extra_parameters, layer),
    )


def _at(value: int | tuple[int, ...], layer: int) -> int:
    return value[layer] if isinstance(value, tuple) else value


def _stated(value: bool | None, default: bool) -> bool:
    return default if value is None else value


def _mixer_name(spec: ModelSpec, layer: int) -> Mixer:
    if spec.mixers is not None:
        return spec.mixers[layer % len(spec.mixers)]
    if spec.window is not None:
        return "sliding"
    return "chunked" if spec.chunk is not None else "full"


def _mixer(spec: ModelSpec, layer: int) -> a.Mixer:
    name = _mixer_name(spec, layer)
    if name == "none":
        return a.NoMixer()
    if name == "linear":
        assert spec.linear_attention is not None  # by the validation of ModelSpec
        linear = spec.linear_attention
        return a.LinearAttention(
            linear.key_heads, linear.value_heads, linear.key_head_dim, linear.value_head_dim, linear.conv_kernel,
            linear.style,
        )  # fmt: skip
    if name == "state_space":
        assert spec.state_space is not None  # by the validation of ModelSpec
        state = spec.state_space
        return a.StateSpace(
            state.heads, state.head_dim, state.state_size, state.groups, state.conv_kernel, state.conv_bias,
            state.bias, state.dt_rank, state.inner_norms,
        )  # fmt: skip
    window = spec.window if name == "sliding" else None
    qkv_bias = _stated(spec.qkv_bias, spec.bias)
    output_bias = _stated(spec.attention_output_bias, spec.bias)
    heads = _at(spec.heads, layer)
    if spec.mla is not None:
        mla = spec.mla
        return a.LatentAttention(
            heads, mla.q_lora_rank, mla.kv_lora_rank, mla.qk_nope_head_dim, mla.qk_rope_head_dim, mla.v_head_dim,
            qkv_bias, output_bias, window, mla.index_heads, mla.index_head_dim, mla.index_top_k,
        )  # fmt: skip
    head_dim = spec.hidden_size // heads if spec.head_dim is None else _at(spec.head_dim, layer)
    value_dim = head_dim if spec.value_head_dim is None else _at(spec.value_head_dim, layer)
    return a.Attention(
        heads=heads,
        kv_heads=heads if spec.kv_heads is None else _at(spec.kv_heads, layer),
        head_dim=head_dim,
        qkv_bias=qkv_bias,
        output_bias=output_bias,
        qk_norm=spec.qk_norm,
        qk_norm_bias=spec.qk_norm_bias,
        window=window,
        chunk=spec.chunk if name == "chunked" else None,
        output_gate=spec.output_gate,
        sinks=spec.sinks is True or (spec.sinks == "sliding" and name == "sliding"),
        shared_kv=_at(spec.shared_kv, layer) == 1,
        reused_kv=_at(spec.shared_kv, layer) == 2,
        value_head_dim=0 if value_dim == head_dim else value_dim,
    )


def _block_name(spec: ModelSpec, layer: int) -> FeedForward:
    if spec.feed_forwards is not None:
        return spec.feed_forwards[layer % len(spec.feed_forwards)]
    moe = spec.moe
    if moe is not None and layer >= moe.leading_dense_layers and layer % moe.layer_frequency == moe.layer_offset:
        return "moe"
    return "dense"


def _feed_forward(spec: ModelSpec, layer: int) -> a.Ffn:
    name = _block_name(spec, layer)
    if name == "moe":
        assert spec.moe is not None  # by the validation of ModelSpec
        return _mixture(spec, spec.moe, layer)
    hidden = 0 if spec.ffn_hidden_size is None else _at(spec.ffn_hidden_size, layer)
    if name == "none" or hidden == 0:
        return a.NoFfn()
    return a.DenseFfn(hidden, spec.gated, spec.activation, _stated(spec.ffn_bias, spec.bias))


def _mixture(spec: ModelSpec, moe: MoeSpec, layer: int) -> a.MoeFfn:
    hidden = _at(moe.hidden_size, layer)
    if moe.shared_hidden_size is None:
        shared = _at(moe.shared_experts, layer) * hidden
    else:
        shared = _at(moe.shared_hidden_size, layer)
    return a.MoeFfn(
        experts=_at(moe.experts, layer),
        top_k=_at(moe.top_k, layer),
        hidden=hidden,
        gated=spec.gated,
        activation=spec.activation,
        shared_hidden=shared,
        shared_gate=moe.shared_gate,
        router_bias=moe.router_bias,
        bias=moe.bias,
        latent=moe.latent_size,
    )

"""Exact parameter counts of an architecture, unpadded, and the padding of the vocabulary that a framework adds.

The counts are those of the published implementation of each model: what its checkpoint holds as learned values (no
buffers such as an expert-score correction that no gradient reaches), tied weights once, no multi-token-prediction
modules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.records import dataclass
from cann_plan.workload.architecture import (
    Architecture,
    Attention,
    DenseFfn,
    Ffn,
    LatentAttention,
    LayerKind,
    LinearAttention,
    Mixer,
    MoeFfn,
    StateSpace,
)


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """Learned values of one layer. `dense` is what every token uses, `routed` the routed experts."""

    mixer: int
    ffn: int  # dense block, or router, shared experts and latent projections of a mixture
    norms: int  # of the residual stream, and what the layer holds besides
    routed: int  # all routed experts
    routed_active: int  # those one token visits
    replicated: int  # part of `dense` that every tensor-parallel rank holds whole
    key_value: int  # part of `mixer`: key and value projections, copied once there are fewer heads than ranks
    matmul: int  # weights of matrix products one token passes, routed experts x top_k/experts

    @property
    def dense(self) -> int:
        """Learned values that every token uses."""
        return self.mixer + self.ffn + self.norms

    @property
    def total(self) -> int:
        """All learned values of the layer."""
        return self.dense + self.routed

    @property
    def active(self) -> int:
        """Learned values one token uses: routed experts x top_k/experts, and everything else."""
        return self.dense + self.routed_active


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Learned values of a model."""

    total: int
    active: int  # routed experts x top_k/experts, and everything else, input embedding included
    embedding: int  # the token table
    embedding_extra: int  # position and token-type tables, embedding norm, projection into the hidden width
    head: int  # output projection; 0 where it is the token table
    final: int  # final norm, head bias, and what stands outside the layers
    layers: tuple[LayerParameters, ...]  # per layer kind, one layer each
    routed: int  # all routed experts of the model
    mtp: int  # multi-token-prediction modules, not in the total


def parameter_counts(arch: Architecture) -> ParameterCounts:
    """Learned values of `arch`, by part."""
    kinds = tuple(layer_parameters(arch, kind) for kind in arch.kinds)
    width = arch.embedding_dim or arch.hidden
    embedding = arch.vocabulary * width
    extra = arch.position_table * arch.hidden + arch.token_types * arch.hidden
    extra += norm_parameters(arch, arch.hidden) if arch.embedding_norm else 0
    projections = 2 * width * arch.hidden if arch.embedding_dim else 0
    extra += projections // 2
    head = 0 if arch.tied_embeddings else arch.vocabulary * width
    final = (norm_parameters(arch, arch.hidden) if arch.final_norm else 0) + projections // 2
    final += (arch.vocabulary if arch.head_bias else 0) + arch.extra_parameters
    ends = embedding + extra + head + final
    return ParameterCounts(
        total=ends + sum(kinds[kind].total for kind in arch.sequence),
        active=ends + sum(kinds[kind].active for kind in arch.sequence),
        embedding=embedding,
        embedding_extra=extra,
        head=head,
        final=final,
        layers=kinds,
        routed=sum(kinds[kind].routed for kind in arch.sequence),
        mtp=_mtp(arch, kinds),
    )


def layer_parameters(arch: Architecture, kind: LayerKind) -> LayerParameters:
    """Learned values of one layer of `kind`."""
    mixer, mixer_replicated, key_value, mixer_matmul = _mixer(arch, kind.mixer)
    ffn, ffn_replicated, ffn_matmul = _ffn(arch, kind.ffn)
    norms = kind.norms * norm_parameters(arch, arch.hidden) + kind.extra_parameters
    routed = routed_active = 0
    if isinstance(kind.ffn, MoeFfn):
        expert = expert_parameters(arch, kind.ffn)
        routed, routed_active = kind.ffn.experts * expert, kind.ffn.top_k * expert
        ffn_matmul += kind.ffn.top_k * (expert - _expert_bias(arch, kind.ffn))
    return LayerParameters(
        mixer=mixer,
        ffn=ffn,
        norms=norms,
        routed=routed,
        routed_active=routed_active,
        replicated=mixer_replicated + ffn_replicated + norms,
        key_value=key_value,
        matmul=mixer_matmul + ffn_matmul,
    )


def norm_parameters(arch: Architecture, width: int) -> int:
    """Learned values of one normalisation over `width`."""
    return width * (int(arch.norm_scale) + int(arch.norm_bias))


def expert_parameters(arch: Architecture, ffn: MoeFfn) -> int:
    """Learned values of one routed expert."""
    width = ffn.latent or arch.hidden
    return (3 if ffn.gated else 2) * width * ffn.hidden + _expert_bias(arch, ffn)


def _expert_bias(arch: Architecture, ffn: MoeFfn) -> int:
    return _ffn_bias(ffn.latent or arch.hidden, ffn.hidden, ffn.gated) if ffn.bias else 0


def _ffn_bias(width: int, hidden: int, gated: bool) -> int:
    return (2 if gated else 1) * hidden + width


def _ffn(arch: Architecture, ffn: Ffn) -> tuple[int, int, int]:
    """(learned values without routed experts, replicated part, matrix-product weights)."""
    h = arch.hidden
    if isinstance(ffn, DenseFfn):
        weights = (3 if ffn.gated else 2) * h * ffn.hidden
        return (weights + _ffn_bias(h, ffn.hidden, ffn.gated), h, weights) if ffn.bias else (weights, 0, weights)
    if isinstance(ffn, MoeFfn):
        shared = (3 if ffn.gated else 2) * h * ffn.shared_hidden
        shared_bias = _ffn_bias(h, ffn.shared_hidden, ffn.gated) if ffn.bias and ffn.shared_hidden else 0
        gate = h if ffn.shared_gate and ffn.shared_hidden else 0
        router = h * ffn.experts
        router_bias = ffn.experts if ffn.router_bias else 0
        latent = 2 * h * ffn.latent
        replicated = gate + router + router_bias + latent + (h if shared_bias else 0)
        return shared + shared_bias + gate + router + router_bias + latent, replicated, shared + gate + router + latent
    return 0, 0, 0


def _mixer(arch: Architecture, mixer: Mixer) -> tuple[int, int, int, int]:
    """(learned values, replicated part, key/value part, matrix-product weights)."""
    if isinstance(mixer, Attention):
        return _attention(arch, mixer)
    if isinstance(mixer, LatentAttention):
        return _latent_attention(arch, mixer)
    if isinstance(mixer, LinearAttention):
        return _linear_attention(arch, mixer)
    if isinstance(mixer, StateSpace):
        return _state_space(arch, mixer)
    return 0, 0, 0, 0


def _attention(arch: Architecture, attention: Attention) -> tuple[int, int, int, int]:
    h, dim = arch.hidden, attention.head_dim
    value_dim = attention.value_head_dim or dim
    query = attention.heads * dim
    key = 0 if attention.reused_kv else attention.kv_heads * dim
    value = 0 if attention.shared_kv or attention.reused_kv else attention.kv_heads * value_dim
    context = attention.heads * value_dim
    weights = h * (query + key + value) + context * h + (h * context if attention.output_gate else 0)
    key_value = h * (key + value)
    total, replicated = weights, 0
    if attention.qkv_bias:
        total += query + key + value + (context if attention.output_gate else 0)
        key_value += key + value
    if attention.output_bias:
        total += h
        replicated += h
    norm = 2 if attention.qk_norm_bias else 1
    if attention.qk_norm == "head":
        vectors = 1 if attention.reused_kv else 2
        total += vectors * dim * norm
        replicated += vectors * dim * norm
    elif attention.qk_norm == "full":
        total += (query + key) * norm
    if attention.sinks:
        total += attention.heads
    return total, replicated, key_value, weights


def _latent_attention(arch: Architecture, mla: LatentAttention) -> tuple[int, int, int, int]:
    """MLA (arXiv 2405.04434, section 2.1) with the indexer of DeepSeek-V3.2 where there is one."""
    h = arch.hidden
    query = mla.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    kv_down = h * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    kv_up = mla.kv_lora_rank * mla.heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    output = mla.heads * mla.v_head_dim * h
    down, small = kv_down, mla.kv_lora_rank
    if mla.q_lora_rank:
        down += h * mla.q_lora_rank
        small += mla.q_lora_rank
        query_up = mla.q_lora_rank * query
    else:
        query_up = h * query
    if mla.qkv_bias:
        small += mla.kv_lora_rank + mla.qk_rope_head_dim + (mla.q_lora_rank or 0)
    if mla.output_bias:
        small += h
    if mla.index_heads:
        # query up projection, one key head with a biased norm, one weight per head
        down += (mla.q_lora_rank or h) * mla.index_heads * mla.index_head_dim
        down += h * mla.index_head_dim + h * mla.index_heads
        small += 2 * mla.index_head_dim
    weights = down + query_up + kv_up + output
    return weights + small, down + small, 0, weights


def _linear_attention(arch: Architecture, linear: LinearAttention) -> tuple[int, int, int, int]:
    """Gated delta net (arXiv 2412.06464, as in Qwen3-Next), Kimi delta attention, or lightning attention."""
    h = arch.hidden
    keys = linear.key_heads * linear.key_head_dim
    values = linear.value_heads * linear.value_head_dim
    if linear.style == "lightning":
        weights = h * (2 * keys + values) + h * values + values * h  # q, k, v; output gate; output
        return weights + values, 0, 0, weights  # and a norm over all heads
    weights = h * (2 * keys + 2 * values + 2 * linear.value_heads) + values * h
    conv = linear.conv_kernel * (2 * keys + values)
    if linear.style == "kimi_delta":
        # decay and output gate of low rank, one step bias per key channel (arXiv 2510.26692)
        ranks = h * (linear.key_head_dim + linear.value_head_dim)
        ranks += linear.key_head_dim * keys + linear.value_head_dim * values
        weights = h * (2 * keys + values + linear.value_heads) + ranks + values * h
        small = keys + linear.value_heads + linear.value_head_dim
        return weights + conv + small, linear.value_head_dim, 0, weights
    per_head = 2 * linear.value_heads  # decay rate and step bias
    return weights + conv + per_head + linear.value_head_dim, linear.value_head_dim, 0, weights


def _state_space(arch: Architecture, state: StateSpace) -> tuple[int, int, int, int]:
    """Mamba-2 (arXiv 2405.21060), or Mamba-1 (arXiv 2312.00752) with the inner norms of Jamba."""
    h, inner = arch.hidden, state.heads * state.head_dim
    if state.dt_rank:
        widths = 2 * inner
        conv_width = inner
        weights = h * widths + inner * (state.dt_rank + 2 * state.state_dim) + state.dt_rank * inner + inner * h
        small = inner * state.state_dim + 2 * inner  # decay rates, skip, step bias
        small += state.dt_rank + 2 * state.state_dim if state.inner_norms else 0
    else:
        widths = 2 * inner + 2 * state.groups * state.state_dim + state.heads
        conv_width = inner + 2 * state.groups * state.state_dim
        weights = h * widths + inner * h
        small = 3 * state.heads + inner  # decay rate, skip and step bias per head; gated norm
    small += conv_width * (state.conv_kernel + int(state.conv_bias))
    small += widths + h if state.proj_bias else 0
    return weights + small, h if state.proj_bias else 0, 0, weights


def _mtp(arch: Architecture, kinds: tuple[LayerParameters, ...]) -> int:
    """Multi-token-prediction modules as in DeepSeek-V3 (arXiv 2412.19437, section 2.2): embedding and head are shared.

    Each holds a layer like the last, a projection of two hidden widths to one, and three norms.
    """
    if not arch.mtp_layers:
        return 0
    each = kinds[arch.last_kind].total + 2 * arch.hidden * arch.hidden + 3 * norm_parameters(arch, arch.hidden)
    return arch.mtp_layers * each


def padded_vocabulary(
    vocabulary: ArrayLike, tensor_parallel: ArrayLike = 1, multiple: ArrayLike = 128
) -> NDArray[np.int64]:
    """Rows of the token table after padding to a multiple of `multiple` x `tensor_parallel`, shape (N,).

    Source: Megatron-LM `--make-vocab-size-divisible-by` (default 128). 50257 becomes 51200 at tensor_parallel 8.
    """
    rows = np.atleast_1d(np.asarray(vocabulary, dtype=np.int64))
    step = np.asarray(multiple, dtype=np.int64) * np.atleast_1d(np.asarray(tensor_parallel, dtype=np.int64))
    return -(-rows // step) * step

"""Model FLOPs under the conventions that papers and frameworks report, array-valued over the sequence length.

A multiply-add counts as two FLOPs. Forward FLOPs of matrix products only; the backward pass counts twice the forward.
All functions broadcast `sequence_length` to shape (N,) and return float64 arrays of shape (N,), in FLOPs per token.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.workload.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    LayerKind,
    LinearAttention,
    Mixer,
    StateSpace,
)
from cann_plan.workload.parameters import layer_parameters, parameter_counts

FloatArray = NDArray[np.float64]

CONVENTIONS: Final = ("model", "full_attention", "narayanan_2021", "6n", "palm")
"""Names of the conventions `model_flops_per_token` knows."""


def _array(value: ArrayLike) -> FloatArray:
    array: FloatArray = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return array


def attended_keys(
    sequence_length: ArrayLike, window: int | None = None, chunk: int | None = None, *, causal: bool = True
) -> FloatArray:
    """Keys a query sees on average, shape (N,).

    Causal: half of the sequence, s/2 (Megatron-Bridge and FlashAttention count so; the diagonal's extra half key is
    left out). A window w < s gives w - w^2/(2s), which is s/2 at w = s. Chunks of c keys give c/2 each, and half of
    the rest in the last. Not causal: s, at most the window or the chunk.
    """
    s = _array(sequence_length)
    w: FloatArray = np.minimum(s, np.inf if window is None else float(window))
    c: FloatArray = np.minimum(s, np.inf if chunk is None else float(chunk))
    keys: FloatArray
    if not causal:
        keys = np.minimum(w, c)
    elif chunk is None:
        keys = w - w * w / (2.0 * s)
    else:
        whole = np.floor(s / c)
        rest = s - whole * c
        keys = (whole * c * c + rest * rest) / (2.0 * s)
    return keys


def attention_flops_per_token(mixer: Mixer, sequence_length: ArrayLike, *, causal: bool = True) -> FloatArray:
    """Forward FLOPs per token of the sequence mixing itself (no projections), shape (N,).

    Softmax attention: 2 FLOPs x keys x (query-key width + value width) x heads. An indexer scores every key
    (DeepSeek-V3.2) and limits attention to its choice. Linear attention: the recurrent form of the gated delta rule
    reads, updates and queries a (key x value) state, 6 x key x value per head (arXiv 2412.06464, equation 10);
    lightning attention updates and queries, 4. State space: update and output of a (state x channel) state,
    4 x state x channels (arXiv 2405.21060, equation 16).
    """
    s = _array(sequence_length)
    if isinstance(mixer, Attention):
        width = mixer.heads * (mixer.head_dim + (mixer.value_head_dim or mixer.head_dim))
        return 2.0 * width * attended_keys(s, mixer.window, mixer.chunk, causal=causal)
    if isinstance(mixer, LatentAttention):
        width = mixer.heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim)
        window = mixer.window
        if mixer.index_heads:
            window = mixer.index_top_k if window is None else min(window, mixer.index_top_k)
        core = 2.0 * width * attended_keys(s, window, causal=causal)
        return core + 2.0 * mixer.index_heads * mixer.index_head_dim * attended_keys(s, causal=causal)
    if isinstance(mixer, LinearAttention):
        passes = 4.0 if mixer.style == "lightning" else 6.0
        state = mixer.value_heads * mixer.key_head_dim * mixer.value_head_dim
        return np.full_like(s, passes * state)
    if isinstance(mixer, StateSpace):
        return np.full_like(s, 4.0 * mixer.heads * mixer.head_dim * mixer.state_dim)
    return np.zeros_like(s)


def layer_flops_per_token(
    arch: Architecture, kind: LayerKind, sequence_length: ArrayLike, *, causal: bool = True
) -> FloatArray:
    """Forward FLOPs per token of one layer of `kind`, routed experts x top_k/experts, shape (N,)."""
    weights = 2.0 * layer_parameters(arch, kind).matmul
    return weights + attention_flops_per_token(kind.mixer, sequence_length, causal=causal)


def head_flops_per_token(arch: Architecture) -> float:
    """Forward FLOPs per token of the ends: output projection over the unpadded vocabulary, embedding projections."""
    width = arch.embedding_dim or arch.hidden
    projections = 4.0 * width * arch.hidden if arch.embedding_dim else 0.0
    return 2.0 * width * arch.vocabulary + projections


def forward_flops_per_token(arch: Architecture, sequence_length: ArrayLike, *, causal: bool = True) -> FloatArray:
    """Forward FLOPs per token of the whole model without multi-token-prediction modules, shape (N,).

    `causal` counts what a causal mask leaves; an encoder has no mask, so its attention is full either way.
    """
    s = _array(sequence_length)
    return _layers(arch, s, causal=causal) + head_flops_per_token(arch)


def _layers(arch: Architecture, s: FloatArray, *, causal: bool) -> FloatArray:
    total = np.zeros_like(s)
    for index, kind in enumerate(arch.kinds):
        count = float(arch.sequence.count(index))
        total = total + count * layer_flops_per_token(arch, kind, s, causal=causal and not arch.encoder)
    return total


def mtp_flops_per_token(arch: Architecture, sequence_length: ArrayLike, *, causal: bool = True) -> FloatArray:
    """Forward FLOPs per token of the multi-token-prediction modules, shape (N,); zero where there are none.

    Each runs a layer like the last, a projection of two hidden widths to one, and the head (arXiv 2412.19437).
    """
    s = _array(sequence_length)
    if not arch.mtp_layers:
        return np.zeros_like(s)
    layer = layer_flops_per_token(arch, arch.kinds[arch.last_kind], s, causal=causal and not arch.encoder)
    each = layer + 4.0 * arch.hidden * arch.hidden + head_flops_per_token(arch)
    return arch.mtp_layers * each


def model_flops_per_token(
    arch: Architecture, sequence_length: ArrayLike, convention: str = "model", *, mtp: bool = False
) -> FloatArray:
    """Training FLOPs per token, forward and backward, under a named convention, shape (N,).

    - `model`: three times the forward matrix products, causal attention counted half (Megatron-Bridge; the definition
      of MFU's numerator in arXiv 2204.02311 with an exact count in place of 6N).
    - `full_attention`: as `model` with attention counted full (MindSpeed-LLM, NeMo 24, Megatron-LM).
    - `narayanan_2021`: full attention and a recomputed forward pass of every layer (4x; the head 3x):
      96 B s l h^2 (1 + s/(6h) + V/(16 l h)) for a GPT (arXiv 2104.04473, equation 3), the same counting for others.
    - `6n`: six times the active parameters, embedding included (arXiv 2001.08361, arXiv 2203.15556).
    - `palm`: 6N + 12 l h_q s with h_q = heads x head width (arXiv 2204.02311, appendix B).

    `mtp` adds the multi-token-prediction modules, which the last two conventions do not know.

    Raises:
        ValueError: unknown convention.
    """
    s = _array(sequence_length)
    if convention == "model":
        return 3.0 * (forward_flops_per_token(arch, s) + _mtp(arch, s, mtp, causal=True))
    if convention == "full_attention":
        return 3.0 * (forward_flops_per_token(arch, s, causal=False) + _mtp(arch, s, mtp, causal=False))
    if convention == "narayanan_2021":
        layers = _layers(arch, s, causal=False)
        return 4.0 * layers + 3.0 * (head_flops_per_token(arch) + _mtp(arch, s, mtp, causal=False))
    if convention == "6n":
        return np.full_like(s, 6.0 * parameter_counts(arch).active)
    if convention == "palm":
        width = 0.0
        for index, kind in enumerate(arch.kinds):
            width = width + float(arch.sequence.count(index)) * _query_width(kind.mixer)
        return 6.0 * parameter_counts(arch).active + 12.0 * width * s
    raise ValueError(f"unknown FLOPs convention {convention!r}; allowed: {', '.join(CONVENTIONS)}")


def _mtp(arch: Architecture, s: FloatArray, wanted: bool, *, causal: bool) -> FloatArray:
    return mtp_flops_per_token(arch, s, causal=causal) if wanted else np.zeros_like(s)


def _query_width(mixer: Mixer) -> float:
    if isinstance(mixer, Attention):
        return float(mixer.heads * mixer.head_dim)
    if isinstance(mixer, LatentAttention):
        return mixer.heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim) / 2.0
    return 0.0

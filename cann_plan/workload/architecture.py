"""The normalised description of a model that every cost model reads.

A user's `ModelSpec` (spec floor) may be flat, inherited or imported; an `Architecture` is what it comes to: a list of
distinct layer kinds, each one mixer plus one feed-forward block, and the order in which they are stacked.
All sizes are element counts, unsharded.
"""

from __future__ import annotations

from cann_plan.records import dataclass


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with grouped key/value heads (MHA: kv_heads == heads, MQA: kv_heads == 1)."""

    heads: int
    kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: str = "none"  # none | head (one head_dim vector for q, one for k) | full (all heads) | unit (no scale)
    window: int | None = None  # keys a query sees at most; None: all
    chunk: int | None = None  # chunked local attention (Llama 4): keys of the same chunk only
    output_gate: bool = False  # a gate as wide as the output, projected from the input (gated attention)
    sinks: bool = False  # one learned logit per head
    shared_kv: bool = False  # the value projection is the key projection
    qk_norm_bias: bool = False
    value_head_dim: int = 0  # 0: head_dim
    reused_kv: bool = False  # keys and values of an earlier layer: no key and value projections of its own


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA, DeepSeek-V2)."""

    heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    qkv_bias: bool = False
    output_bias: bool = False
    window: int | None = None
    index_heads: int = 0  # lightning indexer of sparse attention (DSA); 0: none
    index_head_dim: int = 0
    index_top_k: int = 0


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Gated delta-rule linear attention (Qwen3-Next, Qwen3.5)."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int  # 0: no convolution
    style: str = "gated_delta"  # gated_delta | kimi_delta (Kimi Linear) | lightning (MiniMax-Text-01: no convolution)


@dataclass(frozen=True, slots=True)
class StateSpace:
    """Mamba-2 state-space mixer; with `dt_rank` a Mamba-1 mixer (heads * head_dim is the inner width)."""

    heads: int
    head_dim: int
    state_dim: int
    groups: int
    conv_kernel: int
    conv_bias: bool = True
    proj_bias: bool = False
    dt_rank: int = 0  # Mamba-1: rank of the step-size projection; 0: Mamba-2
    inner_norms: bool = False  # Jamba: normalisation of the step size and of the B and C projections


@dataclass(frozen=True, slots=True)
class NoMixer:
    """A layer without a mixer (its feed-forward block only)."""


@dataclass(frozen=True, slots=True)
class DenseFfn:
    """A feed-forward block; gated: two up projections (SwiGLU, GeGLU)."""

    hidden: int
    gated: bool
    activation: str = "silu"
    bias: bool = False


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """Routed experts with optional shared experts."""

    experts: int
    top_k: int
    hidden: int  # of one routed expert
    gated: bool
    activation: str = "silu"
    shared_hidden: int = 0  # total width of the shared experts; 0: none
    shared_gate: bool = False  # a scalar gate on the shared expert's output
    router_bias: bool = False  # correction bias or a biased router projection, one value per expert
    bias: bool = False
    latent: int = 0  # experts work in a projected space of this width (Nemotron 3); 0: hidden size


@dataclass(frozen=True, slots=True)
class NoFfn:
    """A layer without a feed-forward block (its mixer only)."""


Mixer = Attention | LatentAttention | LinearAttention | StateSpace | NoMixer
Ffn = DenseFfn | MoeFfn | NoFfn


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer: a mixer, then a feed-forward block, with `norms` normalisations of the hidden width."""

    mixer: Mixer
    ffn: Ffn
    norms: int = 2
    parallel_block: bool = False  # attention and feed-forward read the same input (Falcon, GPT-NeoX)
    extra_parameters: int = 0  # learned values of the layer outside mixer, feed-forward and norms


@dataclass(frozen=True, slots=True)
class Architecture:
    """A whole model. `sequence[i]` is the index in `kinds` of layer i."""

    name: str
    hidden: int
    vocabulary: int
    kinds: tuple[LayerKind, ...]
    sequence: tuple[int, ...]
    norm: str = "rmsnorm"  # rmsnorm | layernorm
    norm_bias: bool = False
    position: str = "rotary"  # rotary | learned | alibi | none
    position_table: int = 0  # rows of a learned position table
    tied_embeddings: bool = False
    embedding_norm: bool = False
    final_norm: bool = True
    head_bias: bool = False
    extra_parameters: int = 0  # counted parameters outside the above (for example a token-type table)
    mtp_layers: int = 0  # multi-token-prediction modules, not counted in the published totals
    dropout: bool = False
    encoder: bool = False  # bidirectional attention (BERT)
    extra_note: str = ""
    norm_scale: bool = True  # False: normalisation without learned values (OLMo)
    embedding_dim: int = 0  # width of the token embedding where it is projected to `hidden` (OPT-350M); 0: hidden
    token_types: int = 0  # rows of a token-type table (BERT)

    @property
    def last_kind(self) -> int:
        """Index in `kinds` of the last layer that holds something (place holders of pipeline stages hold nothing)."""
        kinds = self.kinds
        filled = [
            k for k in self.sequence if not isinstance(kinds[k].ffn, NoFfn) or not isinstance(kinds[k].mixer, NoMixer)
        ]
        return filled[-1] if filled else self.sequence[-1]

    @property
    def layers(self) -> int:
        """Number of layers, without multi-token-prediction modules."""
        return len(self.sequence)

"""A layer kind of an architecture to its operators, in execution order."""

from __future__ import annotations

from cann_plan.workload.architecture import (
    Attention,
    DenseFfn,
    LatentAttention,
    LayerKind,
    LinearAttention,
    MoeFfn,
    StateSpace,
)
from cann_plan.workload.operators.attention import attention_operators
from cann_plan.workload.operators.feed_forward import feed_forward_operators
from cann_plan.workload.operators.latent_attention import latent_attention_operators
from cann_plan.workload.operators.mixture import mixture_operators
from cann_plan.workload.operators.operator import Operator
from cann_plan.workload.operators.recurrent import linear_attention_operators, state_space_operators
from cann_plan.workload.operators.rows import LayerRows, LayerSettings


def layer_operators(kind: LayerKind, rows: LayerRows, settings: LayerSettings) -> list[Operator]:
    """Mixer operators, then feed-forward operators; a parallel block normalises once and adds once."""
    operators: list[Operator] = []
    mixer, ffn = kind.mixer, kind.ffn
    if isinstance(mixer, Attention):
        operators += attention_operators(mixer, rows, settings, norms=kind.norms)
    elif isinstance(mixer, LatentAttention):
        operators += latent_attention_operators(mixer, rows, settings, norms=kind.norms)
    elif isinstance(mixer, LinearAttention):
        operators += linear_attention_operators(mixer, rows, settings, norms=kind.norms)
    elif isinstance(mixer, StateSpace):
        operators += state_space_operators(mixer, rows, settings, norms=kind.norms)
    first = not operators
    skip_norm = kind.parallel_block and kind.norms < 2
    if isinstance(ffn, DenseFfn):
        operators += feed_forward_operators(ffn, rows, settings, norms=kind.norms, skip_norm=skip_norm, first=first)
    elif isinstance(ffn, MoeFfn):
        operators += mixture_operators(ffn, rows, settings, norms=kind.norms, skip_norm=skip_norm, first=first)
    return operators

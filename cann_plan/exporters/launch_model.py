"""A model description to shape arguments of Megatron-LM and MindSpeed."""

from __future__ import annotations

from cann_plan.exporters.launch_arguments import ExportError, LaunchArguments
from cann_plan.spec.model import ModelSpec

GROUP = "MODEL_ARGS"
_PARTS = ("linear_attention", "state_space")


def model_arguments(model: ModelSpec, sequence: int, tensor: int, out: LaunchArguments) -> None:
    """Add the shape. Raises ExportError for a model that the launch arguments cannot describe."""
    for part in _PARTS:
        if getattr(model, part) is not None:
            raise ExportError(f"launch arguments do not describe the {part.replace('_', ' ')} of {model.name}")
    out.add(GROUP, "num-layers", model.layers)
    out.add(GROUP, "hidden-size", model.hidden_size)
    heads = _one(model, "heads")
    out.add(GROUP, "num-attention-heads", heads)
    width = model.ffn_hidden_size
    if width is not None:
        out.add(GROUP, "ffn-hidden-size", max(width) if isinstance(width, tuple) else width)
        if isinstance(width, tuple):
            out.warn("the feed-forward width differs between layers: the largest is given")
    _attention(model, int(heads), out)
    _blocks(model, out)
    _experts(model, out)
    out.add(GROUP, "seq-length", sequence)
    out.add(GROUP, "max-position-embeddings", max(sequence, model.position_table))
    out.add(GROUP, "vocab-size", model.vocabulary_size)
    if model.mtp_layers:
        out.add(GROUP, "mtp-num-layers", model.mtp_layers)


def _one(model: ModelSpec, key: str) -> int:
    value = getattr(model, key)
    if isinstance(value, tuple):
        if len(set(value)) > 1:
            raise ExportError(f"{key} differs between the layers of {model.name}: launch arguments state one number")
        value = value[0]
    return int(value)


def _attention(model: ModelSpec, heads: int, out: LaunchArguments) -> None:
    mla = model.mla
    if mla is not None:
        out.add(GROUP, "multi-latent-attention")
        if mla.q_lora_rank is not None:
            out.add(GROUP, "q-lora-rank", mla.q_lora_rank)
        out.add(GROUP, "kv-lora-rank", mla.kv_lora_rank)
        out.add(GROUP, "qk-head-dim", mla.qk_nope_head_dim)
        out.add(GROUP, "qk-pos-emb-head-dim", mla.qk_rope_head_dim)
        out.add(GROUP, "v-head-dim", mla.v_head_dim)
        out.add(GROUP, "qk-layernorm")
        if mla.index_top_k:
            out.warn("the sparse-attention indexer has no argument in all versions: not given")
        return
    if model.kv_heads is not None and _one(model, "kv_heads") != heads:
        out.add(GROUP, "group-query-attention")
        out.add(GROUP, "num-query-groups", _one(model, "kv_heads"))
    if model.head_dim is not None and _one(model, "head_dim") * heads != model.hidden_size:
        out.add(GROUP, "kv-channels", _one(model, "head_dim"))
    out.flag(GROUP, "qk-layernorm", model.qk_norm in ("head", "full"))
    if model.window is not None or model.chunk is not None or set(model.mixers or ()) - {"full"}:
        out.warn("windows and chunks of attention are not given")


def _blocks(model: ModelSpec, out: LaunchArguments) -> None:
    if model.gated and model.activation == "silu":
        out.add(GROUP, "swiglu")
    elif model.gated:
        out.add(GROUP, "geglu" if out.ascend else "swiglu")
        if not out.ascend:
            out.warn(f"gated {model.activation} has no argument in Megatron-LM: SwiGLU is given, of the same cost")
    elif model.activation == "relu2":
        out.add(GROUP, "squared-relu")
    if model.norm == "rmsnorm":
        out.add(GROUP, "normalization", "RMSNorm")
    if model.position == "rotary":
        out.add(GROUP, "position-embedding-type", "rope")
        if out.ascend:
            out.add(GROUP, "use-rotary-position-embeddings")
    elif model.position == "learned":
        out.add(GROUP, "position-embedding-type", "learned_absolute")
    else:
        out.add(GROUP, "position-embedding-type", model.position)
    out.flag(GROUP, "disable-bias-linear", not model.bias)
    out.flag(GROUP, "add-qkv-bias", bool(model.qkv_bias) and not model.bias)
    out.flag(GROUP, "untie-embeddings-and-output-weights", not model.tied_embeddings)
    if not model.dropout:
        out.add(GROUP, "attention-dropout", "0.0")
        out.add(GROUP, "hidden-dropout", "0.0")
    if model.encoder:
        out.warn("the model is an encoder: start pretrain_bert.py instead")


def _experts(model: ModelSpec, out: LaunchArguments) -> None:
    moe = model.moe
    if moe is None:
        return
    if any(isinstance(value, tuple) for value in (moe.experts, moe.top_k, moe.hidden_size)):
        raise ExportError(f"the experts differ between the layers of {model.name}: launch arguments state one number")
    out.add(GROUP, "num-experts", moe.experts)
    out.add(GROUP, "moe-router-topk", moe.top_k)
    out.add(GROUP, "moe-ffn-hidden-size", moe.hidden_size)
    out.add(GROUP, "moe-grouped-gemm")
    shared = moe.shared_hidden_size
    if shared is None and not isinstance(moe.shared_experts, tuple) and not isinstance(moe.hidden_size, tuple):
        shared = moe.shared_experts * moe.hidden_size
    if shared and not isinstance(shared, tuple):
        out.add(GROUP, "moe-shared-expert-intermediate-size", shared)
    out.flag(GROUP, "moe-router-enable-expert-bias", moe.router_bias)
    pattern = _pattern(model)
    if pattern is not None and out.ascend and moe.layer_frequency == 1 and model.feed_forwards is None:
        out.add(GROUP, "first-k-dense-replace", moe.leading_dense_layers)
        out.add(GROUP, "moe-layer-freq", 1)
    elif pattern is not None:
        out.add(GROUP, "moe-layer-freq", pattern)


def _pattern(model: ModelSpec) -> str | None:
    """Zeros and ones per layer, None where every layer is a mixture."""
    moe = model.moe
    assert moe is not None
    if model.feed_forwards is not None:
        blocks = [model.feed_forwards[index % len(model.feed_forwards)] == "moe" for index in range(model.layers)]
    else:
        blocks = [
            index >= moe.leading_dense_layers and index % moe.layer_frequency == moe.layer_offset
            for index in range(model.layers)
        ]
    if all(blocks):
        return None
    runs: list[list[int]] = []
    for block in blocks:
        if runs and runs[-1][0] == block:
            runs[-1][1] += 1
        else:
            runs.append([int(block), 1])
    return "(" + "+".join(f"[{value}]*{count}" for value, count in runs) + ")"

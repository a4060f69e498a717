"""Mixture-of-experts shape arguments to the `moe:` part of a model."""

from __future__ import annotations

from typing import Any

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments


def experts(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    """Add `moe` and, where mixture layers follow a list, `feed_forwards` to a model description."""
    count = arguments.whole("num-experts", "num-moe-experts")
    if not count or count == 1:
        return
    width = arguments.whole("moe-ffn-hidden-size")
    if width is None:
        width = notes.assume("model.moe.hidden_size", spec["ffn_hidden_size"], "Megatron default: --ffn-hidden-size")
    top_k = arguments.whole("moe-router-topk")
    if top_k is None:
        top_k = notes.assume("model.moe.top_k", 2, "Megatron default of --moe-router-topk")
    moe: dict[str, Any] = {"experts": count, "top_k": top_k, "hidden_size": width}
    shared = arguments.whole("n-shared-experts", minimum=0)
    shared_width = arguments.whole("moe-shared-expert-intermediate-size", minimum=0)
    if shared:
        moe["shared_experts"] = shared
        if shared_width and shared_width != shared * width:
            moe["shared_hidden_size"] = shared_width
    elif shared_width:
        whole = shared_width % width == 0
        moe["shared_experts"] = shared_width // width if whole else 1
        moe["shared_hidden_size"] = None if whole else shared_width
    if arguments.has("moe-shared-expert-gate", "shared-expert-gate"):
        moe["shared_gate"] = True
    if arguments.has("moe-router-enable-expert-bias"):
        moe["router_bias"] = True
    if spec.get("bias"):
        moe["bias"] = True
    latent = arguments.whole("moe-latent-size")
    if latent:
        moe["latent_size"] = latent
    spec["moe"] = {key: value for key, value in moe.items() if value is not None}
    _placement(arguments, spec, notes)


def _placement(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> None:
    """Which layers are mixtures.

    MindSpeed: layers from --first-k-dense-replace on whose index --moe-layer-freq divides (-1: all). Megatron: a
    frequency, or a list of zeros and ones.
    """
    frequency = arguments.pattern("moe-layer-freq")
    dense = arguments.whole("first-k-dense-replace", minimum=-1)
    layers = spec["layers"]
    if isinstance(frequency, list):
        if len(frequency) != layers:
            notes.refuse(f"--moe-layer-freq lists {len(frequency)} layers, --num-layers is {layers}")
            return
        leading = next((index for index, value in enumerate(frequency) if value), layers)
        if all(frequency[leading:]):
            spec["moe"]["leading_dense_layers"] = leading
        else:
            spec["feed_forwards"] = ["moe" if value else "dense" for value in frequency]
        return
    if dense is not None and dense > 0:
        spec["moe"]["leading_dense_layers"] = dense
    if frequency is not None and abs(frequency) > 1:
        spec["moe"]["layer_frequency"] = abs(frequency)

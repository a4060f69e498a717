"""Device, count and network words of a measured run to the `cluster:` section of a plan."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from cann_plan.importers.rows import Fields, Remark, RowSkippedError
from cann_plan.spec.hardware_presets import UnknownPresetError
from cann_plan.spec.hardware_words import cluster_from_words

# Names of software families in rows -> profile preset. A stack that is a profile or alias needs no entry.
STACKS: Final = {
    "torchtune": ("torchtitan", "torchtune shards with PyTorch FSDP2 as torchtitan does"),
    "pytorch": ("fsdp", None),
    "flash-attn": ("megatron", "the FlashAttention training script follows Megatron-LM's GPT"),
    "xformers": ("fsdp", "LLaMA was trained with PyTorch and xformers; fully sharded data parallel is assumed"),
    "alpa": ("jax", "Alpa runs on JAX"),
}
# Profiles that shard fully where a row states no layout, and profiles of NVIDIA's recipes.
FULLY_SHARDED: Final = ("fsdp", "torchtitan", "llm-foundry", "jax", "maxtext", "paxml", "deepspeed")
RECIPES: Final = ("megatron-bridge", "nemo")
# Wording of `framework` that says more than the stack's name.
FRAMEWORKS: Final = (
    ("MindFormers r0.8", "mindformers-1.0", "releases up to 1.0 form a class of their own"),
    ("MindFormers r1.0", "mindformers-1.0", "releases up to 1.0 form a class of their own"),
    ("MindFormers r1.5", "mindformers-1.5", "releases from 1.5 form a class of their own"),
    ("MindFormers dev", "mindformers-1.5", "releases from 1.5 form a class of their own"),
    ("BigScience", "bigscience", "BigScience's build on Jean Zay is a class of its own"),
    ("AutoModel", "fsdp", "NeMo AutoModel trains with PyTorch FSDP2"),
    ("metaseq", "fsdp", "metaseq shards with FairScale's FSDP"),
    ("GPT-NeoX", "megatron-deepspeed", "GPT-NeoX is Megatron with DeepSpeed"),
)


@cache
def _cluster(device: str, hardware: str, network: str, per_node: int | None) -> dict[str, Any]:
    return cluster_from_words(device, hardware, network, per_node)


def cluster_section(top: Fields) -> tuple[dict[str, Any], list[Remark]]:
    """The cluster: the named system or the usual one of the device, with the run's count and stated rates.

    Raises:
        RowSkippedError: unknown device or number of devices.
    """
    device = top.text("device")
    devices = top.whole("devices")
    per_node = top.whole("devices_per_node")
    hardware, network = top.text("hardware") or "", top.text("network") or ""
    if device is None:
        raise RowSkippedError("device is not stated")
    if devices is None:
        raise RowSkippedError("the number of devices is not stated")
    words = "" if network.lower().startswith(("not stated", "unknown")) else network
    try:
        document = dict(_cluster(device, hardware, words, per_node))
    except UnknownPresetError:
        raise RowSkippedError(f"no preset of device {device}") from None
    document["devices"] = devices
    remarks = []
    if per_node is not None and devices < per_node:
        document.pop("devices_per_node", None)
    if not words and devices > (per_node or 0):
        remarks.append(Remark("cluster", document["extends"], f"usual cluster of {device}: the network is not stated"))
    return document, remarks


def stack_name(top: Fields) -> tuple[str | None, list[Remark]]:
    """Profile of the software stack; None leaves it to the planner."""
    stack, framework = top.text("stack"), top.text("framework") or ""
    for words, profile, reason in FRAMEWORKS:
        if words in framework:
            return profile, [Remark("software.stack", profile, reason)]
    if stack is None or stack == "unknown":
        return None, []
    profile, note = STACKS.get(stack, (stack, None))
    return profile, [Remark("software.stack", profile, note)] if note else []

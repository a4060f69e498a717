"""Which software stack a launch uses, on how many devices of which cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from cann_plan.importers.environment import NODES, PER_NODE, count
from cann_plan.importers.imported import CLUSTERS, Notes
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_source import Launch
from cann_plan.importers.script_errors import is_unknown
from cann_plan.spec.hardware_presets import UnknownPresetError, load_cluster_spec, load_server

_ASCEND_WORDS: Final = re.compile(r"torch_npu|ascend|mindspeed|modellink|\bNPU|_NPU_|HCCL", re.I)
_ASCEND_ARGUMENTS: Final = frozenset({
    "use-ascend-mc2", "use-ascend-coc", "use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb",
    "reuse-fp32-param", "swap-attention", "swap-optimizer", "context-parallel-algo", "noop-layers",
    "no-shared-storage", "npu-deterministic", "tp-2d", "recompute-activation-function", "num-layer-list",
    "moe-permutation-async-comm", "enable-recompute-layers-per-pp-rank", "first-k-dense-replace",
    "gemm-gradient-accumulation-fusion", "moe-tp-extend-ep", "schedules-method", "use-fused-ring-attention-update",
})  # fmt: skip
_A3_WORDS: Final = re.compile(r"(?:^|[^a-z0-9])a3(?:[^a-z0-9]|$)", re.I)


@dataclass(frozen=True, slots=True)
class Stack:
    """`name`: software profile; `ascend`: NPUs; `legacy`: experts nested in data parallelism, no Megatron-Core."""

    name: str
    ascend: bool
    legacy: bool


def stack_of(arguments: Arguments, launch: Launch, notes: Notes, stated: str | None = None) -> Stack:
    """The stack: the one stated, else what arguments, environment and wording tell."""
    ascend = bool(_ASCEND_ARGUMENTS & set(arguments.data)) or bool(_ASCEND_WORDS.search(launch.words))
    ascend = ascend or any(name.startswith(("HCCL_", "ASCEND_")) or "NPU" in name for name in launch.environment)
    if stated is not None:
        ascend = stated.startswith(("mindspeed", "ascend", "modellink", "mindformers"))
        return Stack(stated, ascend, stated in ("mindspeed-legacy", "modellink", "ascendspeed"))
    if arguments.has("fsdp-size"):
        return Stack(notes.assume("software.stack", "fsdp", "FSDP2 arguments"), ascend, False)
    core = arguments.has("use-mcore-models") or arguments.has("spec")
    legacy = arguments.has("use-legacy-models")
    early = arguments.has("checkpoint-activations", "checkpoint-policy", "zero-stage", "auto-recompute-device-size")
    if not ascend:
        if arguments.has("deepspeed", "zero-stage"):
            notes.assume("software.stack", "megatron-deepspeed", "Megatron with DeepSpeed arguments")
            return Stack("megatron-deepspeed", False, True)
        return Stack(notes.assume("software.stack", "megatron", "Megatron-LM arguments"), False, legacy)
    if early:
        return Stack(notes.assume("software.stack", "ascendspeed", "argument names of AscendSpeed"), True, True)
    if legacy or not core:
        reason = "no --use-mcore-models among MindSpeed arguments"
        return Stack(notes.assume("software.stack", "mindspeed-legacy", reason), True, True)
    return Stack(notes.assume("software.stack", "mindspeed-mcore", "MindSpeed arguments, Megatron-Core"), True, False)


def cluster_section(
    launch: Launch, stack: Stack, ranks: int, unit: int, notes: Notes, *, cluster: str | None, devices: int | None
) -> tuple[dict[str, Any], int]:
    """(`cluster:` section, devices). `ranks`: tensor x pipeline x context; `unit`: its granularity.

    A count that the layout does not fit is a placeholder (scripts ship NNODES=1): the fewest devices are taken then.
    """
    nodes = _count(launch, "nnodes", "num-nodes", scheduler=("nodes", "N"), names=NODES, notes=notes)
    per_node = _count(
        launch, "nproc-per-node", "num-gpus", scheduler=("ntasks-per-node", "gpus-per-node", "gres"),
        names=PER_NODE, notes=notes,
    )  # fmt: skip
    section: dict[str, Any] = {"extends": cluster or _usual(launch, stack, per_node, notes)}
    total = devices
    if total is None and per_node is not None:
        total = per_node * notes_default(nodes, notes)
        if total % unit:
            word = "placeholder" if total < unit else "contradiction"
            notes.warn(
                f"{total} devices ({nodes or 1} x {per_node}) do not hold tensor x pipeline x context = {ranks}"
                f" (multiples of {unit}): a {word}; state --devices"
            )
            total = None
    if total is None:
        total = notes.assume("cluster.devices", unit, "the fewest that hold the layout; the launch does not state it")
    section["devices"] = total
    if per_node is not None and per_node < _server_size(section["extends"]) and total % per_node == 0:
        section["devices_per_node"] = per_node
    return section, total


def _server_size(cluster: str) -> int:
    """Devices of one server of a cluster preset; 0 where it is not a preset."""
    try:
        return load_server(str(load_cluster_spec(cluster).server)).devices_per_node
    except UnknownPresetError:
        return 0


def notes_default(nodes: int | None, notes: Notes) -> int:
    """Nodes of a launch that states none."""
    return nodes if nodes is not None else int(notes.assume("cluster.nodes", 1, "not stated"))


def _count(
    launch: Launch, *options: str, scheduler: tuple[str, ...], names: tuple[str, ...], notes: Notes
) -> int | None:
    for option in options:
        values = launch.launcher.get(option)
        if not values or is_unknown(values[0]):
            continue
        low, _, high = values[0].partition(":")
        if high:
            notes.warn(f"--{option} {values[0]} is elastic: {high} is taken")
        text = high or low
        if text.isdigit() and 0 < int(text) < 10**7:
            return int(text)
    for name in scheduler:
        digits = re.search(r"(\d{1,6})$", launch.scheduler.get(name, ""))
        if digits and int(digits[1]):
            return int(digits[1])
    return count(launch.environment, names)


def _usual(launch: Launch, stack: Stack, per_node: int | None, notes: Notes) -> str:
    if not stack.ascend:
        return str(notes.assume("cluster", CLUSTERS["nvidia"], "the launch does not say on which devices it runs"))
    if per_node == 16 or _A3_WORDS.search((launch.name or "").replace("_", " ")):
        return str(notes.assume("cluster", CLUSTERS["ascend-a3"], "16 processes per node, or A3 in the name"))
    return str(notes.assume("cluster", CLUSTERS["ascend"], "the launch does not say on which devices it runs"))

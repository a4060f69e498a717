"""Degrees, sharding, batch, context parallelism and overlap to the `parallel:` section."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_cluster import Stack

CONTEXT_ALGORITHMS: Final = {
    "megatron_cp_algo": "ring", "ulysses_cp_algo": "ulysses", "hybrid_cp_algo": "hybrid",
    "kvallgather_cp_algo": "all_gather", "adaptive_cp_algo": "ring", "hybrid_adaptive_cp_algo": "hybrid",
    "mamba_cp_algo": "ulysses",
}  # fmt: skip
# Megatron-LM --cp-comm-type: p2p sends, all-to-all over heads, both, all-gather.
CONTEXT_TYPES: Final = {"p2p": "ring", "a2a": "ulysses", "a2a+p2p": "hybrid", "allgather": "all_gather"}
FULLY_SHARDED: Final = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_NEW_NAMES: Final = frozenset({"transformer-impl", "multi-latent-attention", "qk-head-dim", "moe-fb-overlap"})


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees that do not depend on the number of devices."""

    tensor: int
    pipeline: int
    context: int
    expert: int
    expert_tensor: int | None

    @property
    def ranks(self) -> int:
        """Ranks of one data-parallel replica."""
        return self.tensor * self.pipeline * self.context

    @property
    def unit(self) -> int:
        """What the number of devices must be a multiple of."""
        experts = self.expert * (self.expert_tensor or 1) * self.pipeline
        return math.lcm(self.ranks, experts)


def degrees(arguments: Arguments, stack: Stack, notes: Notes) -> Degrees:
    """Degrees of the layout; those left out are 1.

    Experts: Megatron-Core makes --expert-tensor-parallel-size the tensor degree where it is absent; MindSpeed's
    --moe-tp-extend-ep spreads whole experts over tensor x expert ranks.
    """
    tensor = arguments.whole("tensor-model-parallel-size") or 1
    pipeline = arguments.whole("pipeline-model-parallel-size") or 1
    context = arguments.whole("context-parallel-size") or 1
    expert = arguments.whole("expert-model-parallel-size", "moe-expert-parallel-size") or 1
    etp = arguments.whole("expert-tensor-parallel-size")
    if arguments.has("moe-tp-extend-ep"):
        return Degrees(tensor, pipeline, context, expert * tensor, 1)
    has_experts = (arguments.whole("num-experts") or 1) > 1
    if etp is None and has_experts and tensor > 1:
        etp = notes.assume("parallel.expert_tensor", tensor, "Megatron default: the tensor degree")
    return Degrees(tensor, pipeline, context, expert, etp if has_experts else None)


def parallel_section(
    arguments: Arguments, stack: Stack, found: Degrees, devices: int, notes: Notes, context_default: str | None
) -> dict[str, Any]:
    """`parallel:` without pipeline splits and recomputation."""
    data = max(1, devices // found.ranks)
    section: dict[str, Any] = {"tensor": found.tensor, "pipeline": found.pipeline, "data": data}
    if found.context > 1:
        section["context"] = found.context
        _context(arguments, stack, section, found, notes, context_default)
    if found.expert > 1 or found.expert_tensor is not None:
        section["expert"] = found.expert
        section["expert_tensor"] = found.expert_tensor
    if stack.legacy and found.expert > 1:
        section["group_generator"] = "nested"
    if found.tensor > 1:
        section["sequence_parallel"] = arguments.has("sequence-parallel")
    else:
        arguments.has("sequence-parallel")
    _grid(arguments, section, found, notes)
    _sharding(arguments, section, data * found.context, notes)
    _offload(arguments, section, notes)
    section["overlap"] = _overlap(arguments, found)
    if stack.legacy and section["overlap"]["tensor"] == "mc2":
        notes.warn("--use-mc2: ModelLink of the RC2 era switches it off when it checks its arguments")
    order = arguments.text("rank-order")
    if arguments.has("use-tp-pp-dp-mapping"):
        order = "tp-cp-ep-pp-dp"
    section["rank_order"] = order
    return section


def _context(
    arguments: Arguments, stack: Stack, section: dict[str, Any], found: Degrees, notes: Notes, default: str | None
) -> None:
    algorithm, kind = arguments.text("context-parallel-algo"), None
    types = arguments.texts("cp-comm-type")
    if algorithm is not None:
        kind = CONTEXT_ALGORITHMS.get(algorithm)
        if kind is None:
            notes.refuse(f"--context-parallel-algo {algorithm}: nobody here knows it")
        if "adaptive" in algorithm:
            notes.unmodelled("context-parallel-algo", algorithm, f"taken as {kind}; adapts to the mask at run time")
    elif types:
        kind = CONTEXT_TYPES.get(types[0])
        if kind is None or len(set(types)) > 1:
            notes.unmodelled("cp-comm-type", " ".join(types), "mixed or unknown kinds: ring taken")
            kind = "ring"
    elif stack.ascend:
        new = bool(_NEW_NAMES & set(arguments.data))
        kind = default or ("ring" if new else "ulysses")
        notes.assume("parallel.context_kind", kind, "default of MindSpeed's --context-parallel-algo")
        if default is None:
            notes.warn(
                "--context-parallel-algo is not given and its default changed from ulysses_cp_algo to megatron_cp_algo:"
                f" {kind} is taken from the {'newer' if new else 'older'} argument names beside it"
            )
    else:
        kind = default or "ring"
        notes.assume("parallel.context_kind", kind, "Megatron default of --cp-comm-type: p2p")
    section["context_kind"] = kind
    degree = arguments.whole("ulysses-degree-in-cp")
    sizes = arguments.wholes("hierarchical-context-parallel-sizes")
    if kind == "hybrid":
        section["ulysses_degree"] = degree or (sizes[0] if sizes else None)
        if section["ulysses_degree"] is None:
            notes.refuse("hybrid context parallelism needs --ulysses-degree-in-cp")
    window = arguments.whole("cp-window-size")
    if window is not None and window > 1:
        notes.unmodelled("cp-window-size", window, "double ring: a plain ring is taken")


def _grid(arguments: Arguments, section: dict[str, Any], found: Degrees, notes: Notes) -> None:
    if not arguments.has("tp-2d"):
        return
    x, y = arguments.whole("tp-x"), arguments.whole("tp-y")
    x = x or (found.tensor // y if y else None)
    y = y or (found.tensor // x if x else None)
    if x is None or y is None or x * y != found.tensor:
        notes.refuse(f"--tp-2d: {x} x {y} is not the tensor degree {found.tensor}")
        return
    section["tensor_grid"] = [x, y]


def _sharding(arguments: Arguments, section: dict[str, Any], replicas: int, notes: Notes) -> None:
    """ZeRO stage: the distributed optimizer is 1; FSDP by its strategy."""
    stage = arguments.whole("zero-stage", minimum=0)
    distributed = arguments.has("use-distributed-optimizer")
    group = arguments.whole("fsdp-size")
    if arguments.has("use-torch-fsdp2", "use-fsdp2", "enable-zero3") or arguments.text("fsdp2-config-path") or group:
        stage = 3
        if group is not None and group < replicas and replicas % group == 0:
            section["shard_group"] = group
    elif arguments.has("layerzero"):
        stage = 3
        notes.unmodelled("layerzero", True, "LayerZeRO: its configuration file is not read; full sharding taken")
    elif arguments.has("use-megatron-fsdp", "use-custom-fsdp"):
        strategy = arguments.text("data-parallel-sharding-strategy")
        stage = FULLY_SHARDED.get(strategy or "", 3)
        if strategy is None:
            notes.assume("parallel.zero_stage", 3, "FSDP without --data-parallel-sharding-strategy: full sharding")
    section["zero_stage"] = stage if stage is not None else int(distributed)
    instances = arguments.whole("num-distributed-optimizer-instances") or 1
    if instances > 1 and section["zero_stage"]:
        if replicas % instances:
            notes.refuse(f"--num-distributed-optimizer-instances {instances} does not divide {replicas} replicas")
        else:
            section["shard_group"] = replicas // instances


def _offload(arguments: Arguments, section: dict[str, Any], notes: Notes) -> None:
    offload: dict[str, Any] = {}
    if arguments.has("swap-optimizer"):
        offload |= {"optimizer": 1.0, "target": "host", "optimizer_step": "device"}
        arguments.ask(("swap-optimizer-times",))
    if arguments.has("virtual-optimizer"):
        offload |= {"optimizer": 1.0, "target": "host", "optimizer_step": "device"}
        share = arguments.text("virtual-optimizer") or "all"
        notes.unmodelled("virtual-optimizer", share, "taken as all states swapped")
    if arguments.has("optimizer-cpu-offload", "cpu-optimizer"):
        fraction = arguments.number("optimizer-offload-fraction")
        offload |= {"optimizer": 1.0 if fraction is None else fraction, "target": "host", "optimizer_step": "host"}
    if arguments.has("swap-attention"):
        offload |= {"activations": 1.0, "target": "host", "activation_modules": _swapped(arguments, notes)}
    layers = arguments.whole("cpu-offloading-num-layers", minimum=0)
    if layers:
        notes.unmodelled("cpu-offloading-num-layers", layers, "activations of some layers kept in host memory")
    section["offload"] = offload


def _swapped(arguments: Arguments, notes: Notes) -> list[str]:
    """Modules whose activations --swap-attention moves; default norms and attention (MindSpeed --swap-modules)."""
    names = {"input_norm": "norm", "post_attention_norm": "norm", "self_attention": "attention", "mlp": "mlp",
             "pre_mlp_layernorm": "norm", "input_layernorm": "norm"}  # fmt: skip
    stated = arguments.texts("swap-modules")
    unknown = [name for name in stated if name not in names]
    for name in unknown:
        notes.unmodelled("swap-modules", name, "module nobody here knows")
    found = [names[name] for name in stated if name in names]
    return list(dict.fromkeys(found)) or ["norm", "attention"]


def _overlap(arguments: Arguments, found: Degrees) -> dict[str, Any]:
    """A flag that is not given is off; pipeline sends overlap with interleaving unless switched off (Megatron)."""
    tensor = "none"
    if arguments.has("use-ascend-mc2"):
        tensor = "mc2"
    elif arguments.has("use-ascend-coc"):
        tensor = "coc"
    elif arguments.has("tp-comm-overlap") and found.tensor > 1:
        tensor = "bulk"
    arguments.ask(("coc-parallel-num", "coc-fused-kernel", "coc-mode"))
    interleaved = any(name in arguments.data for name in
                      ("num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"))  # fmt: skip
    off = arguments.has("no-overlap-p2p-communication")
    sends = arguments.has("optimize-send-recv-comm", "optimize-vpp-send-recv-comm")
    expert = ("overlap-moe-expert-parallel-comm", "moe-alltoall-overlap-comm", "moe-allgather-overlap-comm",
              "moe-fb-overlap")  # fmt: skip
    return {
        "grad_reduce": arguments.has("overlap-grad-reduce"),
        "param_gather": arguments.has("overlap-param-gather"),
        "tensor": tensor,
        "p2p": found.pipeline > 1 and ((interleaved and not off) or sends),
        "expert": arguments.has(*expert) if found.expert > 1 else None,
    }

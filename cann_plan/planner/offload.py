"""`parallel.offload` to the shares, host bytes and rates the cost models read."""

from __future__ import annotations

import numpy as np

from cann_plan.cost.problem import NO_OFFLOAD, OffloadOptions, StateBytes
from cann_plan.cost.recompute import Policy
from cann_plan.planner.assumptions import Assumptions
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.parallel import OffloadSpec
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.profile import ProfileSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.rows import LayerRows, LayerSettings
from cann_plan.workload.parameters import ParameterCounts

# DeepSpeed's own estimate of host memory (runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs): 16 bytes per
# parameter with the optimizer on the host (12 and fp32 gradients), 18 with the weights too, times 1.5 for buffers.
DEEPSPEED_GRADIENTS, DEEPSPEED_BUFFERS = 4.0, 1.5
# CPU-Adam of ZeRO-Offload (arXiv 2101.06840, table 4): 10 billion parameters in 2.57 s on the 48 cores of a DGX-2 host.
UPDATE_RATE = 10e9 / 2.57  # parameters/s of a node
LINK = 25e9  # bytes/s, of a PCIe 4.0 x16 slot that nobody measured: 31.5e9 less packet overhead


def default_link(cluster: Cluster) -> float:
    """Bytes/s of a device's link to the host, stated or usual."""
    return float(cluster.device.host_link.bandwidth.value or LINK)


def offload_options(
    plan: PlanSpec, cluster: Cluster, profile: ProfileSpec, states: StateBytes, settings: LayerSettings,
    architecture: Architecture, counts: ParameterCounts, assumptions: Assumptions,
) -> OffloadOptions:  # fmt: skip
    """Resolve the offload of a plan; host capacity counts even where nothing is offloaded.

    A share of `auto` counts as none here: `planner.offload_auto` finds it.
    """
    spec: OffloadSpec = plan.parallel.offload
    memory = cluster.host.memory.value
    capacity = float("inf") if memory is None else float(memory)
    deepspeed = profile.defaults.states == "deepspeed"
    optimizer = _share(spec.optimizer)
    gradients = spec.gradients
    if gradients is None:
        # DeepSpeed moves the gradients of offloaded optimizer states to the host with them (offload_optimizer)
        gradients = optimizer if deepspeed and (plan.parallel.zero_stage or 0) >= 2 else 0.0
    activations = _share(spec.activations)
    if activations and spec.activation_modules:
        activations *= module_share(architecture, settings, frozenset(spec.activation_modules))
    shares = (optimizer, gradients, activations, spec.parameters or 0.0)
    if max(shares) <= 0.0:
        return OffloadOptions(capacity=capacity) if np.isfinite(capacity) else NO_OFFLOAD
    link = cluster.device.host_link.bandwidth.value
    if link is None:
        link = LINK
        assumptions.add("cluster.host_link", "25 GB/s", f"no source states the host link of {cluster.device.name}")
    on_host = spec.optimizer_step != "device"
    if optimizer and spec.optimizer_step is None:
        on_host = deepspeed or profile.defaults.states == "fsdp" or cluster.device.kind != "npu"
        place = "host" if on_host else "device"
        assumptions.add("parallel.offload.optimizer_step", place, f"usual of profile {profile.name}")
    load = 0.0
    if deepspeed:
        # without zero.Init every process builds the fp32 model first (the estimate's max(4 x devices per node, 18))
        staged = (plan.parallel.zero_stage or 0) < 3
        load = 4.0 * counts.total * DEEPSPEED_BUFFERS if staged else 0.0
    return OffloadOptions(
        *shares, on_host, DEEPSPEED_GRADIENTS - (states.gradient if gradients else 0.0) if deepspeed else 0.0,
        DEEPSPEED_BUFFERS if deepspeed else 1.0, load, 0.0, capacity, float(link), UPDATE_RATE,
    )  # fmt: skip


def _share(stated: float | str | None) -> float:
    return 0.0 if stated is None or isinstance(stated, str) else stated


def module_share(architecture: Architecture, settings: LayerSettings, modules: frozenset[str]) -> float:
    """Share of a model's kept activations that belongs to `modules`."""
    one = np.ones(1)
    row = LayerRows(one, one, np.zeros(1, np.int64), one, one, one, one, np.zeros(1))
    policy = Policy("offloaded", modules)
    away, all_kept = 0.0, 0.0
    for index, kind in enumerate(architecture.kinds):
        layers = architecture.sequence.count(index)
        for operator in layer_operators(kind, row, settings):
            for saved in Policy("none").saved(operator):
                size = float(np.sum(saved.size)) * layers
                all_kept += size
                away += size if policy.drops(saved) else 0.0
    return away / all_kept if all_kept else 0.0

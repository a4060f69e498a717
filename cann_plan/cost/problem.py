"""Everything about a plan that is not an axis of the search, resolved to numbers the cost models read."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cann_plan.cost.layer_time import Compute
from cann_plan.cost.recompute import Policy
from cann_plan.network.compression import NO_COMPRESSION, Compression
from cann_plan.records import dataclass
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.operators.operator import Array
from cann_plan.workload.operators.rows import LayerSettings


class Communication(Protocol):
    """Time of collectives on a cluster (the communication table)."""

    def seconds(
        self,
        operation: str,
        nbytes: ArrayLike,
        group_size: ArrayLike,
        stride: ArrayLike = 1,
        *,
        outer_size: ArrayLike | None = None,
        outer_stride: ArrayLike | None = None,
        concurrent: bool = True,
    ) -> Array:
        """Seconds of one collective per row; shapes (N,). A group of one rank takes none."""
        ...

    def groups(
        self,
        group_size: ArrayLike,
        stride: ArrayLike = 1,
        *,
        outer_size: ArrayLike | None = None,
        outer_stride: ArrayLike | None = None,
        concurrent: bool = True,
    ) -> NDArray[np.int64]:
        """Integers that stand for the groups in `seconds_of`, shape (N,)."""
        ...

    def seconds_of(self, operation: str, nbytes: ArrayLike, groups: NDArray[np.int64]) -> Array:
        """Seconds of one collective per row for groups known by their integers, shape (N,)."""
        ...


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter of each training state, before sharding.

    `live`: bytes per element of the gathered copy a layer computes with under fully sharded parameters. `late`: part
    of `optimizer` that the first update creates (moments).
    """

    weight: float
    gradient: float
    optimizer: float
    reduce: float  # bytes per element of the gradient exchange
    gather: float  # bytes per element of the parameter all-gather
    live: float
    optimizer_traffic: float  # bytes read and written per parameter by the optimizer step
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class OverlapOptions:
    """Which communication runs behind compute."""

    tensor: str = "none"  # none | mc2 | coc | bulk
    grad_reduce: bool = False
    param_gather: bool = False
    p2p: bool = False
    expert: bool = False


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Device memory outside the model's tensors; bytes.

    `fragmentation`: share of allocated memory the allocator holds unused. `communicator_bytes`: buffers of one
    communication group; `p2p_communicator_bytes`: of a pipeline group. `workspace`: libraries' scratch inside the
    allocator. `cached_weight_gradients`: one matrix of every distinct weight shape stays allocated. `update_tensor`,
    `update_all`: bytes the optimizer step holds per element of its largest tensor, and per element it updates.
    `kept_outputs`: a stage keeps what it sent of every micro-batch in flight (DeepSpeed's pipeline engine).
    `update_group`: parameters a fully sharded optimizer updates at a time. Fully sharded weights: `live_parameters`, at
    least so many stay gathered; `gathered_tables`: the embedding and the head stay gathered for the whole pass.
    `load_whole`: every device loads its whole weights before they are sharded over data-parallel ranks.
    """

    capacity: float
    visible: float
    runtime: float
    communicator_bytes: float
    p2p_communicator_bytes: float
    fragmentation: float
    borderline: float = 0.04  # share of usable memory within which a fit is called borderline
    limit: float = 1.0  # share of visible memory that a layout may take
    workspace: float = 0.0
    cached_weight_gradients: bool = False
    update_tensor: float = 0.0
    update_all: float = 0.0
    kept_outputs: bool = False
    load_whole: bool = False
    update_group: float = float("inf")
    live_parameters: float = 0.0
    gathered_tables: bool = False


@dataclass(frozen=True, slots=True)
class OffloadOptions:
    """Shares of what a rank holds that live in host memory, and the host's side of it.

    `host_extra`: bytes per updated parameter that the host holds besides (fp32 gradients). `host_factor`: host bytes
    per offloaded byte (pinned buffers). `load_copy`: bytes of a checkpoint that every process holds while loading;
    `process`: host bytes of a process whatever it offloads. `capacity`: host bytes of a node, infinite if unknown.
    `link`: bytes/s of one device's host link; `update_rate`: parameters/s the CPUs of a node update.
    """

    optimizer: float = 0.0
    gradients: float = 0.0
    activations: float = 0.0
    parameters: float = 0.0
    update_on_host: bool = True
    host_extra: float = 0.0
    host_factor: float = 1.0
    load_copy: float = 0.0
    process: float = 0.0
    capacity: float = float("inf")
    link: float = 1.0
    update_rate: float = 1.0

    @property
    def active(self) -> bool:
        """Whether anything is off the device."""
        return max(self.optimizer, self.gradients, self.activations, self.parameters) > 0.0


NO_OFFLOAD = OffloadOptions()


@dataclass(frozen=True, slots=True)
class Problem:
    """One model, cluster and training job.

    `splits[i]`: layers per stage, or None for an even split; `recompute_lists[i]`: recomputed layers per stage,
    chosen by a strategy's `recompute_layers` of -(i + 2). `vector_parameters[k]`: parameters of kind k that no
    matrix product holds (norms, biases), replicated over the tensor-parallel group.
    """

    architecture: Architecture
    settings: LayerSettings
    compute: Compute
    communication: Communication
    devices: int
    devices_per_node: int
    global_batch_size: int
    states: StateBytes
    overlap: OverlapOptions
    memory: MemoryOptions
    policies: tuple[Policy, ...]
    vector_parameters: tuple[float, ...]
    splits: tuple[tuple[int, ...] | None, ...] = (None,)
    recompute_lists: tuple[tuple[int, ...], ...] = ()
    recompute_scope: str = "stage"
    fused_loss: bool = False
    vocabulary_multiple: int = 128
    library: str = "ideal"  # collective library, whose kernels may take compute units while they overlap
    compression: Compression = NO_COMPRESSION  # of gradients on the wire
    nested_experts: bool = False
    scatter_each_micro_batch: bool = True  # ZeRO stage 2 scatters gradients of every micro-batch (MindSpore: once)
    gathers_per_layer: float = 1.0  # messages in which a layer's fully sharded parameters are gathered
    scatter_gather: bool = False  # boundary tensors sent in tensor-parallel slices and gathered inside the node
    frozen_states: float = 0.0  # bytes per parameter of a frozen base model (LoRA): weights only
    trainable_fraction: float = 1.0
    offload: OffloadOptions = NO_OFFLOAD
    reference_copies: float = 0.0  # frozen models of the same size that only run forward (DPO)

"""What a stack and a device add to the memory of a model's tensors: kernels' habits, library buffers, the allocator."""

from __future__ import annotations

from dataclasses import replace

from cann_plan.cost.problem import MemoryOptions
from cann_plan.planner.assumptions import Assumptions, PlanError
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.device import UnknownFigureError
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.profile import ProfileSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.operators.retention import LogitBytes, Retention

MIB = 2.0**20
HCCL_BUFFER = 200.0 * MIB  # HCCL_BUFFSIZE default, hiascend envref_07_0080
HCCL_P2P_BUFFER = 20.0 * MIB  # P2P_HCCL_BUFFSIZE default, torch_npu 7.1 documentation
NCCL_COMMUNICATOR = 411041792.0  # bytes of an 8-rank communicator's buffers, AIConfigurator systems tables
DEFAULT_RUNTIME = 1.0 * 2.0**30  # context of a device nobody measured; shown as an assumption

# torch_npu npu_fusion_attention returns softmax_max and softmax_sum, fp32 of shape (batch, heads, queries, 8).
NPU_STATISTICS = 2.0 * 8.0 * 4.0
FLASH_STATISTICS = 4.0  # one fp32 log-sum-exp per query and head, FlashAttention-2 (arXiv 2307.08691 section 3.1)

# Bytes per logit. Megatron-Core (core/tensor_parallel/cross_entropy.py): the logits in 16 bits beside an fp32 copy that
# becomes the softmax in place, is kept, and becomes the gradient in place, which is cast to 16 bits.
MEGATRON_LOGITS = LogitBytes(4.0, 2.0, 2.0)
# Megatron-LM before core 0.5: `.float()` and a subtraction out of place, so two fp32 copies beside the logits.
# The fused loss of Megatron-Core ("native") is that code compiled: 10 bytes per logit in its functional tests too.
COPIED_LOGITS = LogitBytes(4.0, 6.0, 2.0)
# PyTorch cross_entropy(logits.float()): logits 2, fp32 copy 4, log-softmax 4 (kept); backward: the gradients of the
# negative log-likelihood and of the log-softmax beside it.
TORCH_LOGITS = LogitBytes(4.0, 6.0, 8.0)
IN_PLACE_LOGITS = LogitBytes(2.0, 0.0, 0.0)  # Transformer Engine's Triton loss: the gradient overwrites the logits
NO_LOGITS = LogitBytes(0.0, 0.0, 0.0)  # Liger: logits exist chunk by chunk

FSDP_REDUCE = 4.0  # bytes: reduce_dtype of the usual MixedPrecisionPolicy is fp32

# Workspace of cuBLAS inside PyTorch's allocator, of each of two handles (the main thread's and autograd's):
# aten/src/ATen/cuda/CublasHandlePool.cpp, 32 MiB from Hopper on, else ":4096:2:16:8"; ":4096:8" when deterministic.
CUBLAS_HANDLES = 2.0
CUBLAS_LARGE, CUBLAS_SMALL = 32.0 * MIB, 8.125 * MIB
TE_LARGE, TE_SMALL = 32.0 * MIB, 4.0 * MIB  # Transformer Engine get_cublas_workspace_size_bytes
LARGE_WORKSPACE = ("hopper", "blackwell")

# The maxima that MindSpeed-LLM's tests print after the first step exceed the states by 4 bytes per element of the
# largest tensor the rank updates (12 of 12 layouts of 2024 and early 2025; from late 2025 on by nothing, except where
# the weights are the upper halves of the master copy: 4 bytes on all ranks of both layouts).
NPU_UPDATE = 4.0
# With 16-bit moments MindSpeed updates fp32 copies of weight, gradient and both moments, tensor by tensor.
NPU_UPDATE_16_BIT = 16.0
# DeepSpeed's step: the partition's gradients flattened in 16 bits and then cast to fp32 (zero/stage_1_and_2.py).
DEEPSPEED_UPDATE = 6.0
DEEPSPEED_GROUP = 1e9  # parameters: sub_group_size of stage 3, its default
DEEPSPEED_LIVE = 1e9  # parameters: stage3_max_live_parameters, its default
DEEPSPEED_BUCKET = 5e8 * 2.0  # bytes: reduce_bucket_size, default 5e8 elements (deepspeed.ai config-json)


def retention(
    plan: PlanSpec, cluster: Cluster, profile: ProfileSpec, architecture: Architecture, kernel: str
) -> Retention:
    """What the stack's kernels keep on the cluster's device."""
    scheme, device = profile.defaults.states, cluster.device
    npu = kernel == "ascend-fusion"
    # Transformer Engine takes cuDNN's attention on Hopper and newer (Blackwell: without dropout only), FlashAttention
    # on Ampere: its batch-first output is kept beside the sequence-first copy that the projection reads.
    engine = scheme == "megatron" and device.kind == "gpu" and not profile.defaults.legacy
    cudnn = device.family == "hopper" or (device.family == "blackwell" and not architecture.dropout)
    copied = engine and kernel.startswith("flash") and not cudnn
    logits = {"megatron": COPIED_LOGITS if profile.defaults.legacy else MEGATRON_LOGITS}.get(scheme, TORCH_LOGITS)
    loss = plan.software.loss.kernel
    fused = {"native": COPIED_LOGITS, "liger": NO_LOGITS}.get(loss or "te", IN_PLACE_LOGITS)
    return Retention(
        softmax_statistics=NPU_STATISTICS if npu else FLASH_STATISTICS,
        context_copy=copied,
        rope_input=device.kind == "npu",  # npu_rotary_mul's backward reads its input (torch_npu derivatives.yaml)
        # FSDP copies a layer's 16-bit gradients into an fp32 buffer for the reduce-scatter (fully_shard, reduce_dtype)
        reduced_gradient=FSDP_REDUCE if scheme == "fsdp" else 0.0,
        logits=logits,
        fused_logits=fused,
    )


def probabilities_in_activation(profile: ProfileSpec) -> bool:
    """Whether router probabilities scale the experts' activation (Megatron-Core from 0.12 on) and not their output,
    which then need not be kept.
    """
    return profile.defaults.states == "megatron" and not profile.defaults.legacy


def memory_options(
    plan: PlanSpec, cluster: Cluster, library: str, profile: ProfileSpec, fused: frozenset[str],
    assumptions: Assumptions,
) -> MemoryOptions:  # fmt: skip
    """Capacity, runtime, communicators, library buffers and fragmentation of one device.

    Raises:
        PlanError: the device's visible memory is not known.
    """
    spec, memory = cluster.device, plan.memory
    try:
        visible = spec.visible_memory()
    except UnknownFigureError as error:
        raise PlanError("cluster", str(error)) from error
    runtime = spec.runtime_memory.value
    if runtime is None:
        runtime = DEFAULT_RUNTIME
        assumptions.add("memory.runtime", "1 GiB", f"no source states the runtime's share on {spec.name}")
    if library == "hccl":
        buffer = memory.communicator_buffer_bytes
        if buffer is None:
            buffer = HCCL_BUFFER
            assumptions.add("memory.communicator_buffer_mib", 200, "HCCL_BUFFSIZE default")
        communicator, pair = 2.0 * buffer, 2.0 * HCCL_P2P_BUFFER
    else:
        stated = memory.communicator_buffer_bytes
        communicator = 2.0 * stated if stated is not None else NCCL_COMMUNICATOR
        pair = communicator
    share = profile.defaults.fragmentation
    if memory.expandable_segments:
        share = profile.defaults.expandable_fragmentation
    assumptions.add("memory.fragmentation", share, f"profile {profile.name}, share of allocated memory")
    capacity = spec.memory.capacity.value or visible
    limit = visible if memory.pool_bytes is None else min(visible, memory.pool_bytes)
    options = MemoryOptions(capacity, limit, runtime, communicator, pair, share)
    scheme, legacy = profile.defaults.states, profile.defaults.legacy
    engine = scheme == "megatron" and spec.kind == "gpu" and not legacy
    return replace(
        options,
        workspace=_workspace(plan, cluster, profile, engine=engine),
        # Transformer Engine from 2.3 on hands autograd one cached matrix of the weight's shape in place of a gradient
        # already added to the buffer (module/base.py get_dummy_wgrad)
        cached_weight_gradients=engine and "grad_accumulation" in fused,
        update_tensor=_update_tensor(plan, legacy=legacy) if scheme == "megatron" and spec.kind == "npu" else 0.0,
        update_all=DEEPSPEED_UPDATE if scheme == "deepspeed" else 0.0,
        kept_outputs=scheme == "deepspeed",
        load_whole=spec.kind in profile.defaults.loads_whole,
        update_group=DEEPSPEED_GROUP if scheme == "deepspeed" else float("inf"),
        live_parameters=DEEPSPEED_LIVE if scheme == "deepspeed" else 0.0,
        gathered_tables=scheme == "fsdp",
    )


def _update_tensor(plan: PlanSpec, *, legacy: bool) -> float:
    """Bytes per element of its largest tensor that MindSpeed's optimizer holds besides the states."""
    optimizer = plan.training.optimizer
    if optimizer.state_dtype in ("bf16", "fp16"):
        return NPU_UPDATE_16_BIT
    return NPU_UPDATE if legacy or optimizer.reuse_master_weights else 0.0


def _workspace(plan: PlanSpec, cluster: Cluster, profile: ProfileSpec, *, engine: bool) -> float:
    """Bytes of library workspaces that PyTorch on NVIDIA devices keeps inside its allocator."""
    device = cluster.device
    if device.kind != "gpu" or device.vendor != "NVIDIA" or profile.name in ("jax", "maxtext", "paxml"):
        return 0.0
    large = device.family in LARGE_WORKSPACE
    cublas = CUBLAS_LARGE if large or plan.software.deterministic else CUBLAS_SMALL
    bucket = DEEPSPEED_BUCKET if profile.defaults.states == "deepspeed" and profile.defaults.legacy else 0.0
    return CUBLAS_HANDLES * cublas + ((TE_LARGE if large else TE_SMALL) if engine else 0.0) + bucket

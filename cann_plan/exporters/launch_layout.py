"""A resolved layout to parallelism, recomputation and overlap arguments."""

from __future__ import annotations

from cann_plan.exporters.launch_arguments import ExportError, LaunchArguments
from cann_plan.spec.parallel import ParallelSpec

GROUP = "PARALLEL_ARGS"
_CONTEXT_ASCEND = {"ring": "megatron_cp_algo", "ulysses": "ulysses_cp_algo", "hybrid": "hybrid_cp_algo",
                   "all_gather": "kvallgather_cp_algo"}  # fmt: skip
_CONTEXT = {"ring": "p2p", "ulysses": "a2a", "hybrid": "a2a+p2p", "all_gather": "all_gather"}
_STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
_MODULES = {"core_attention": "core_attn", "moe_activation": "moe_act", "norm": "layernorm",
            "mla_up_proj": "mla_up_proj", "mlp": "mlp", "moe": "moe", "shared_experts": "shared_experts"}  # fmt: skip
_ASCEND_MODULES = {"activation": "recompute-activation-function", "norm": "recompute-norm",
                   "mla_up_proj": "recompute-mla-up-proj"}  # fmt: skip


def layout_arguments(parallel: ParallelSpec, layers: int, mtp: int, out: LaunchArguments) -> None:
    """Add a layout whose degrees are all stated."""
    tensor, pipeline, context = parallel.tensor or 1, parallel.pipeline or 1, parallel.context or 1
    out.add(GROUP, "tensor-model-parallel-size", tensor)
    out.add(GROUP, "pipeline-model-parallel-size", pipeline)
    out.flag(GROUP, "sequence-parallel", bool(parallel.sequence_parallel) and tensor > 1)
    if context > 1:
        _context(parallel, context, out)
    if (parallel.expert or 1) > 1:
        _experts(parallel, tensor, out)
    _pipeline(parallel, layers, mtp, pipeline, out)
    _sharding(parallel, context, out)
    _recompute(parallel, out)
    overlap = parallel.overlap
    out.flag(GROUP, "overlap-grad-reduce", overlap.grad_reduce)
    out.flag(GROUP, "overlap-param-gather", overlap.param_gather)
    kinds = {"mc2": "use-ascend-mc2", "coc": "use-ascend-coc"} if out.ascend else {"bulk": "tp-comm-overlap"}
    if overlap.tensor in kinds:
        out.add(GROUP, kinds[overlap.tensor])
    elif overlap.tensor not in (None, "none"):
        out.warn(f"tensor overlap {overlap.tensor} has no argument in this stack")
    if overlap.expert:
        out.add(GROUP, "moe-alltoall-overlap-comm" if out.ascend else "overlap-moe-expert-parallel-comm")
    _offload(parallel, out)


def _context(parallel: ParallelSpec, context: int, out: LaunchArguments) -> None:
    kind = parallel.context_kind or "ring"
    out.add(GROUP, "context-parallel-size", context)
    if out.ascend:
        out.add(GROUP, "context-parallel-algo", _CONTEXT_ASCEND[kind])
        if kind == "hybrid":
            out.add(GROUP, "ulysses-degree-in-cp", parallel.ulysses_degree)
        return
    out.add(GROUP, "cp-comm-type", _CONTEXT[kind])
    if kind == "hybrid":
        ulysses = parallel.ulysses_degree or 1
        out.add(GROUP, "hierarchical-context-parallel-sizes", ulysses, context // ulysses)


def _experts(parallel: ParallelSpec, tensor: int, out: LaunchArguments) -> None:
    out.add(GROUP, "expert-model-parallel-size", parallel.expert)
    out.add(GROUP, "expert-tensor-parallel-size", parallel.expert_tensor or tensor)


def _pipeline(parallel: ParallelSpec, layers: int, mtp: int, pipeline: int, out: LaunchArguments) -> None:
    virtual = parallel.virtual_pipeline or 1
    split = parallel.layer_split.layers
    schedule = parallel.schedule
    if schedule == "dualpipe-v" and out.ascend:
        out.add(GROUP, "schedules-method", "dualpipev")
    elif schedule not in (None, "1f1b", "interleaved"):
        out.warn(f"the schedule {schedule} has no argument in this stack: 1F1B runs")
    if split is None and virtual > 1:
        if layers % (pipeline * virtual):
            raise ExportError(
                f"{layers} layers do not divide into {pipeline} stages x {virtual} chunks: state layer_split"
            )
        out.add(GROUP, "num-layers-per-virtual-pipeline-stage", layers // (pipeline * virtual))
    elif split is None and layers % pipeline:
        split = _spread(layers, pipeline)
    if split is None:
        return
    chunks = list(split) if len(split) == pipeline * virtual else _chunks(split, virtual)
    if out.ascend and virtual == 1:
        out.add(GROUP, "num-layer-list", ",".join(str(count) for count in chunks))
        return
    if out.ascend:
        out.warn("MindSpeed has no argument for uneven chunks of interleaved stages: the split is not given")
        out.add(GROUP, "num-virtual-stages-per-pipeline-rank", virtual)
        return
    parts = ["t" * count for count in chunks]
    parts[0] = "E" + parts[0]
    parts[-1] += "m" * mtp + "L"
    out.add(GROUP, "pipeline-model-parallel-layout", "|".join(parts))


def _spread(layers: int, pipeline: int) -> tuple[int, ...]:
    """An even split with the remainder on middle stages, away from embedding and head."""
    base, rest = divmod(layers, pipeline)
    sizes = [base] * pipeline
    order = [*range(1, pipeline - 1), pipeline - 1, 0] if pipeline > 1 else [0]
    for index in order[:rest]:
        sizes[index] += 1
    return tuple(sizes)


def _chunks(stages: tuple[int, ...], virtual: int) -> list[int]:
    return [count // virtual + (chunk < count % virtual) for chunk in range(virtual) for count in stages]


def _sharding(parallel: ParallelSpec, context: int, out: LaunchArguments) -> None:
    stage = parallel.zero_stage or 0
    replicas = (parallel.data or 1) * context
    if stage >= 2 and out.ascend:
        if stage == 3:
            out.add(GROUP, "use-torch-fsdp2")
        else:
            out.warn("ZeRO 2 has no argument in MindSpeed-LLM: the distributed optimizer (ZeRO 1) is given")
            out.add(GROUP, "use-distributed-optimizer")
        return
    if stage:
        out.add(GROUP, "use-distributed-optimizer")
    if stage >= 2:
        out.add(GROUP, "use-megatron-fsdp")
        out.add(GROUP, "data-parallel-sharding-strategy", _STRATEGIES[stage])
    group = parallel.shard_group
    if stage and group and group < replicas and not out.ascend:
        out.add(GROUP, "num-distributed-optimizer-instances", replicas // group)
    elif stage and group and group < replicas:
        out.warn("sharding inside a part of the replicas has no argument in MindSpeed-LLM")


def _recompute(parallel: ParallelSpec, out: LaunchArguments) -> None:
    spec, virtual = parallel.recompute, parallel.virtual_pipeline or 1
    if spec.per_stage is not None:
        out.warn("recomputation by stage has no argument in this stack: the largest number of layers is given")
    if spec.policy == "full":
        layers = max(spec.per_stage) if spec.per_stage else spec.layers
        out.add(GROUP, "recompute-granularity", "full")
        block = layers is not None and spec.method != "uniform"
        out.add(GROUP, "recompute-method", "block" if block else "uniform")
        count = layers if layers is not None else 1
        if block and spec.scope == "stage" and virtual > 1:
            if out.ascend:
                out.add(GROUP, "enable-recompute-layers-per-pp-rank")
            else:
                count = -(-count // virtual)
                out.warn("Megatron-LM counts recomputed layers by chunk: the number is rounded up to whole chunks")
        out.add(GROUP, "recompute-num-layers", count)
    elif spec.policy == "selective":
        _selective(spec.modules or ("core_attention",), out)


def _selective(modules: tuple[str, ...], out: LaunchArguments) -> None:
    if not out.ascend:
        named = [_MODULES[name] for name in modules if name in _MODULES]
        for name in modules:
            if name not in _MODULES:
                out.warn(f"recomputation of {name} has no argument in Megatron-LM")
        if named:
            out.add(GROUP, "recompute-granularity", "selective")
            out.add(GROUP, "recompute-modules", *named)
        return
    for name in modules:
        if name == "core_attention":
            out.add(GROUP, "recompute-granularity", "selective")
        elif name in _ASCEND_MODULES:
            out.add(GROUP, _ASCEND_MODULES[name])
        else:
            out.warn(f"recomputation of {name} has no argument in MindSpeed")


def _offload(parallel: ParallelSpec, out: LaunchArguments) -> None:
    offload = parallel.offload
    if offload.optimizer:
        if out.ascend and offload.optimizer_step != "host":
            out.add(GROUP, "swap-optimizer")
        else:
            out.add(GROUP, "optimizer-cpu-offload")
            out.add(GROUP, "optimizer-offload-fraction", offload.optimizer)
    if offload.activations:
        if out.ascend:
            out.add(GROUP, "swap-attention")
        else:
            out.warn("offload of activations is not given")

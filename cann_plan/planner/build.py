"""Plan, model and cluster documents to a `Job`."""

from __future__ import annotations

import numpy as np

from cann_plan.cost.layer_time import Compute
from cann_plan.cost.problem import OverlapOptions, Problem
from cann_plan.hardware.device import Device
from cann_plan.hardware.operator_presets import load_operator_model
from cann_plan.planner.assumptions import Assumptions, PlanError, Warnings
from cann_plan.planner.communication import collective_library, communication_table, gradient_compression
from cann_plan.planner.job import Job
from cann_plan.planner.layout import stated_layout
from cann_plan.planner.memory_options import memory_options, probabilities_in_activation, retention
from cann_plan.planner.offload import offload_options
from cann_plan.planner.stack import attention_kernel, fused_operators, say_outside_range, stack_parameters
from cann_plan.planner.states import compute_dtype, linear_dtype, state_bytes
from cann_plan.planner.untimed import UNKNOWN_RATE, NoTraffic, untimed_device
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.device import UnknownFigureError, UnsupportedDataTypeError
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.parallel import ParallelSpec
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.profile import ProfileSpec
from cann_plan.workload.architecture import Architecture
from cann_plan.workload.build import build_architecture
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.operator import Gemm
from cann_plan.workload.operators.rows import LayerRows, LayerSettings
from cann_plan.workload.parameters import ParameterCounts, parameter_counts

DEFAULT_SEQUENCE = 4096
TOKENS_PER_STEP = 4.0 * 2.0**20  # a common pre-training batch of about 4 Mi tokens (Llama 2, GPT-3 order of magnitude)
TOKENS_PER_PARAMETER = 20.0  # compute-optimal training, Hoffmann et al. 2022 (arXiv 2203.15556)


def build_job(plan: PlanSpec, model: ModelSpec, cluster: Cluster, profile: ProfileSpec, *, timed: bool = True) -> Job:
    """Resolve every number a plan leaves open, recording each as an assumption.

    Not `timed`: rates of the device and its links are not needed and no time of the job means anything.

    Raises:
        PlanError: values that do not go together, or a figure of the device that nobody states.
    """
    assumptions, warnings = Assumptions(), Warnings()
    architecture = build_architecture(model)
    counts = parameter_counts(architecture)
    training = plan.training
    if plan.software.stack is None:
        assumptions.add("software.stack", profile.name, f"usual stack of a cluster with {cluster.library.upper()}")
    for item in cluster.assumptions:
        assumptions.add(item.path, item.value, item.source)
    precision = assumptions.take("training.precision", training.precision, _default_precision(cluster), "default")
    task = assumptions.take("training.task", training.task, "pretrain", "default")
    longest = architecture.position_table or DEFAULT_SEQUENCE
    sequence = assumptions.take("training.sequence_length", training.sequence_length, longest, "default")
    peak, peak_source = _peak(cluster, precision) if timed else (UNKNOWN_RATE, "not stated")
    device = _device(cluster) if timed else untimed_device(cluster)
    stack = stack_parameters(profile, plan.software, cluster, assumptions, warnings)
    say_outside_range(profile, cluster, sequence, architecture.hidden, warnings)
    kernel = attention_kernel(plan.software, profile, assumptions)
    states = state_bytes(training, precision, profile, assumptions)
    settings = _settings(plan, architecture, cluster, sequence, task, kernel, profile, assumptions)
    layout = stated_layout(plan.parallel, cluster, architecture, training.global_batch_size, assumptions)
    batch = training.global_batch_size or _default_batch(sequence, layout.unit, assumptions)
    library = collective_library(plan, cluster)
    compute = Compute(
        device, stack, compute_dtype(precision), linear_dtype(precision), kernel,
        states.gradient,
    )  # fmt: skip
    trainable = _trainable(settings, architecture, counts) if settings.lora_rank else 1.0
    problem = Problem(
        architecture=architecture,
        settings=settings,
        compute=compute,
        communication=communication_table(plan, cluster, library, assumptions, warnings) if timed else NoTraffic(),
        devices=cluster.devices,
        devices_per_node=cluster.devices_per_node,
        global_batch_size=batch,
        states=states,
        overlap=_overlap(plan.parallel, profile, assumptions),
        memory=memory_options(plan, cluster, library, profile, settings.fused, assumptions),
        policies=layout.policies,
        vector_parameters=_vector_parameters(architecture, settings, counts),
        splits=layout.splits,
        recompute_lists=layout.recompute_lists,
        recompute_scope=layout.recompute_scope,
        fused_loss=_fused_loss(plan, profile, assumptions),
        vocabulary_multiple=plan.software.vocabulary_multiple or profile.defaults.vocabulary_multiple,
        library=library,
        compression=gradient_compression(plan, states, warnings),
        nested_experts=(plan.parallel.group_generator or profile.defaults.group_generator) == "nested",
        gathers_per_layer=profile.defaults.gathers_per_layer,
        scatter_gather=profile.defaults.scatter_gather,
        scatter_each_micro_batch=profile.defaults.states != "mindspore",
        frozen_states=_frozen_bytes(task, states.live) if trainable < 1.0 else 0.0,
        trainable_fraction=trainable,
        offload=offload_options(plan, cluster, profile, states, settings, architecture, counts, assumptions),
        reference_copies=1.0 if task == "dpo" else 0.0,
    )
    tokens = _run_length(plan, sequence, batch, counts, assumptions)
    return Job(
        plan, model, architecture, counts, cluster, profile, problem, layout.strategies, precision, sequence, batch,
        tokens, peak, peak_source, assumptions, warnings,
    )  # fmt: skip


QLORA_BYTES = 0.5 + 0.127 / 8.0
"""Bytes per frozen parameter of QLoRA: 4-bit values and 0.127 bits of double-quantised scales (arXiv 2305.14314)."""


def _frozen_bytes(task: str, live: float) -> float:
    return QLORA_BYTES if task == "qlora" else live


def _default_precision(cluster: Cluster) -> str:
    known = cluster.device.known_peaks
    return "bf16" if "bf16" in known or not known else "fp16"


def _peak(cluster: Cluster, precision: str) -> tuple[float, str]:
    """Dense peak of the precision linear layers run in, and its source."""
    try:
        figure = cluster.device.peak_figure(precision if precision != "fp8_blockwise" else "fp8")
    except UnsupportedDataTypeError as error:
        allowed = ", ".join(error.allowed) or "none"
        raise PlanError("training.precision", str(error), allowed) from error
    if figure.value is None:
        raise PlanError("training.precision", f"{cluster.device.name}: no source states the {precision} rate")
    return figure.value, figure.source or "device preset"


def _device(cluster: Cluster) -> Device:
    spec = cluster.device
    try:
        bandwidth = spec.memory_bandwidth()
    except UnknownFigureError as error:
        raise PlanError("cluster", str(error)) from error
    peaks = dict(spec.known_peaks)
    if spec.kind == "npu" and "fp16" in peaks and "bf16" in peaks:
        # The cube unit does 8192 FLOP per cycle and core in either format; no measured fp16 kernel uses the 6% that
        # profiles list above bf16 (301 to 318 TFLOP/s on 24 cores at 1.85 GHz, MindStudio profiler records).
        peaks["fp16"] = min(peaks["fp16"], peaks["bf16"])
    return Device(spec.name, peaks, bandwidth, load_operator_model(spec.operators.family), spec.known_vector_peaks)


def _settings(
    plan: PlanSpec, architecture: Architecture, cluster: Cluster, sequence: int, task: str, kernel: str,
    profile: ProfileSpec, assumptions: Assumptions,
) -> LayerSettings:  # fmt: skip
    training, moe = plan.training, plan.software.moe
    fused = fused_operators(plan.software, profile, assumptions)
    rank, targets = 0, frozenset[str]()
    if task in ("lora", "qlora"):
        lora = training.lora
        rank = assumptions.take("training.lora.rank", lora.rank if lora else None, 8, "default of peft")
        named = lora.target_modules if lora and lora.target_modules else ("attention",)
        targets = _lora_targets(named)
    mask = training.attention_mask or ("full" if architecture.encoder else "causal")
    precision = compute_dtype(training.precision or "bf16")
    imbalance = 1.0
    if any(hasattr(kind.ffn, "experts") for kind in architecture.kinds):
        imbalance = assumptions.take("software.moe.imbalance", moe.imbalance, 1.0, "balanced routing")
    return LayerSettings(
        sequence_length=sequence,
        hidden=architecture.hidden,
        element_bytes=4.0 if precision in ("fp32", "tf32") else 2.0,
        flash=kernel != "unfused",
        causal=mask != "full",
        document_length=training.mean_document_length,
        fused=fused,
        dropout=architecture.dropout,
        imbalance=imbalance,
        capacity_factor=moe.capacity_factor,
        loss_chunk=plan.software.loss.chunk,
        probs_in_activation=probabilities_in_activation(profile),
        gather_dispatch=moe.dispatcher == "allgather",
        fp8=linear_dtype(training.precision or "bf16") == "fp8",
        lora_rank=rank,
        lora_targets=targets,
        norm=architecture.norm,
        position=architecture.position,
        retention=retention(plan, cluster, profile, architecture, kernel),
    )


def _lora_targets(named: tuple[str, ...]) -> frozenset[str]:
    groups = {
        "all_linear": {"qkv", "projection", "mlp"}, "attention": {"qkv", "projection"}, "mlp": {"mlp"},
        "q_proj": {"qkv"}, "k_proj": {"qkv"}, "v_proj": {"qkv"}, "o_proj": {"projection"},
        "gate_proj": {"mlp"}, "up_proj": {"mlp"}, "down_proj": {"mlp"},
    }  # fmt: skip
    unknown = [name for name in named if name not in groups]
    if unknown:
        raise PlanError(
            "training.lora.target_modules", f"not supported yet: adapters on {unknown[0]}", ", ".join(groups)
        )
    return frozenset().union(*(groups[name] for name in named))


def _one_row() -> LayerRows:
    one = np.ones(1)
    return LayerRows(one, one, np.zeros(1, np.int64), one, one, one, one, np.zeros(1))


def _vector_parameters(
    architecture: Architecture, settings: LayerSettings, counts: ParameterCounts
) -> tuple[float, ...]:
    """Parameters of each kind that no matrix product of the walk holds (norms, biases, convolutions)."""
    result = []
    for kind, layer in zip(architecture.kinds, counts.layers, strict=True):
        held = 0.0
        for operator in layer_operators(kind, _one_row(), settings):
            if isinstance(operator.work, Gemm) and operator.work.weight and "_lora_" not in operator.name:
                held += float((operator.work.n * operator.work.k).item())
        result.append(max(layer.dense - held, 0.0))
    return tuple(result)


def _trainable(settings: LayerSettings, architecture: Architecture, counts: ParameterCounts) -> float:
    """Share of parameters LoRA trains."""
    trained = 0.0
    for index, kind in enumerate(architecture.kinds):
        layers = architecture.sequence.count(index)
        for operator in layer_operators(kind, _one_row(), settings):
            if isinstance(operator.work, Gemm) and "_lora_" in operator.name:
                trained += layers * float((operator.work.n * operator.work.k).item())
    return min(trained / counts.total, 1.0)


def _default_batch(sequence: int, unit: int, assumptions: Assumptions) -> int:
    """About four million tokens, in whole multiples of what the layout needs."""
    batch = max(1, round(TOKENS_PER_STEP / sequence / unit)) * unit
    assumptions.add("training.global_batch_size", batch, "about 4 Mi tokens per step")
    return batch


def _overlap(parallel: ParallelSpec, profile: ProfileSpec, assumptions: Assumptions) -> OverlapOptions:
    stated, defaults = parallel.overlap, profile.defaults
    source = f"profile {profile.name}"
    return OverlapOptions(
        tensor=assumptions.take("parallel.overlap.tensor", stated.tensor, defaults.tensor_overlap, source),
        grad_reduce=assumptions.take("parallel.overlap.grad_reduce", stated.grad_reduce, defaults.grad_reduce, source),
        param_gather=assumptions.take(
            "parallel.overlap.param_gather", stated.param_gather, defaults.param_gather, source
        ),
        p2p=assumptions.take("parallel.overlap.p2p", stated.p2p, defaults.p2p, source),
        expert=bool(stated.expert),
    )


def _fused_loss(plan: PlanSpec, profile: ProfileSpec, assumptions: Assumptions) -> bool:
    stated = plan.software.loss.fused
    if stated is None and plan.software.fused is not None:
        return "cross_entropy" in plan.software.fused
    return assumptions.take(
        "software.loss.fused", stated, profile.defaults.fused_loss, f"profile {profile.name}"
    )  # fmt: skip


def _run_length(plan: PlanSpec, sequence: int, batch: int, counts: ParameterCounts, assumptions: Assumptions) -> float:
    """Tokens of the whole run."""
    training = plan.training
    if training.tokens is not None:
        return float(training.tokens)
    if training.samples is not None:
        return float(training.samples) * sequence
    if training.steps is not None:
        return float(training.steps) * batch * sequence
    if training.epochs is not None:
        data = training.dataset_tokens or (training.dataset_samples or 0) * sequence
        return float(training.epochs) * float(data)
    tokens = TOKENS_PER_PARAMETER * counts.total
    assumptions.add("training.tokens", tokens, "20 tokens per parameter (Hoffmann et al. 2022)")
    return tokens

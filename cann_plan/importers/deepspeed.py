"""DeepSpeed configurations (JSON) to a plan; the model comes from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cann_plan.importers.imported import CLUSTERS, Imported, Notes
from cann_plan.importers.mindformers_settings import Settings
from cann_plan.spec.document import parse_text, read
from cann_plan.spec.node import Source

OPTIMIZERS: Final = {
    "adam": "adamw", "adamw": "adamw", "onebitadam": "adamw", "cpuadam": "adamw", "lamb": "lamb", "onebitlamb": "lamb",
    "fusedadam": "adamw", "lion": "lion", "sgd": "sgd", "muon": "muon", "": None,
}  # fmt: skip
TARGETS: Final = {"cpu": "host", "nvme": "nvme"}
_IGNORED: Final = re.compile(
    r"steps_per_print|wall_clock_breakdown|dump_state|gradient_clipping|prescale_gradients|gradient_predivide_factor"
    r"|tensorboard|wandb|csv_monitor|comms_logger|flops_profiler|scheduler|checkpoint|data_efficiency|zero_allow_.*"
    r"|load_.*|memory_breakdown|autotuning|elasticity|curriculum_learning|amp|seed|dataloader_.*|loss_scale.*"
    r"|communication_data_type|sparse_gradients|fp32_allreduce|disable_allgather|zero_force_.*|compression_training"
    r"|round_robin_gradients|ignore_unused_parameters|legacy_stage1|elastic_checkpoint|stage3_gather_16bit_.*"
    r"|stage3_max_reuse_distance|stage3_use_all_.*|memory_efficient_linear|log_trace_.*|param_persistence_threshold"
)
_UNMODELLED: Final = {
    "reduce_bucket_size": "size of gradient buckets", "allgather_bucket_size": "size of parameter buckets",
    "contiguous_gradients": "gradients copied into one buffer", "reduce_scatter": "reduce-scatter in place of reduce",
    "sub_group_size": "size of optimizer sub-groups", "stage3_prefetch_bucket_size": "prefetch of parameters",
    "stage3_max_live_parameters": "parameters kept gathered", "stage3_param_persistence_threshold": "small parameters",
    "zero_quantized_weights": "quantised parameter gather", "zero_quantized_gradients": "quantised gradient exchange",
    "sparse_attention": "sparse attention kernels", "pipeline": "pipeline engine",
    "tensor_parallel": "tensor parallelism of inference or AutoTP", "zenflow": "asynchronous optimizer on the host",
    "overlap_reduce_scatter": "overlap of reduce-scatter",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What the configuration does not say; `model`: preset, path or description."""

    model: str | Mapping[str, Any] | None = None
    cluster: str | None = None
    devices: int | None = None
    sequence_length: int | None = None
    name: str | None = None


def import_deepspeed(source: Mapping[str, Any] | str | Path, options: Options | None = None) -> Imported:
    """The plan of a DeepSpeed configuration: its content, its text, or its path.

    Values `auto` count as not stated. Raises SpecError for a document that cannot be read.
    """
    chosen = options or Options()
    data, stem = _document(source)
    notes = Notes()
    top = Settings(data, "", notes)
    if chosen.model is None:
        notes.refuse("a DeepSpeed configuration does not describe the model: give --model")
    devices, micro, batch = _batch(top, chosen, notes)
    zero = top.inner("zero_optimization")
    parallel: dict[str, Any] = {
        "tensor": 1, "pipeline": 1, "data": devices, "micro_batch_size": micro,
        **_sharding(zero, devices or 1, notes), "recompute": _recompute(top, notes),
    }  # fmt: skip
    sequence_ranks = top.whole("sequence_parallel_size") or 1
    if sequence_ranks > 1 and devices is not None and devices % sequence_ranks == 0:
        parallel |= {"context": sequence_ranks, "context_kind": "ulysses", "data": devices // sequence_ranks}
    cluster = chosen.cluster or notes.assume("cluster", CLUSTERS["nvidia"], "the document does not name the devices")
    training = {
        "steps": notes.assume("training.steps", 1, "the configuration does not state the length of the run"),
        "sequence_length": chosen.sequence_length, "global_batch_size": batch, "precision": _precision(top),
        "gradient_dtype": _gradients(top), "optimizer": {"name": _optimizer(top, notes)},
    }  # fmt: skip
    for section in (top, zero):
        section.report_left(_IGNORED, _UNMODELLED)
    model = chosen.model if chosen.model is None or isinstance(chosen.model, str) else dict(chosen.model)
    return notes.imported({
        "name": chosen.name or stem, "model": model, "cluster": {"extends": cluster, "devices": devices},
        "training": training, "parallel": parallel, "software": {"stack": "deepspeed"},
    })  # fmt: skip


def _document(source: Mapping[str, Any] | str | Path) -> tuple[Mapping[str, Any], str | None]:
    if isinstance(source, Mapping):
        return source, None
    if isinstance(source, str) and source.lstrip().startswith("{"):
        plain = parse_text(source, Source("<text>", Path.cwd()), json=True).plain()
        return (plain if isinstance(plain, Mapping) else {}), None
    plain = read(source).plain()
    return (plain if isinstance(plain, Mapping) else {}), Path(source).stem


def _batch(top: Settings, chosen: Options, notes: Notes) -> tuple[int | None, int, int | None]:
    """(devices, micro-batch, global batch): train batch = micro-batch x accumulation x devices (DeepSpeed)."""
    batch = top.whole("train_batch_size")
    micro = top.whole("train_micro_batch_size_per_gpu")
    slots = top.whole("gradient_accumulation_steps")
    devices = chosen.devices
    if devices is None and batch and micro and slots and batch % (micro * slots) == 0:
        devices = batch // (micro * slots)
        notes.assume("cluster.devices", devices, "train_batch_size / (micro-batch x accumulation steps)")
    if micro is None and batch and devices and batch % (devices * (slots or 1)) == 0:
        micro = batch // (devices * (slots or 1))
    if micro is None:
        micro = notes.assume("parallel.micro_batch_size", 1, "not stated")
    if batch is None and devices is not None:
        if slots is None:
            slots = notes.assume("gradient_accumulation_steps", 1, "DeepSpeed default")
        batch = micro * slots * devices
    if batch is not None and devices is not None and batch % (micro * devices):
        notes.refuse(f"train_batch_size {batch} does not divide into micro-batch {micro} x {devices} devices")
    return devices, micro, batch


def _sharding(zero: Settings, devices: int, notes: Notes) -> dict[str, Any]:
    stage = zero.whole("stage", minimum=0) or 0
    if stage > 3:
        notes.refuse(f"zero_optimization.stage {stage}: at most 3")
        stage = 3
    section: dict[str, Any] = {"zero_stage": stage}
    group = zero.whole("mics_shard_size", minimum=-1) or -1
    if group > 0 and devices % group == 0:
        section["shard_group"] = group
    elif (zero.whole("zero_hpz_partition_size") or 1) > 1:
        notes.unmodelled("zero_optimization.zero_hpz_partition_size", zero.raw("zero_hpz_partition_size"),
                         "second copy of the weights inside a node")  # fmt: skip
    overlap = zero.raw("overlap_comm")
    if isinstance(overlap, bool):
        section["overlap"] = {"grad_reduce": overlap, "param_gather": overlap if stage == 3 else None}
    offload: dict[str, Any] = {}
    for key, target in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
        place = zero.inner(key)
        device = place.text("device")
        if device in TARGETS:
            ratio = place.number("ratio")
            offload |= {target: 1.0 if ratio is None else ratio, "target": TARGETS[device]}
            if target == "optimizer":
                offload["optimizer_step"] = "host"
        elif device not in ("", "none"):
            notes.unmodelled(f"zero_optimization.{key}.device", device, "device nobody here knows")
    if zero.flag("cpu_offload"):
        offload |= {"optimizer": 1.0, "target": "host", "optimizer_step": "host"}
    section["offload"] = offload
    return section


def _recompute(top: Settings, notes: Notes) -> dict[str, Any]:
    """The section only tunes checkpointing that the model's code switches on; its presence is taken for that."""
    section = top.inner("activation_checkpointing")
    if not section.data:
        return {"policy": notes.assume("parallel.recompute.policy", "none", "no activation_checkpointing section")}
    for key in ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization"):
        if section.flag(key):
            notes.unmodelled(f"activation_checkpointing.{key}", True, "how checkpoints are kept")
    policy = notes.assume("parallel.recompute.policy", "full", "activation_checkpointing section; the model decides")
    return {"policy": policy}


def _precision(top: Settings) -> str:
    half, brain = top.inner("fp16"), top.inner("bf16") if "bf16" in top.data else top.inner("bfloat16")
    top.asked.update(("bf16", "bfloat16", "fp16"))
    if brain.flag("enabled") or brain.text("enabled") == "auto":
        return "bf16"
    return "fp16" if half.flag("enabled") else "fp32"


def _gradients(top: Settings) -> str | None:
    stated = top.inner("data_types").text("grad_accum_dtype")
    return stated if stated in ("fp32", "bf16", "fp16") else None


def _optimizer(top: Settings, notes: Notes) -> str | None:
    word = top.inner("optimizer").text("type")
    if word not in OPTIMIZERS:
        notes.unmodelled("optimizer.type", word, "optimizer nobody here knows: adamw taken")
    return OPTIMIZERS.get(word, "adamw")

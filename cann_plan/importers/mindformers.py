"""MindFormers training configurations (YAML) to a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cann_plan.importers.imported import CLUSTERS, Imported, Notes
from cann_plan.importers.mindformers_model import model_section
from cann_plan.importers.mindformers_recompute import recompute_section, stage_layers
from cann_plan.importers.mindformers_settings import Settings
from cann_plan.spec.document import parse_text, read
from cann_plan.spec.node import Source

SCHEDULERS: Final = {"1f1b": None, "gpipe": "gpipe", "zero_bubble_v": "zb-v", "": None}
PRECISIONS: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
OPTIMIZERS: Final = {
    "came": "adafactor", "adamw": "adamw", "fp32stateadamweightdecay": "adamw", "fusedadamweightdecay": "adamw",
    "adamweightdecay": "adamw", "pmaadamw": "adamw", "lamb": "lamb", "adafactor": "adafactor", "momentum": "momentum",
    "muon": "muon", "sgd": "sgd", "": "adamw",
}  # fmt: skip
_IGNORED: Final = re.compile(
    r"batch_size|.*_token_id|ignore_.*|checkpoint_.*|repetition_penalty|max_decode_length|top_[kp]|do_sample|use_past"
    r"|scaling_factor|extend_method|theta|.*_eps|eps|.*_dtype|.*_type|rotary_.*|auto_register|auto_map|max_position_.*"
    r"|epochs|sink_.*|.*_interval|mode|device_.*|save_.*|max_call_depth|enable_graph_kernel|gradients_mean|search_mode"
    r"|full_batch|dataset_strategy|strategy_ckpt_.*|enable_alltoall|parallel_mode|loss_.*|beta.*|weight_decay|learning_.*"
    r"|qkv_concat|is_dynamic|offset|routing_policy|aux_loss_.*|routed_scaling_factor|norm_topk_prob|use_gating_sigmoid"
    r"|topk_bias_.*|callback_.*|.*_factor|.*_loss_.*|return_extra_loss|expert_group_size|topk_.*|n_group|memory_.*"
    r"|enable_gmm_safe_tokens|group_.*|z_loss_.*|.*droprate.*|ascend_config|affinity_.*|swap_.*_path|mempool_block_size"
    r"|parallel_optimizer_threshold|gradient_aggregation_group|vocab_emb_dp|num_parallel_workers|multiple_of|hidden_act"
    r"|init_.*|initializer_range|layernorm_.*|embedding_init_.*|softmax_.*|no_.*decay.*|.*dropout.*|max_length|model_name"
    r"|input_sliced_sig|untrained_.*|enable_shuffle.*|comm_fusion|pet_.*|dataset_.*|pad_.*|.*_ckpt.*|optimizer_shard"
)
_UNMODELLED: Final = {
    "comp_comm_parallel_degree": "expert communication behind computation",
    "enable_deredundency": "expert tokens sent once per node",
    "npu_nums_per_device": "expert tokens sent once per node",
    "group_wise_a2a": "all-to-all by groups", "jit_config": "graph compilation level",
    "memory_optimize_level": "memory planning level",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """What the document does not say: the cluster preset, the number of devices, the plan's name."""

    cluster: str | None = None
    devices: int | None = None
    name: str | None = None


def import_mindformers(source: Mapping[str, Any] | str | Path, options: Options | None = None) -> Imported:
    """The plan of a MindFormers configuration: its content, its text, or its path.

    Raises SpecError for a document that cannot be read.
    """
    chosen = options or Options()
    data, stem = _document(source)
    notes = Notes()
    top = Settings(data, "", notes)
    model, parallel, moe = top.inner("model"), top.inner("parallel_config"), top.inner("moe_config")
    config = model.inner("model_config")
    trainer = top.inner("trainer")
    name = chosen.name or (str(trainer.raw("model_name")) if trainer.raw("model_name") else stem)
    spec = model_section(config, moe, name, notes)
    degrees = {key: parallel.whole(word) or 1 for key, word in (
        ("data", "data_parallel"), ("tensor", "model_parallel"), ("pipeline", "pipeline_stage"),
        ("context", "context_parallel"), ("expert", "expert_parallel"))}  # fmt: skip
    if top.raw("use_parallel") is False:
        degrees = dict.fromkeys(degrees, 1)
    devices = degrees["data"] * degrees["tensor"] * degrees["pipeline"] * degrees["context"]
    if chosen.devices is not None and chosen.devices != devices:
        notes.warn(f"data x model x pipeline x context = {devices}, not {chosen.devices}: data parallelism is adapted")
        rest = devices // degrees["data"]
        if chosen.devices % rest:
            notes.refuse(f"{chosen.devices} devices are not a multiple of {rest}, which the layout needs")
        degrees["data"], devices = max(1, chosen.devices // rest), chosen.devices
    section, slots, micro = _layout(top, parallel, config, degrees, notes)
    layers = int(spec["layers"]) if spec is not None else 1
    parts = degrees["pipeline"] * int(section.get("virtual_pipeline", 1))
    extra = int(spec.get("mtp_layers", 0)) if spec is not None else 0
    section["layer_split"] = stage_layers(config.raw("offset"), layers, extra, parts, notes) if parts > 1 else None
    section["recompute"] = recompute_section(top.inner("recompute_config"), layers, parts, notes)
    training = {
        **_training(top, config, notes), "global_batch_size": degrees["data"] * micro * slots,
        "sequence_length": config.whole("seq_length"),
    }  # fmt: skip
    software, memory = _software(top, config, moe, spec, notes)
    copies = max(top.whole("micro_batch_interleave_num") or 1, config.whole("fine_grain_interleave") or 1)
    section["overlap"] = {
        "tensor": "bulk" if degrees["tensor"] > 1 and copies > 1 else None,  # one copy computes while one communicates
        "expert": True if moe.flag("comp_comm_parallel") and degrees["expert"] > 1 else None,
    }
    if moe.flag("ep_extend_tp"):
        section |= {"expert": degrees["expert"] * degrees["tensor"], "expert_tensor": 1}
    cluster = chosen.cluster or notes.assume("cluster", CLUSTERS["ascend"], "the document does not name the devices")
    _report(config, moe, parallel, top, notes)
    return notes.imported({
        "name": name, "model": spec, "cluster": {"extends": cluster, "devices": devices}, "training": training,
        "parallel": section, "software": software, "memory": memory,
    })  # fmt: skip


def _document(source: Mapping[str, Any] | str | Path) -> tuple[Mapping[str, Any], str | None]:
    if isinstance(source, Mapping):
        return source, None
    if isinstance(source, str) and "\n" in source:
        plain = parse_text(source, Source("<text>", Path.cwd())).plain()
        return (plain if isinstance(plain, Mapping) else {}), None
    plain = read(source).plain()
    return (plain if isinstance(plain, Mapping) else {}), Path(source).stem


def _layout(
    top: Settings, parallel: Settings, config: Settings, degrees: dict[str, int], notes: Notes
) -> tuple[dict[str, Any], int, int]:
    """(`parallel:` section, micro-batches of a step, sequences of a micro-batch).

    Global batch (base_trainer.py, r1.3.0): batch_size x data x micro_batch_num x interleave with a pipeline, batch_size
    x data x interleave x gradient accumulation without.
    """
    runner = top.inner("runner_config")
    batch = runner.whole("batch_size") or 1
    interleave = top.whole("micro_batch_interleave_num") or 1
    accumulation = runner.whole("gradient_accumulation_steps") or 1
    stated = parallel.whole("micro_batch_num") or 1
    slots = stated if degrees["pipeline"] > 1 else accumulation
    micro = batch * interleave
    section: dict[str, Any] = {
        "tensor": degrees["tensor"], "pipeline": degrees["pipeline"], "data": degrees["data"],
        "context": degrees["context"] if degrees["context"] > 1 else None, "micro_batch_size": micro,
        "sequence_parallel": parallel.flag("use_seq_parallel") if degrees["tensor"] > 1 else None,
    }  # fmt: skip
    parallel.asked.add("use_seq_parallel")
    if degrees["context"] > 1:
        algorithm = parallel.text("context_parallel_algo")
        degree = parallel.whole("ulysses_degree_in_cp") or 1
        kinds = {"colossalai_cp": "ring", "ulysses_cp": "ulysses", "hybrid_cp": "hybrid", "": "ring"}
        section["context_kind"] = kinds.get(algorithm, "ring")
        if section["context_kind"] == "hybrid":
            section["ulysses_degree"] = degree
    if degrees["expert"] > 1:
        section["expert"] = degrees["expert"]
    chunks = config.whole("pp_interleave_num") or parallel.whole("pp_interleave_num") or 1
    pipeline = top.inner("parallel").inner("pipeline_config")
    if degrees["pipeline"] > 1 and chunks > 1:
        section |= {"virtual_pipeline": chunks, "schedule": "interleaved"}
    scheduler = pipeline.text("pipeline_scheduler")
    if SCHEDULERS.get(scheduler, "?") not in (None, "?") and degrees["pipeline"] > 1:
        section["schedule"] = SCHEDULERS[scheduler]
    elif scheduler not in SCHEDULERS:
        notes.unmodelled("parallel.pipeline_config.pipeline_scheduler", scheduler, "schedule nobody here knows: 1f1b")
    section |= _sharding(top.inner("parallel"), degrees, slots)
    return section, slots, micro


def _sharding(context: Settings, degrees: dict[str, int], slots: int) -> dict[str, Any]:
    """The parallel optimizer shards states over data parallelism; gradients too where none are accumulated whole."""
    if not context.flag("enable_parallel_optimizer"):
        return {"zero_stage": 0}
    config = context.inner("parallel_optimizer_config")
    sharded = config.flag("gradient_accumulation_shard") or (degrees["pipeline"] == 1 and slots == 1)
    group = config.whole("optimizer_weight_shard_size", minimum=-1) or -1
    replicas = degrees["data"] * degrees["context"]
    return {
        "zero_stage": 2 if sharded else 1,
        "shard_group": group if 0 < group < replicas and replicas % group == 0 else None,
    }


def _training(top: Settings, config: Settings, notes: Notes) -> dict[str, Any]:
    adapter = config.inner("pet_config")
    rank = adapter.whole("lora_rank")
    lora: dict[str, Any] | None = None
    if adapter.text("pet_type") == "lora" or rank is not None:
        pattern = adapter.text("target_modules")
        words = (("wq", "q_proj"), ("wk", "k_proj"), ("wv", "v_proj"), ("wo", "o_proj"), ("w1", "gate_proj"),
                 ("w2", "down_proj"), ("w3", "up_proj"))  # fmt: skip
        lora = {"rank": rank or 8, "alpha": adapter.number("lora_alpha"),
                "target_modules": [target for word, target in words if word in pattern] or None}  # fmt: skip
    optimizer = top.inner("optimizer").text("type")
    if optimizer not in OPTIMIZERS:
        notes.unmodelled("optimizer.type", optimizer, "optimizer nobody here knows: adamw taken")
    stored = config.text("param_init_type")
    mode = top.text("run_mode")
    return {
        "task": "lora" if lora else "sft" if mode == "finetune" else "pretrain",
        "steps": notes.assume("training.steps", 1, "epochs and the data set decide the length of the run"),
        "precision": PRECISIONS.get(config.text("compute_dtype"), "fp16"),
        "optimizer": {
            "name": OPTIMIZERS.get(optimizer, "adamw"),
            "master_weights": False if stored in ("float16", "bfloat16") else None,
        },
        "lora": lora,
    }  # fmt: skip


def _software(
    top: Settings, config: Settings, moe: Settings, spec: dict[str, Any] | None, notes: Notes
) -> tuple[dict[str, Any], dict[str, Any]]:
    context = top.inner("context")
    flash = config.flag("use_flash_attention")
    software: dict[str, Any] = {
        "stack": "mindformers", "attention": "ascend-fusion" if flash else "unfused",
        "graph_mode": "eager" if context.whole("mode", minimum=0) == 1 else "graph",
        "deterministic": True if context.flag("deterministic") else None,
    }  # fmt: skip
    if spec is not None and "moe" in spec:
        software["moe"] = {"capacity_factor": None if moe.flag("use_gmm") else moe.number("capacity_factor")}
    limit = re.fullmatch(r"([\d.]+)\s*gb", context.text("max_device_memory"))
    memory = {"pool_gib": float(limit[1])} if limit else {}
    context.report_left(_IGNORED, _UNMODELLED)
    return software, memory


def _report(config: Settings, moe: Settings, parallel: Settings, top: Settings, notes: Notes) -> None:
    config.asked.update(("type", "pet_config"))
    moe.asked.update(("capacity_factor", "use_gmm", "expert_num"))
    for section in (config, moe, parallel):
        section.report_left(_IGNORED, _UNMODELLED)
    if top.raw("swap_config") is not None:
        notes.unmodelled("swap_config", "...", "activations swapped to host memory")

"""A plan with a resolved layout to a training configuration of MindFormers."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.exporters.launch_arguments import Exported, ExportError
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.model import ModelSpec
from cann_plan.spec.parallel import ParallelSpec
from cann_plan.spec.plan import PlanSpec

PRECISIONS: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
OPERATORS: Final = {
    "activation": [r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"], "norm": [r"norm"],
    "core_attention": [r"attention\.flash_attention"],
}  # fmt: skip


def export_mindformers(plan: PlanSpec, cluster: Cluster) -> Exported:
    """The YAML; data set, checkpoint and schedule are left to fill in.

    `plan` states every degree of its layout, the sequence length and the global batch. Raises ExportError for a plan
    that MindFormers cannot describe.
    """
    import yaml

    model, parallel = plan.model, plan.parallel
    if model is None or parallel.tensor is None:
        raise ExportError("the plan has no model or no resolved layout")
    if model.linear_attention is not None or model.state_space is not None or not model.gated or model.encoder:
        raise ExportError(f"LLaMA-like models are exported; {model.name} is not one")
    warnings: list[str] = []
    batch, sequence = plan.training.global_batch_size, plan.training.sequence_length
    if batch is None or sequence is None:
        raise ExportError("the plan states no sequence length or no global batch")
    data, pipeline = parallel.data or 1, parallel.pipeline or 1
    micro = parallel.micro_batch_size or 1
    slots, rest = divmod(batch, data * micro)
    if rest:
        raise ExportError(f"the global batch {batch} does not divide into data {data} x micro-batch {micro}")
    document: dict[str, Any] = {
        "run_mode": "train",
        "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": model.name},
        "runner_config": {
            "epochs": 1, "batch_size": micro, "sink_mode": True, "sink_size": 1,
            "gradient_accumulation_steps": slots if pipeline == 1 else 1,
        },
        "optimizer": {"type": "AdamW"},
        "use_parallel": cluster.devices > 1,
        "parallel": {
            "parallel_mode": 1, "full_batch": True, "enable_parallel_optimizer": bool(parallel.zero_stage),
            "parallel_optimizer_config": {"gradient_accumulation_shard": (parallel.zero_stage or 0) >= 2},
        },
        "parallel_config": {
            "data_parallel": data, "model_parallel": parallel.tensor, "pipeline_stage": pipeline,
            "context_parallel": parallel.context or 1, "expert_parallel": parallel.expert or 1,
            "use_seq_parallel": bool(parallel.sequence_parallel), "micro_batch_num": slots if pipeline > 1 else 1,
        },
        "micro_batch_interleave_num": 1,
        "recompute_config": _recompute(parallel, warnings),
        "context": {
            "mode": 1 if plan.software.graph_mode == "eager" else 0, "device_target": "Ascend",
            "max_device_memory": f"{plan.memory.pool_gib or 58:.0f}GB",
        },
        "model": {"model_config": _model(model, plan, sequence, warnings)},
    }  # fmt: skip
    moe = _experts(model, warnings)
    if moe:
        document["moe_config"] = moe
    for text, wrong in (
        ("ZeRO 3 has no counterpart: the parallel optimizer keeps gathered weights", parallel.zero_stage == 3),
        ("the schedule has no counterpart here", parallel.schedule not in (None, "1f1b", "interleaved")),
        ("offload is not given", any(getattr(parallel.offload, key) for key in ("optimizer", "activations"))),
    ):
        if wrong:
            warnings.append(text)
    head = "".join(f"# not expressed: {text}\n" for text in warnings)
    body = yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return Exported(f"{head}{body}", tuple(warnings))


def _model(model: ModelSpec, plan: PlanSpec, sequence: int, warnings: list[str]) -> dict[str, Any]:
    parallel = plan.parallel
    precision = PRECISIONS.get(plan.training.precision or "bf16")
    if precision is None:
        warnings.append(f"the number format {plan.training.precision} is given as bfloat16")
    single = {key: getattr(model, key) for key in ("heads", "kv_heads", "ffn_hidden_size")}
    if any(isinstance(value, tuple) for value in single.values()):
        raise ExportError(f"the layers of {model.name} differ in heads or width: MindFormers states one number")
    stored = "bfloat16" if plan.training.optimizer.master_weights is False else "float32"
    config: dict[str, Any] = {
        "type": "DeepseekV3Config" if model.mla is not None else "LlamaConfig", "seq_length": sequence,
        "hidden_size": model.hidden_size, "num_layers": model.layers, "num_heads": single["heads"],
        "n_kv_heads": single["kv_heads"] or single["heads"], "vocab_size": model.vocabulary_size,
        "intermediate_size": single["ffn_hidden_size"], "qkv_has_bias": bool(model.qkv_bias or model.bias),
        "tie_word_embeddings": model.tied_embeddings, "compute_dtype": precision or "bfloat16",
        "param_init_type": stored, "use_flash_attention": plan.software.attention != "unfused",
        "offset": _offset(parallel, model),
    }  # fmt: skip
    if (parallel.virtual_pipeline or 1) > 1:
        config["pp_interleave_num"] = parallel.virtual_pipeline
    if model.mla is not None:
        mla = model.mla
        config |= {
            "kv_lora_rank": mla.kv_lora_rank, "q_lora_rank": mla.q_lora_rank, "v_head_dim": mla.v_head_dim,
            "qk_rope_head_dim": mla.qk_rope_head_dim, "qk_nope_head_dim": mla.qk_nope_head_dim,
        }  # fmt: skip
    if model.mtp_layers:
        config["mtp_depth"] = model.mtp_layers
    return {key: value for key, value in config.items() if value is not None}


def _offset(parallel: ParallelSpec, model: ModelSpec) -> int | list[int] | list[list[int]]:
    """Differences to an even split; prediction layers sit on the last part."""
    split, stages = parallel.layer_split.layers, parallel.pipeline or 1
    if split is None:
        return 0
    counts = list(split)
    counts[-1] += model.mtp_layers
    base = sum(counts) // len(counts)
    flat = [count - base for count in counts]
    chunks = [flat[start : start + stages] for start in range(0, len(flat), stages)]
    return flat if len(chunks) == 1 else chunks


def _recompute(parallel: ParallelSpec, warnings: list[str]) -> dict[str, Any]:
    spec = parallel.recompute
    amount: Any = list(spec.per_stage) if spec.per_stage is not None else spec.layers
    if spec.policy == "full":
        return {"recompute": True if amount is None or spec.method == "uniform" else amount, "select_recompute": False}
    if spec.policy != "selective":
        return {"recompute": False, "select_recompute": False}
    operators = [pattern for name in spec.modules or () for pattern in OPERATORS.get(name, ())]
    warnings += [f"recomputation of {name} is not given" for name in spec.modules or () if name not in OPERATORS]
    if amount is not None:
        return {"recompute": False, "select_recompute": dict.fromkeys(operators, amount)}
    return {"recompute": False, "select_recompute": operators}


def _experts(model: ModelSpec, warnings: list[str]) -> dict[str, Any]:
    moe = model.moe
    if moe is None:
        return {}
    if any(isinstance(value, tuple) for value in (moe.experts, moe.top_k, moe.hidden_size, moe.shared_experts)):
        raise ExportError(f"the experts differ between the layers of {model.name}: MindFormers states one number")
    if moe.layer_frequency > 1 or model.feed_forwards is not None:
        warnings.append("dense layers between mixtures are not given")
    return {
        "expert_num": moe.experts, "num_experts_chosen": moe.top_k, "moe_intermediate_size": moe.hidden_size,
        "shared_expert_num": moe.shared_experts, "first_k_dense_replace": moe.leading_dense_layers, "use_gmm": True,
    }  # fmt: skip

"""Reported runs with their outcome (fits or out of memory) to plans; what a report leaves open is filled and listed."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cann_plan.importers.rows import RowSkippedError
from cann_plan.spec import presets
from cann_plan.spec.document import parse_text
from cann_plan.spec.node import Source

MICRO_BATCHES: Final = 2
"""Micro-batches of a step where a report does not say; memory hardly depends on them."""
SEQUENCE: Final = 2048  # cutoff_len of LLaMA-Factory, max_length of ms-swift's examples
TITAN_SEQUENCE: Final = 8192  # torchtitan's llama3 configurations
UPPER_BOUND: Final = 4
"""A sequence length given as an upper bound of short samples counts as a quarter of it."""

# Published configurations of models without a preset (config.json of each).
MODELS: Final[dict[str, dict[str, Any]]] = {
    "qwen-1.8b": {"layers": 24, "hidden_size": 2048, "heads": 16, "ffn_hidden_size": 5504, "vocabulary_size": 151936,
                  "qkv_bias": True},
    "qwen-7b": {"layers": 32, "hidden_size": 4096, "heads": 32, "ffn_hidden_size": 11008, "vocabulary_size": 151936,
                "qkv_bias": True},
    "qwen-14b": {"layers": 40, "hidden_size": 5120, "heads": 40, "ffn_hidden_size": 13696, "vocabulary_size": 152064,
                 "qkv_bias": True},
    "qwen1.5-72b": {"layers": 80, "hidden_size": 8192, "heads": 64, "ffn_hidden_size": 24576,
                    "vocabulary_size": 152064, "qkv_bias": True},
    "qwen1.5-moe-a2.7b": {"layers": 24, "hidden_size": 2048, "heads": 16, "vocabulary_size": 151936, "qkv_bias": True,
                          "moe": {"experts": 60, "top_k": 4, "hidden_size": 1408, "shared_experts": 1,
                                  "shared_hidden_size": 5632}},
    "internlm-20b": {"layers": 60, "hidden_size": 5120, "heads": 40, "ffn_hidden_size": 13824,
                     "vocabulary_size": 103168},
    # torchtitan/models/deepseek_v3, flavour 16B
    "deepseek-v3 16b config": {
        "layers": 27, "hidden_size": 2048, "heads": 16, "ffn_hidden_size": 10944, "vocabulary_size": 102400,
        "mla": {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
        "moe": {"experts": 64, "top_k": 6, "hidden_size": 1408, "shared_experts": 2, "leading_dense_layers": 1}},
}  # fmt: skip
ALIASES: Final = {
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b", "qwq-32b": "qwen2.5-32b",
    "qwen3-vl-30b-a3b": "qwen3-30b-a3b", "meta-llama-3-8b": "llama-3-8b",
}  # fmt: skip
SUFFIXES: Final = re.compile(r"-(instruct|chat|base|it)$")
# Words of a framework -> software profile.
STACKS: Final = (
    ("megatron", "megatron"), ("torchtitan", "torchtitan"), ("torchtune", "torchtitan"), ("internevo", "deepspeed"),
    ("llama-factory", "llama-factory"), ("swift", "llama-factory"), ("hf trainer", "llama-factory"), ("trl", "fsdp"),
)  # fmt: skip
# Words of a device -> cluster preset.
CLUSTERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("h100-nvl", {"extends": "dgx-h100", "device": "h100-94g-nvl"}), ("h100-96g", {"extends": "hgx-h100-96g"}),
    ("h100", {"extends": "dgx-h100"}), ("h20", {"extends": "hgx-h20"}), ("a800", {"extends": "hgx-a800"}),
    ("a100", {"extends": "dgx-a100"}), ("80 gb", {"extends": "dgx-a100"}), ("b200", {"extends": "dgx-b200"}),
    ("blackwell", {"extends": "gb200-nvl72"}),
    ("rtx3090", {"extends": "workstation", "device": "rtx3090-24g"}),
    ("rtx4090", {"extends": "workstation", "device": "rtx4090-24g"}),
    ("ascend-a3", {"extends": "atlas-900-a3"}), ("ascend-910b", {"extends": "atlas-800t-a2"}),
)  # fmt: skip
PRECISIONS: Final = {"fp8 linears": "fp8", "mxfp8": "mxfp8", "nvfp4 (bf16 tail)": "bf16", "fp16": "fp16"}
ALTERNATE: Final = {"policy": "selective", "modules": ["alternate_linear"]}
COMPILED: Final = ["layernorm", "rmsnorm", "softmax", "swiglu", "rope", "dropout_add", "bias_gelu"]


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """A report as a plan, with its outcome; `peak_gib` and what it counts where the report says."""

    id: str
    plan: dict[str, Any]
    out_of_memory: bool
    peak_gib: float | None
    assumed: tuple[str, ...]


def read_cases(path: str | Path) -> list[dict[str, Any]]:
    """Reports of a file, plain. Raises SpecError."""
    file = Path(path)
    listed = parse_text(file.read_text(encoding="utf-8"), Source(str(path), file.parent)).plain()
    return [item for item in listed if isinstance(item, dict) and "id" in item] if isinstance(listed, list) else []


def memory_case(case: Mapping[str, Any]) -> MemoryCase:
    """The plan of a report.

    Raises:
        RowSkippedError: the model or the device is not known, or the outcome is not stated.
    """
    config, hardware = dict(case.get("config") or {}), dict(case.get("hardware") or {})
    outcome = dict(case.get("outcome") or {})
    if not isinstance(outcome.get("oom"), bool):
        raise RowSkippedError("the outcome is not stated")
    assumed: list[str] = []
    devices = hardware.get("devices")
    if not isinstance(devices, int):
        raise RowSkippedError("the number of devices is not stated")
    words = str(case.get("framework", "")).lower()
    stack = next((name for word, name in STACKS if word in words), None)
    if stack is None:
        raise RowSkippedError(f"framework {words} is not known")
    if stack == "megatron" and config.get("zero_stage") is not None:
        stack = "llama-factory"
    task = str(case.get("task"))
    task = task if task in ("pretrain", "lora", "qlora") else "sft"
    sequence = _sequence(config, outcome, TITAN_SEQUENCE if words == "torchtitan" else SEQUENCE, assumed)
    micro = int(config.get("micro_batch") or config.get("local_batch") or 1)
    parallel = _parallel(config, devices, stack, task, words, assumed)
    data = int(parallel["data"])
    batch = config.get("global_batch")
    if not isinstance(batch, int) or batch % (data * micro):
        batch = data * micro * int(config.get("micro_num") or config.get("grad_accum") or MICRO_BATCHES)
    plan: dict[str, Any] = {
        "name": str(case["id"]),
        "model": _model(dict(case.get("model") or {}), config),
        "cluster": _cluster(hardware, devices),
        "training": {"task": task, "steps": 1, "sequence_length": sequence, "global_batch_size": batch},
        "parallel": parallel | {"micro_batch_size": micro},
        "software": _software(config, stack, assumed),
    }
    _training(plan["training"], config, case, assumed)
    peak = outcome.get("peak_gib") or outcome.get("peak_active_gib") or outcome.get("peak_gb")
    return MemoryCase(str(case["id"]), plan, outcome["oom"], float(peak) if peak else None, tuple(assumed))


def _model(model: dict[str, Any], config: Mapping[str, Any]) -> Any:
    name = str(model.get("name", "")).split("/")[-1].lower()
    name = ALIASES.get(SUFFIXES.sub("", name), SUFFIXES.sub("", name))
    if name in MODELS:
        return {"name": name, **copy.deepcopy(MODELS[name])}
    preset = presets.find("models", name)
    if preset is None:
        raise RowSkippedError(f"model {name} is not known")
    spec: dict[str, Any] = {"extends": preset.name}
    if config.get("mtp_layers"):
        spec["mtp_layers"] = config["mtp_layers"]
    return spec if len(spec) > 1 else preset.name


def _cluster(hardware: Mapping[str, Any], devices: int) -> dict[str, Any]:
    words = str(hardware.get("device", "")).lower()
    document = next((dict(found) for word, found in CLUSTERS if word in words), None)
    if document is None:
        raise RowSkippedError(f"device {words} is not known")
    document["devices"] = devices
    nodes = int(hardware.get("nodes") or max(1, -(-devices // 8)))
    if "extends" not in document:
        document["devices_per_node"] = devices // nodes
    if hardware.get("host_ram_gb"):
        # reports give what `free` shows: GiB
        document["host"] = {"memory": f"{hardware['host_ram_gb']} GiB"}
    return document


def _sequence(config: Mapping[str, Any], outcome: Mapping[str, Any], usual: int, assumed: list[str]) -> int:
    value = config.get("seq_len")
    if value is None and isinstance(outcome.get("seq_len"), list):
        return int(max(outcome["seq_len"]))
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.search(r"\d+", value):
        bound = int(re.search(r"\d+", value)[0])  # type: ignore[index]
        assumed.append(f"sequence length {bound // UPPER_BOUND}: samples are shorter than {bound}")
        return bound // UPPER_BOUND
    assumed.append(f"sequence length {usual}")
    return usual


def _parallel(
    config: Mapping[str, Any], devices: int, stack: str, task: str, words: str, assumed: list[str]
) -> dict[str, Any]:
    tensor, pipeline = int(config.get("tp") or 1), int(config.get("pp") or 1)
    context = int(config.get("cp") or config.get("sp") or 1)
    section: dict[str, Any] = {
        "tensor": tensor, "pipeline": pipeline, "context": context, "data": devices // (tensor * pipeline * context),
    }  # fmt: skip
    if config.get("sp"):
        section["context_kind"] = "ulysses"
    expert = config.get("ep")
    if isinstance(expert, int) and expert > 1:
        section["expert"] = expert
        section["expert_tensor"] = int(config.get("etp") or 1)
    stage = config.get("zero_stage")
    if stage is None:
        sharded = bool(config.get("fsdp")) or stack in ("torchtitan", "fsdp")
        stage = 3 if sharded else 1 if config.get("distributed_optimizer") or config.get("zero1") else 0
        assumed.append(f"ZeRO stage {stage}")
    section["zero_stage"] = stage if devices > 1 or config.get("offload_param") else 0
    if pipeline > 1 and config.get("first_stage_layers"):
        section["layer_split"] = {"first": config["first_stage_layers"]}
    elif pipeline > 1 and config.get("last_stage_layers"):
        section["layer_split"] = {"last": config["last_stage_layers"]}
    if tensor > 1:
        section["sequence_parallel"] = bool(config.get("sequence_parallel", True))
    section["recompute"] = _recompute(config, stack, words, assumed)
    offload = _offload(config, task)
    if offload:
        section["offload"] = offload
    return section


def _recompute(config: Mapping[str, Any], stack: str, words: str, assumed: list[str]) -> Any:
    value = str(config.get("recompute") or "")
    if value.startswith("full"):
        return "full"
    if value.startswith("none"):
        return "none"
    if value.startswith("selective"):
        return ALTERNATE if stack == "torchtitan" else {"policy": "selective", "modules": ["core_attention"]}
    usual: Any = "full" if stack == "llama-factory" else ALTERNATE if words == "torchtitan" else "none"
    assumed.append(f"recompute {usual}: default of the framework")
    return usual


def _offload(config: Mapping[str, Any], task: str) -> dict[str, Any]:
    section: dict[str, Any] = {}
    whole = config.get("offload") == "cpu"
    if config.get("offload_optimizer") == "cpu" or whole:
        section |= {"optimizer": 1.0, "gradients": 1.0}
    if config.get("offload_param") == "cpu" or whole:
        section["parameters"] = 1.0
    if config.get("activation_offload"):
        section["activations"] = 1.0
    if "Paged" in str(config.get("optimizer")):
        section["optimizer"] = 1.0  # paged to host memory on demand (bitsandbytes)
    if config.get("optimizer_offload_fraction"):
        section["optimizer"] = float(config["optimizer_offload_fraction"])
    return section


def _software(config: Mapping[str, Any], stack: str, assumed: list[str]) -> dict[str, Any]:
    software: dict[str, Any] = {"stack": stack}
    attention = config.get("attention")
    if attention is not None:
        software["attention"] = {"fa2": "flash-v2", "fa3": "flash-v3", "flash": "flash"}.get(str(attention), "flash")
    if config.get("compile"):
        software["fused"] = COMPILED
    if config.get("liger"):
        software["loss"] = {"fused": True, "kernel": "liger"}
    elif config.get("chunked_ce") or config.get("loss") == "chunked_nll":
        software["loss"] = {"chunk": 1024}
    if config.get("capacity_factor"):
        software["moe"] = {"capacity_factor": float(config["capacity_factor"])}
    return software


def _training(section: dict[str, Any], config: Mapping[str, Any], case: Mapping[str, Any], assumed: list[str]) -> None:
    precision = str(config.get("precision") or "bf16").lower()
    section["precision"] = PRECISIONS.get(precision, "bf16")
    optimizer = str(config.get("optimizer") or "")
    pure = "torchtune" in str(case.get("framework", "")).lower()
    if pure:
        section["optimizer"] = {"name": "adamw", "master_weights": False, "state_dtype": "bf16"}
        assumed.append("weights and optimizer states in bf16: torchtune trains in the model's own format")
    if "8bit" in optimizer:
        section["optimizer"] = {"name": "adamw", "master_weights": False, "state_dtype": "int8"}
    if config.get("optimizer_in_bwd") or "in backward" in optimizer:
        section.setdefault("optimizer", {"name": "adamw"})["in_backward"] = True
    if optimizer == "GaLore":
        # arXiv 2403.03507: moments of rank r gradients, small beside the weights
        section["optimizer"] = {"name": "sgd", "master_weights": False}
    if section["task"] == "lora":
        rank = config.get("lora_rank")
        if rank is None:
            rank = 64 if "qwen finetune" in str(case.get("framework", "")).lower() else 8
            assumed.append(f"LoRA rank {rank} on all linear layers: default of the framework")
        section["lora"] = {"rank": int(rank), "target_modules": ["all_linear"]}

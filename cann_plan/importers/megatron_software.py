"""Kernels, fusions and expert execution to `software:`; number formats, batch and length to `training:`."""

from __future__ import annotations

import math
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_cluster import Stack

# Megatron-LM --attention-backend (Transformer Engine): what runs.
BACKENDS: Final = {"flash": "flash", "fused": "cudnn", "unfused": "unfused", "local": "unfused"}
FP8_RECIPES: Final = {
    "delayed": "fp8", "tensorwise": "fp8", "blockwise": "fp8_blockwise", "mxfp8": "mxfp8", "groupwise": "fp8_blockwise",
}  # fmt: skip
OPTIMIZERS: Final = {"adam": "adamw", "sgd": "sgd", "muon": "muon", "dist_muon": "muon", "lion": "lion"}
STATES: Final = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
LORA_TARGETS: Final = {
    "linear_qkv": ("q_proj", "k_proj", "v_proj"), "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"), "linear_fc2": ("down_proj",),
    "query_key_value": ("q_proj", "k_proj", "v_proj"), "dense": ("o_proj",),
    "dense_h_to_4h": ("gate_proj", "up_proj"), "dense_4h_to_h": ("down_proj",),
}  # fmt: skip


def software_section(arguments: Arguments, stack: Stack, spec: dict[str, Any] | None, tensor: int, notes: Notes
                     ) -> dict[str, Any]:  # fmt: skip
    """`software:`; a fusion whose flag is missing is off, one that Megatron switches on by default is on."""
    section: dict[str, Any] = {"stack": stack.name, "attention": _attention(arguments, stack, notes)}
    section["fused"] = _fused(arguments, stack, spec or {})
    section["vocabulary_multiple"] = _padding(arguments, spec, tensor, notes)
    graph = arguments.text("cuda-graph-impl")
    if arguments.has("enable-cuda-graph", "external-cuda-graph") or graph not in (None, "none"):
        section["graph_mode"] = "graph"
    if arguments.has("npu-deterministic", "deterministic-mode"):
        section["deterministic"] = True
    loss: dict[str, Any] = {}
    if arguments.has("cross-entropy-loss-fusion"):
        loss["fused"] = True
        loss["kernel"] = "te" if arguments.text("cross-entropy-fusion-impl") == "te" else "native"
    chunk = arguments.whole("loss-chunk-size", "chunk-loss-size")
    if chunk or arguments.text("loss-compute-mode") == "chunk":
        loss["chunk"] = chunk or 1024  # MindSpeed default
    section["loss"] = loss
    if spec is not None and "moe" in spec:
        section["moe"] = _experts(arguments, notes)
    return section


def _attention(arguments: Arguments, stack: Stack, notes: Notes) -> str | None:
    flash = arguments.has("use-flash-attn", "use-fusion-attn-v2", "use-flash-attn-v2")
    backend = (arguments.text("attention-backend") or "").lower()
    if stack.ascend:
        return "ascend-fusion" if flash else "unfused"
    if backend in BACKENDS:
        return BACKENDS[backend]
    if flash or arguments.text("transformer-impl") == "transformer_engine":
        return "flash"
    if arguments.text("transformer-impl") == "local":
        return "unfused"
    if stack.name != "megatron":
        return "unfused"
    return str(notes.assume("software.attention", "flash", "Megatron default: --attention-backend auto"))


def _fused(arguments: Arguments, stack: Stack, spec: dict[str, Any]) -> list[str]:
    on = {
        "softmax": not arguments.has("no-masked-softmax-fusion"),
        "bias_gelu": not arguments.has("no-bias-gelu-fusion"),
        "dropout_add": not arguments.has("no-bias-dropout-fusion"),
        "grad_accumulation": not arguments.has("no-gradient-accumulation-fusion"),
        "grouped_gemm": arguments.has("moe-grouped-gemm"),
        "moe_permute": arguments.has("moe-permute-fusion", "use-fused-moe-token-permute-and-unpermute"),
        "moe_router": arguments.has("moe-router-fusion"),
        "cross_entropy": arguments.has("cross-entropy-loss-fusion"),
        "optimizer": True,
    }
    arguments.ask(("gemm-gradient-accumulation-fusion", "no-bias-swiglu-fusion", "no-rope-fusion",
                   "cross-entropy-fusion-impl", "use-fused-weighted-squared-relu"))  # fmt: skip
    if stack.ascend:
        on |= {
            "rmsnorm": arguments.has("use-fused-rmsnorm"),
            "swiglu": arguments.has("use-fused-swiglu"),
            "rope": arguments.has("use-fused-rotary-pos-emb"),
            "mlp": arguments.has("use-fused-mlp"),
        }
        if stack.legacy and "gemm-gradient-accumulation-fusion" not in arguments.data:
            on["grad_accumulation"] = False
    else:
        local = arguments.text("transformer-impl") == "local"
        on |= {
            "rmsnorm": not local, "layernorm": True,
            "swiglu": "no-bias-swiglu-fusion" not in arguments.data,
            "rope": "no-rope-fusion" not in arguments.data,
        }  # fmt: skip
    return [name for name, state in on.items() if state]


def _padding(arguments: Arguments, spec: dict[str, Any] | None, tensor: int, notes: Notes) -> int | None:
    """The multiple that yields the stated padded vocabulary, or the one stated; Megatron's default is 128.

    A padded vocabulary that the multiple does not yield replaces the vocabulary of `spec`.
    """
    multiple = arguments.whole("make-vocab-size-divisible-by") or 128
    padded = arguments.whole("padded-vocab-size")
    if padded is not None and spec is not None and "vocabulary_size" in spec:
        if math.ceil(spec["vocabulary_size"] / (multiple * tensor)) * multiple * tensor == padded:
            return multiple
        if padded < spec["vocabulary_size"]:
            notes.warn(f"--padded-vocab-size {padded} is less than the vocabulary {spec['vocabulary_size']}: ignored")
            return multiple
        if padded % tensor:
            notes.refuse(f"--padded-vocab-size {padded} does not divide by the tensor degree {tensor}")
            return multiple
        spec["vocabulary_size"] = padded
        return 1
    return multiple


def _experts(arguments: Arguments, notes: Notes) -> dict[str, Any]:
    dispatcher = arguments.text("moe-token-dispatcher-type")
    backend = arguments.text("moe-flex-dispatcher-backend")
    if dispatcher is None:
        dispatcher = notes.assume("software.moe.dispatcher", "allgather", "default of --moe-token-dispatcher-type")
    if dispatcher == "flex" or arguments.has("moe-enable-deepep"):
        if backend not in (None, "deepep"):
            notes.unmodelled("moe-flex-dispatcher-backend", backend, "taken as deepep")
        dispatcher = "deepep"
    if dispatcher not in ("allgather", "alltoall", "alltoall_seq", "deepep"):
        notes.unmodelled("moe-token-dispatcher-type", dispatcher, "dispatcher nobody here knows: alltoall taken")
        dispatcher = "alltoall"
    even = arguments.has("fix-router", "moe-router-force-load-balancing")
    level = arguments.text("moe-zero-memory")
    arguments.ask(("moe-zero-memory-num-layers",))
    return {
        "dispatcher": dispatcher,
        "capacity_factor": arguments.number("moe-expert-capacity-factor"),
        "imbalance": 1.0 if even else None,
        "zero_memory": level if level in ("level0", "level1") else None,
    }


def training_section(arguments: Arguments, data: int, micro: int, entry: str, notes: Notes, *, encoder: bool
                     ) -> dict[str, Any]:  # fmt: skip
    """`training:`; a global batch that is not stated is one micro-batch per replica (Megatron)."""
    section: dict[str, Any] = {"task": _task(arguments, entry)}
    samples, steps = arguments.whole("train-samples"), arguments.whole("train-iters")
    if samples is not None:
        section["samples"] = samples
    elif steps is not None:
        section["steps"] = steps
    else:
        section["steps"] = notes.assume("training.steps", 1, "neither --train-iters nor --train-samples is given")
    sequence = arguments.whole("seq-length", "encoder-seq-length")
    if sequence is None:
        notes.refuse("--seq-length is missing")
    section["sequence_length"] = sequence
    batch = arguments.whole("global-batch-size")
    slots = arguments.whole("gradient-accumulation-steps")
    if batch is None and slots is not None:
        batch = data * micro * slots
    elif batch is None:
        batch = notes.assume("training.global_batch_size", data * micro, "Megatron default: micro-batch x data degree")
    elif batch % (data * micro):
        notes.refuse(f"--global-batch-size {batch} does not divide into data {data} x micro-batch {micro}")
    section["global_batch_size"] = batch
    for name in ("rampup-batch-size", "step-batch-size-schedule"):
        if arguments.has(name):
            value = arguments.text(name) or True
            notes.unmodelled(name, value, f"the batch changes during the run: {batch} is taken throughout")
    section["precision"] = _precision(arguments, notes)
    section["gradient_dtype"] = _gradients(arguments)
    section["optimizer"] = _optimizer(arguments, notes)
    section["attention_mask"] = _mask(arguments, notes, encoder=encoder)
    rank = arguments.whole("lora-r", "lora-rank")
    if rank is not None:
        targets = [name for word in arguments.texts("lora-target-modules") for name in LORA_TARGETS.get(word, ())]
        section["lora"] = {"rank": rank, "alpha": arguments.number("lora-alpha"), "target_modules": targets or None}
    arguments.ask(("lora-fusion", "qlora-save-dequantize", "lora-load"))
    return section


def _task(arguments: Arguments, entry: str) -> str:
    if arguments.has("qlora"):
        return "qlora"
    if "lora-r" in arguments.data or "lora-rank" in arguments.data:
        return "lora"
    stage = (arguments.text("stage", "rl-stage") or "").lower()
    if stage == "dpo":
        return "dpo"
    tuned = stage == "sft" or arguments.has("is-instruction-dataset", "sft", "finetune-mode")
    return "sft" if tuned or "finetune" in entry or "sft" in entry else "pretrain"


def _precision(arguments: Arguments, notes: Notes) -> str:
    half = "bf16" if arguments.has("bf16") else "fp16" if arguments.has("fp16") else "fp32"
    form, recipe = arguments.text("fp8-format", "fp8"), arguments.text("fp8-recipe")
    arguments.ask(("first-last-layers-bf16", "num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16"))
    if arguments.text("fp4-format") is not None:
        return "nvfp4"
    if form is None and not arguments.has("fp8"):
        return half
    if form in ("hif8",):
        return "hif8"
    if recipe is None:
        return str(notes.assume("training.precision", "fp8", "default of --fp8-recipe: delayed scaling"))
    if recipe not in FP8_RECIPES:
        notes.unmodelled("fp8-recipe", recipe, "recipe nobody here knows: per-tensor scaling taken")
    return FP8_RECIPES.get(recipe, "fp8")


def _gradients(arguments: Arguments) -> str | None:
    """Only where it differs from the stack's rule: fp32 main gradients with bf16, fp16 ones with fp16."""
    if arguments.has("grad-reduce-in-bf16", "quant-grads", "o2-gradient"):
        return "bf16"
    stated = arguments.text("main-grads-dtype", "megatron-fsdp-main-grads-dtype")
    arguments.ask(("megatron-fsdp-grad-comm-dtype", "main-grads-dtype", "megatron-fsdp-main-grads-dtype"))
    if stated in ("fp32", "bf16", "fp16"):
        return stated
    return "fp32" if arguments.has("accumulate-allreduce-grads-in-fp32") and arguments.has("fp16") else None


def _optimizer(arguments: Arguments, notes: Notes) -> dict[str, Any]:
    word = (arguments.text("optimizer") or "adam").lower()
    section: dict[str, Any] = {"name": OPTIMIZERS.get(word)}
    if word not in OPTIMIZERS:
        notes.unmodelled("optimizer", word, "optimizer nobody here knows: adamw taken")
        section["name"] = "adamw"
    moments = {arguments.text(name) for name in ("exp-avg-dtype", "exp-avg-sq-dtype")} - {None}
    if arguments.has("o2-optimizer"):
        moments = {"bf16"}
    if arguments.has("quant-states"):
        notes.unmodelled("quant-states", arguments.text("quant-states") or True, "quantised moments: fp32 taken")
    if len(moments) == 1:
        section["state_dtype"] = STATES.get(str(moments.pop()))
    elif moments:
        notes.unmodelled("exp-avg-dtype", ", ".join(map(str, sorted(map(str, moments)))), "two formats: fp32 taken")
    if arguments.has("reuse-fp32-param"):
        section["reuse_master_weights"] = True
    arguments.ask(("use-precision-aware-optimizer", "main-params-dtype", "megatron-fsdp-main-params-dtype"))
    return section


def _mask(arguments: Arguments, notes: Notes, *, encoder: bool) -> str | None:
    general = arguments.text("attention-mask-type") == "general"
    if arguments.has("reset-attention-mask", "neat-pack", "variable-seq-lengths") and not encoder:
        return "document"
    if general:
        notes.warn("--attention-mask-type general: the whole matrix is computed, twice the work of a causal kernel")
        return "full"
    return None

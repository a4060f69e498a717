"""Kernels, fusions, overlap and number formats of a measured run to `software:`, `training:` and `memory:`."""

from __future__ import annotations

import re
from typing import Any, Final

from cann_plan.importers.rows import Fields, Remark, RowSkippedError

# Launch arguments and their plain names -> fused operator.
FUSED: Final = {
    "use-fused-rmsnorm": "rmsnorm", "use-fused-swiglu": "swiglu", "use-fused-rotary-pos-emb": "rope",
    "moe-grouped-gemm": "grouped_gemm", "mlp-layer-fusion": "mlp",
    "matmul-add grad-accum fusion (default on)": "grad_accumulation",
    "gemm-gradient-accumulation-fusion": "grad_accumulation",
    "use-fused-moe-token-permute-and-unpermute": "moe_permute", "moe-permute-fusion": "moe_permute",
    "use-flash-attn": None,
}  # fmt: skip
# On without an argument in Megatron-LM (--no-masked-softmax-fusion, --no-bias-dropout-fusion and so on switch off).
ALWAYS_FUSED: Final = ("softmax", "dropout_add", "bias_gelu")
LAUNCHED_BY_ARGUMENTS: Final = ("mindspeed-mcore", "mindspeed-legacy", "ascendspeed")
"""Stacks whose flags describe a run completely: a flag that is not listed was off."""

EAGER_TORCH: Final = ("layernorm", "softmax")  # rms_norm was a chain of element-wise operators before PyTorch 2.9
COMPILED_TORCH: Final = ("layernorm", "rmsnorm", "softmax", "swiglu", "rope", "dropout_add", "bias_gelu")
LORA_TARGETS: Final = (
    (("wq", "q_proj", "query"), "q_proj"), (("wk", "k_proj"), "k_proj"), (("wv", "v_proj"), "v_proj"),
    (("wo", "o_proj", "dense"), "o_proj"),
)  # fmt: skip
PRECISIONS: Final = ("bf16", "fp16", "fp32", "tf32", "fp8", "fp8_blockwise", "mxfp8", "hif8", "mxfp4", "nvfp4")
KERNELS: Final = (("sdpa", "sdpa"), ("flash-attn 1", "flash-v1"), ("flash-attn 2", "flash-v2"), ("fa3", "flash-v3"))
# Kernel generation of stacks that do not name it.
STACK_KERNELS: Final = {
    "llm-foundry": ("flash-v1", "llm-foundry's benchmarks of 2023 ran FlashAttention 1 and its Triton version"),
    "torchtitan": ("sdpa", "torchtitan calls PyTorch's scaled_dot_product_attention"),
    "torchtune": ("sdpa", "torchtune calls PyTorch's scaled_dot_product_attention"),
}
# Published benchmarks by NVIDIA's recipes. They accumulate and reduce gradients in bf16 and overlap tensor-parallel
# exchanges: NeMo's scripts/performance (`plugins.grad_reduce_in_fp32 = False`, `tp_comm_overlap=True`),
# Megatron-Bridge's perf_recipes (`ddp.grad_reduce_in_fp32 = False`), MLPerf submissions.
BENCHMARKS: Final = ("Megatron-Bridge", "(dgxc", "NeMo 24.", "(MLPerf)")
NO_TIME: Final = {
    "moe-permutation-async-comm": "host-side synchronisation of the expert permutation",
    "use-cp-send-recv-overlap": "context-parallel sends are always taken as overlapped",
}


def software_section(
    parallel: Fields,
    stack_word: str | None,
    profile: str | None,
    section: dict[str, Any],
    *,
    tensor: int,
    experts: bool,
    framework: str = "",
) -> tuple[dict[str, Any], list[Remark]]:
    """`software:`; overlap goes into the `parallel` mapping `section`."""
    remarks: list[Remark] = []
    software: dict[str, Any] = {} if profile is None else {"stack": profile}
    _attention(parallel, stack_word, profile, software, remarks)
    _fused(parallel, profile, experts, software, remarks)
    note = parallel.text("overlap_note") or ""
    overlap = _overlap(parallel, profile, tensor, note, is_benchmark(framework), remarks)
    if overlap:
        section["overlap"] = overlap
    moe: dict[str, Any] = {}
    dispatcher = parallel.text("moe_dispatcher") or ("deepep" if re.search("hybridep|deepep", note, re.I) else None)
    if dispatcher is not None:
        if dispatcher not in ("allgather", "alltoall", "alltoall_seq", "deepep"):
            raise RowSkippedError(f"expert dispatcher {dispatcher} is not known")
        moe["dispatcher"] = dispatcher
    capacity = parallel.number("moe_capacity_factor")
    if capacity is not None:
        moe["capacity_factor"] = capacity
    if moe and experts:
        software["moe"] = moe
    if "full_iteration" in note or re.search(r"CUDA graphs$", note):
        software["graph_mode"] = "graph"
    elif "CUDA graphs" in note:
        text = f"{note}: graphs of some modules only, launches are charged as without"
        remarks.append(Remark("software.graph_mode", "eager", text))
    if "cross-entropy fusion" in note or "Liger" in note:
        software["loss"] = {"fused": True}
    return software, remarks


def is_benchmark(framework: str) -> bool:
    """Whether the wording of `framework` names one of NVIDIA's benchmark recipes."""
    return any(words in framework for words in BENCHMARKS)


def _attention(
    parallel: Fields, stack: str | None, profile: str | None, software: dict[str, Any], remarks: list[Remark]
) -> None:
    flash, note = parallel.flag("flash_attention"), (parallel.text("flash_attention_note") or "").lower()
    if flash is False:
        software["attention"] = "unfused"
        return
    named = next((kernel for words, kernel in KERNELS if words in note), None)
    if named is not None:
        software["attention"] = named
    elif stack in STACK_KERNELS:
        kernel, reason = STACK_KERNELS[stack]
        software["attention"] = kernel
        remarks.append(Remark("software.attention", kernel, reason))
    elif flash and profile in ("megatron-deepspeed", "bigscience"):
        software["attention"] = "flash"


def _fused(
    parallel: Fields, profile: str | None, experts: bool, software: dict[str, Any], remarks: list[Remark]
) -> None:
    listed, compiled = parallel.texts("fused_operators"), parallel.flag("compile")
    if listed is not None:
        fused = list(ALWAYS_FUSED)
        if profile == "mindspeed-mcore":
            fused.append("grad_accumulation")  # on unless --no-gradient-accumulation-fusion
        for name in listed:
            if name not in FUSED:
                remarks.append(Remark("parallel.fused_operators", name, "not used: unknown fusion"))
            elif FUSED[name] is not None:
                fused.append(str(FUSED[name]))
        software["fused"] = list(dict.fromkeys(fused))
    elif compiled is not None:
        software["fused"] = list(COMPILED_TORCH if compiled else EAGER_TORCH)
        text = "torch.compile fuses element-wise chains" if compiled else "eager PyTorch runs them one by one"
        remarks.append(Remark("software.fused", software["fused"], text))


def _overlap(
    parallel: Fields, profile: str | None, tensor: int, note: str, benchmark: bool, remarks: list[Remark]
) -> dict[str, Any]:
    flags = parallel.texts("overlap_flags")
    overlap: dict[str, Any] = {}
    if benchmark and tensor > 1 and "no TP-comm" not in note:
        overlap["tensor"] = "bulk"
        remarks.append(Remark("parallel.overlap.tensor", "bulk", "NeMo's recipes set tp_comm_overlap (user buffers)"))
    if flags is not None and profile in LAUNCHED_BY_ARGUMENTS:
        overlap = {"grad_reduce": False, "param_gather": False, "tensor": "none"}
    for flag in flags or []:
        if flag == "overlap-grad-reduce":
            overlap["grad_reduce"] = True
        elif flag == "overlap-param-gather":
            overlap["param_gather"] = True
        elif flag in ("use-mc2", "use-ascend-mc2"):
            overlap["tensor"] = "mc2"
        elif flag == "use-ascend-coc":
            overlap["tensor"] = "coc"
        else:
            remarks.append(Remark("parallel.overlap_flags", flag, "not used: unknown flag"))
    if "interleave" in note and tensor > 1:
        overlap["tensor"] = "bulk"
    if "no TP-comm" in note:
        overlap["tensor"] = "none"
    if "no P2P" in note or "no TP-comm and no P2P" in note:
        overlap["p2p"] = False
    if "EP all-to-all overlap" in note:
        overlap["expert"] = True
    remarks.extend(
        Remark("parallel.overlap", word, NO_TIME[word]) for word in NO_TIME if word in note
    )  # fmt: skip
    return overlap


def training_section(
    parallel: Fields, task: str | None, sequence: int, batch: int, device: str, framework: str = ""
) -> tuple[dict[str, Any], list[Remark]]:
    """`training:`; the length of the run is immaterial for a step and set to one step.

    Raises:
        RowSkippedError: a number format nobody knows.
    """
    remarks: list[Remark] = []
    training: dict[str, Any] = {"steps": 1, "sequence_length": sequence, "global_batch_size": batch}
    precision, note = parallel.text("precision"), (parallel.text("precision_note") or "").lower()
    if precision is not None:
        if precision not in PRECISIONS:
            raise RowSkippedError(f"precision {precision} is not known")
        if precision == "fp8" and "finer granularity" in note:
            precision = "mxfp8" if device.startswith(("b200", "b300", "gb200", "gb300")) else "fp8_blockwise"
            remarks.append(Remark("training.precision", precision, f"{note}"))
        training["precision"] = precision
    lora = parallel.raw("pet")
    finetune = parallel.text("finetune")
    kind = "lora" if finetune == "lora" or isinstance(lora, dict) else _task(task)
    training["task"] = kind
    if isinstance(lora, dict):
        section: dict[str, Any] = {"rank": lora.get("lora_rank", 8)}
        targets = _lora_targets(str(lora.get("target_modules", "")))
        if targets:
            section["target_modules"] = targets
        training["lora"] = section
    mode = parallel.text("mixed_precision_mode")
    if mode is not None and "PURE" in mode:
        training["gradient_dtype"] = "bf16"
    if is_benchmark(framework):
        training["gradient_dtype"] = "bf16"
        text = "the benchmark recipes of this stack set grad_reduce_in_fp32 = False"
        remarks.append(Remark("training.gradient_dtype", "bf16", text))
    parameters = parallel.text("param_dtype")
    parallel.text("optimizer")  # all of them are AdamW with fp32 moments
    if parameters in ("float16", "bfloat16"):
        training["optimizer"] = {"name": "adamw", "master_weights": False}
    if parallel.flag("reuse_fp32_param"):
        training["optimizer"] = {"name": "adamw", "reuse_master_weights": True}
    return training, remarks


def _task(task: str | None) -> str:
    words = (task or "pretrain").lower()
    if "qlora" in words:
        return "qlora"
    if "lora" in words:
        return "lora"
    return "pretrain" if "pretrain" in words else "sft"


def _lora_targets(pattern: str) -> list[str]:
    return [target for words, target in LORA_TARGETS if any(word in pattern for word in words)]


def memory_section(parallel: Fields) -> dict[str, Any]:
    """`memory:` the pool limit of MindSpore ("58GB" is 58 GiB: 59392 MiB in its log)."""
    limit = parallel.text("max_device_memory")
    match = re.fullmatch(r"([\d.]+)\s*GB", limit or "")
    return {"pool_gib": float(match[1])} if match else {}


def offload_section(parallel: Fields) -> tuple[dict[str, Any], list[Remark]]:
    """`parallel.offload`. Raises RowSkippedError where the row does not say what is offloaded."""
    names, note = parallel.texts("offload"), (parallel.text("offload_note") or "").lower()
    wanted = [name for name in names or [] if name not in ("none",)]
    if not wanted:
        return {}, []
    found = {}
    if "optimizer" in wanted or "adam" in note or "optimizer" in note:
        found["optimizer"] = 1.0
    if "swap-attention" in note or "activation" in note:
        found["activations"] = 1.0
    if not found:
        raise RowSkippedError(f"offload of {', '.join(wanted)}: what is offloaded is not stated")
    return found, []

"""A plan with a resolved layout to a launch script of Megatron-LM or MindSpeed-LLM."""

from __future__ import annotations

from typing import Final

from cann_plan.exporters.launch_arguments import Exported, ExportError, Flavour, LaunchArguments
from cann_plan.exporters.launch_layout import layout_arguments
from cann_plan.exporters.launch_model import model_arguments
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.plan import PlanSpec

GROUP: Final = "TRAINING_ARGS"
_FP8: Final = {"fp8": "delayed", "fp8_blockwise": "blockwise", "mxfp8": "mxfp8"}
_OPTIMIZERS: Final = {"adam": "adam", "adamw": "adam", "sgd": "sgd", "muon": "muon"}


def export_launch(plan: PlanSpec, cluster: Cluster, flavour: Flavour) -> Exported:
    """A launch script; paths to data and tokenizer are left to fill in.

    `plan` states every degree of its layout, the sequence length and the global batch. Raises ExportError for a plan
    that the launch arguments cannot describe.
    """
    if plan.model is None or plan.parallel.tensor is None:
        raise ExportError("the plan has no model or no resolved layout")
    sequence, batch = plan.training.sequence_length, plan.training.global_batch_size
    if sequence is None or batch is None:
        raise ExportError("the plan states no sequence length or no global batch")
    out = LaunchArguments(flavour)
    model_arguments(plan.model, sequence, plan.parallel.tensor, out)
    out.add("MODEL_ARGS", "make-vocab-size-divisible-by", plan.software.vocabulary_multiple or 128)
    layout_arguments(plan.parallel, plan.model.layers, plan.model.mtp_layers, out)
    _training(plan, sequence, batch, out)
    _software(plan, out)
    return Exported(_script(plan, cluster, out), tuple(out.warnings))


def _training(plan: PlanSpec, sequence: int, batch: int, out: LaunchArguments) -> None:
    training = plan.training
    out.add(GROUP, "micro-batch-size", plan.parallel.micro_batch_size or 1)
    out.add(GROUP, "global-batch-size", batch)
    steps = training.steps
    if steps is None and training.tokens is not None:
        steps = max(1, round(training.tokens / (batch * sequence)))
    if steps is None and training.samples is not None:
        steps = max(1, round(training.samples / batch))
    out.add(GROUP, "train-iters", steps if steps is not None else "$TRAIN_ITERS")
    precision = training.precision or "bf16"
    if precision in ("fp32", "tf32"):
        pass
    elif precision == "fp16":
        out.add(GROUP, "fp16")
    else:
        out.add(GROUP, "bf16")
        if precision in _FP8:
            out.add(GROUP, "fp8-format", "hybrid")
            out.add(GROUP, "fp8-recipe", _FP8[precision])
        elif precision != "bf16":
            out.warn(f"the number format {precision} has no argument here: bf16 is given")
    if training.gradient_dtype == "bf16":
        out.add(GROUP, "grad-reduce-in-bf16")
    optimizer = training.optimizer.name or "adamw"
    if optimizer not in _OPTIMIZERS:
        out.warn(f"the optimizer {optimizer} has no argument here")
    elif _OPTIMIZERS[optimizer] != "adam":
        out.add(GROUP, "optimizer", _OPTIMIZERS[optimizer])
    if training.optimizer.reuse_master_weights and out.ascend:
        out.add(GROUP, "reuse-fp32-param")
    if training.attention_mask == "document":
        out.add(GROUP, "reset-attention-mask")
    if training.lora is not None:
        out.warn("low-rank adapters are not given")


def _software(plan: PlanSpec, out: LaunchArguments) -> None:
    software = plan.software
    fused = software.fused
    unfused = software.attention == "unfused"
    if out.ascend:
        out.add(GROUP, "use-mcore-models")
        out.flag(GROUP, "use-flash-attn", not unfused)
        for name, argument in (("rmsnorm", "use-fused-rmsnorm"), ("swiglu", "use-fused-swiglu"),
                               ("rope", "use-fused-rotary-pos-emb")):  # fmt: skip
            out.flag(GROUP, argument, fused is None or name in fused)
    elif unfused:
        out.add(GROUP, "attention-backend", "unfused")
    if software.deterministic:
        out.add(GROUP, "npu-deterministic" if out.ascend else "deterministic-mode")
    if software.loss.fused and not out.ascend:
        out.add(GROUP, "cross-entropy-loss-fusion")
    if software.loss.chunk and out.ascend:
        out.add(GROUP, "loss-compute-mode", "chunk")
        out.add(GROUP, "loss-chunk-size", software.loss.chunk)
    moe = software.moe
    if plan.model is not None and plan.model.moe is not None:
        dispatcher = moe.dispatcher or "alltoall"
        if dispatcher == "deepep":
            out.add(GROUP, "moe-token-dispatcher-type", "flex")
            out.add(GROUP, "moe-flex-dispatcher-backend", "deepep")
        else:
            out.add(GROUP, "moe-token-dispatcher-type", dispatcher)
        if moe.capacity_factor is not None:
            out.add(GROUP, "moe-expert-capacity-factor", moe.capacity_factor)


def _script(plan: PlanSpec, cluster: Cluster, out: LaunchArguments) -> str:
    count = "NPUS_PER_NODE" if out.ascend else "GPUS_PER_NODE"
    title = plan.name or (plan.model.name if plan.model else "plan")
    lines = ["#!/bin/bash", f"# {_one_line(title)} on {cluster.devices} devices of {_one_line(cluster.name)}"]
    lines += [f"# not expressed: {_one_line(text)}" for text in out.warnings]
    lines += ["", "export CUDA_DEVICE_MAX_CONNECTIONS=1"]
    if plan.memory.expandable_segments:
        name = "PYTORCH_NPU_ALLOC_CONF" if out.ascend else "PYTORCH_CUDA_ALLOC_CONF"
        lines.append(f"export {name}=expandable_segments:True")
    if plan.memory.communicator_buffer_mib and out.ascend:
        lines.append(f"export HCCL_BUFFSIZE={plan.memory.communicator_buffer_mib:.0f}")
    lines += [
        "", f"{count}={cluster.devices_per_node}", f"NNODES={cluster.nodes}", "NODE_RANK=${NODE_RANK:-0}",
        "MASTER_ADDR=${MASTER_ADDR:-localhost}", "MASTER_PORT=${MASTER_PORT:-6000}",
        'DATA_PATH="your data path"', 'TOKENIZER_PATH="your tokenizer path"', 'SAVE_PATH="your save path"', "",
        "DISTRIBUTED_ARGS=(", f"    --nproc_per_node ${count}", "    --nnodes $NNODES", "    --node_rank $NODE_RANK",
        "    --master_addr $MASTER_ADDR", "    --master_port $MASTER_PORT", ")", "",
    ]  # fmt: skip
    for group, words in out.groups.items():
        lines += [f"{group}=(", *(f"    {word}" for word in words), ")", ""]
    tokenizer = "--tokenizer-type PretrainedFromHF --tokenizer-name-or-path" if out.ascend else "--tokenizer-model"
    lines += [
        "DATA_ARGS=(", '    --data-path "$DATA_PATH"', f'    {tokenizer} "$TOKENIZER_PATH"', '    --save "$SAVE_PATH"',
        "    --split 100,0,0", ")", "",
        'torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \\',
        *(f'    "${{{group}[@]}}" \\' for group in out.groups), '    "${DATA_ARGS[@]}"', "",
    ]  # fmt: skip
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """Text that cannot leave its comment."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())

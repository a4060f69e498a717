"""`training:` what is trained, on how many tokens, in which number formats."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import Count, PositiveInt, PositiveNumber, refuse

Task = Literal["pretrain", "sft", "lora", "qlora", "dpo"]
Precision = Literal["bf16", "fp16", "fp32", "tf32", "fp8", "fp8_blockwise", "mxfp8", "hif8", "mxfp4", "nvfp4"]
GradientType = Literal["fp32", "bf16", "fp16"]
StateType = Literal["fp32", "bf16", "fp16", "fp8", "int8"]
OptimizerName = Literal["adam", "adamw", "lamb", "sgd", "momentum", "lion", "adafactor", "muon"]
AttentionMask = Literal["causal", "full", "document"]
LoraTarget = Literal[
    "all_linear", "attention", "mlp", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    "embed_tokens", "lm_head",
]  # fmt: skip


class OptimizerSpec(Section):
    """Optimizer: its name alone, or a mapping."""

    accepts: ClassVar = ("name",)

    name: OptimizerName | None = key("optimizer; default adamw")
    state_dtype: StateType | None = key("number format of the moments; default fp32")
    master_weights: StrictBool | None = key(
        "whether an fp32 copy of the weights is kept; default as the precision needs"
    )
    in_backward: StrictBool | None = key(
        "each gradient is applied and freed as soon as backward has it, so that no gradients are kept"
    )
    reuse_master_weights: StrictBool | None = key(
        "16-bit weights are the upper halves of the fp32 copy, which then adds 2 bytes per parameter instead of 4"
    )

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data


class LoraSpec(Section):
    """Low-rank adapters (for tasks lora and qlora): the rank alone, or a mapping."""

    accepts: ClassVar = ("rank",)

    rank: PositiveInt | None = key("rank r of the adapters")
    alpha: PositiveNumber | None = key("scaling numerator alpha; costs nothing")
    target_modules: tuple[LoraTarget, ...] | None = key("projections that get an adapter")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if isinstance(data, int | float | str):
            return {"rank": data}
        if isinstance(data, dict) and isinstance(data.get("target_modules"), str):
            return data | {"target_modules": [data["target_modules"]]}
        return data


class TrainingSpec(Section):
    """What is trained, on how much data, in which number formats."""

    task: Task | None = key("kind of training; default pretrain")
    tokens: Count | None = key("length of the run", unit="tokens")
    samples: Count | None = key("length of the run", unit="sequences or images")
    steps: Count | None = key("length of the run", unit="optimizer steps")
    epochs: PositiveNumber | None = key("length of the run; needs dataset_tokens or dataset_samples", unit="epochs")
    dataset_tokens: Count | None = key("size of the data set", unit="tokens")
    dataset_samples: Count | None = key("size of the data set", unit="sequences or images")
    sequence_length: PositiveInt | None = key("tokens of one sequence; padded or packed to this length", unit="tokens")
    global_batch_size: PositiveInt | None = key("sequences (or images) of one optimizer step", unit="sequences")
    precision: Precision | None = key("number format of the matrix products; default bf16")
    gradient_dtype: GradientType | None = key("number format gradients are accumulated and reduced in")
    optimizer: OptimizerSpec = section(OptimizerSpec, "optimizer")
    attention_mask: AttentionMask | None = key(
        "which keys a query sees; default causal for decoders, full for encoders"
    )
    mean_document_length: PositiveInt | None = key("mean length of a document in a packed sequence", unit="tokens")
    lora: LoraSpec | None = key("low-rank adapters")

    @classmethod
    def _contradictions(cls, data: dict[str, Any]) -> None:
        lengths = [k for k in ("tokens", "samples", "steps", "epochs") if data.get(k) is not None]
        if len(lengths) > 1:
            raise refuse(f"{' and '.join(lengths)} both state the length of the run", "one of them")
        sizes = [k for k in ("dataset_tokens", "dataset_samples") if data.get(k) is not None]
        if lengths == ["epochs"] and not sizes:
            raise refuse("epochs needs the size of the data set", "dataset_tokens or dataset_samples")
        if data.get("mean_document_length") is not None and data.get("attention_mask") not in (None, "document"):
            raise refuse("mean_document_length needs attention_mask: document", "attention_mask: document")
        if data.get("lora") is not None and data.get("task") not in (None, "lora", "qlora"):
            raise refuse(f"lora does not go with task: {data['task']}", "task: lora or task: qlora")

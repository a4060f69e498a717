"""`software:` the training stack: kernels, fusion, graph mode, loss and mixture-of-experts execution."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import AtLeastOne, Fraction, Name, PositiveInt, PositiveNumber

AttentionKernel = Literal[
    "flash", "unfused", "flash-v1", "flash-v2", "flash-v3", "cudnn", "sdpa", "ascend-fusion", "memory-efficient"
]
FusedOperator = Literal[
    "rmsnorm", "layernorm", "swiglu", "rope", "bias_gelu", "softmax", "dropout_add", "cross_entropy", "optimizer",
    "moe_permute", "moe_router", "grouped_gemm", "grad_accumulation", "mlp",
]  # fmt: skip
Dispatcher = Literal["allgather", "alltoall", "alltoall_seq", "deepep"]
OperatorLibraryKind = Literal["optimized", "generic"]
GraphMode = Literal["eager", "graph"]
LossKernel = Literal["te", "native", "liger"]
ZeroMemory = Literal["level0", "level1"]

ALL_FUSED: tuple[FusedOperator, ...] = FusedOperator.__args__  # type: ignore[attr-defined]


class OperatorLibrary(Section):
    """Operator library: its kind alone, or a mapping."""

    accepts: ClassVar = ("kind",)

    kind: OperatorLibraryKind | None = key("optimized: the vendor's tuned operators; generic: hand-written ones")
    coverage: Fraction | None = key("fraction of operators the optimised library has")
    fallback_slowdown: AtLeastOne | None = key("time of an operator outside the library over an optimised one")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"kind": data} if isinstance(data, str) else data


class LossSpec(Section):
    """Cross-entropy over the vocabulary."""

    fused: StrictBool | None = key("whether the loss is fused")
    kernel: LossKernel | None = key(
        "the fused loss: te (default; its gradient overwrites the logits), native (Megatron-Core's compiled one, which "
        "keeps fp32 copies) or liger (never holds all logits)"
    )
    chunk: PositiveInt | None = key("tokens whose logits exist at once; absent: all of the micro-batch", unit="tokens")


class MoeSpec(Section):
    """Execution of mixture-of-experts layers."""

    dispatcher: Dispatcher | None = key("how tokens reach their experts")
    capacity_factor: PositiveNumber | None = key("tokens an expert takes over the mean; absent: no token is dropped")
    imbalance: AtLeastOne | None = key("tokens of the busiest expert rank over the mean")
    zero_memory: ZeroMemory | None = key("MindSpeed's selective replay inside experts; level1 keeps less than level0")


class SoftwareSpec(Section):
    """The training stack."""

    accepts: ClassVar = ("stack",)

    stack: Name | None = key(
        "profile of the software stack, for example mindspeed or megatron (see presets list profiles)"
    )
    attention: AttentionKernel | None = key("attention kernel")
    fused: tuple[FusedOperator, ...] | None = key("fused operators: a list, all or none")
    op_library: OperatorLibrary = section(OperatorLibrary, "operator library")
    graph_mode: GraphMode | None = key("eager: operators are launched one by one; graph: as a whole")
    vocabulary_multiple: PositiveInt | None = key("the vocabulary is padded to this times the tensor degree")
    deterministic: StrictBool | None = key("deterministic kernels and collectives")
    launch_blocking: StrictBool | None = key("the host waits for every operator (debugging)")
    loss: LossSpec = section(LossSpec, "cross-entropy over the vocabulary")
    moe: MoeSpec = section(MoeSpec, "execution of mixture-of-experts layers")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"stack": data}
        if isinstance(data, dict):
            fused = data.get("fused")
            if fused in ("all", "none"):
                data = data | {"fused": list(ALL_FUSED) if fused == "all" else []}
            if isinstance(data.get("graph_mode"), bool):
                data = data | {"graph_mode": "graph" if data["graph_mode"] else "eager"}
        return data

"""`parallel:` the layout of a run over devices, and what it recomputes, offloads and overlaps."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import StrictBool

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import Fraction, NonNegativeInt, PositiveInt, Quantity, refuse
from cann_plan.units import Dimension

ContextKind = Literal["ring", "ulysses", "hybrid", "all_gather"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"]
RecomputePolicy = Literal["none", "selective", "full"]
RecomputeModule = Literal[
    "core_attention", "attention", "mla_up_proj", "mlp", "activation", "norm", "moe", "moe_activation",
    "shared_experts", "alternate_linear",
]  # fmt: skip
RecomputeMethod = Literal["uniform", "block"]
RecomputeScope = Literal["stage", "chunk"]
TensorOverlap = Literal["none", "bulk", "mc2", "coc"]
OffloadTarget = Literal["host", "nvme"]
OptimizerPlace = Literal["host", "device"]
RankAxis = Literal["tensor", "context", "expert", "data", "pipeline"]
GroupGenerator = Literal["folded", "nested"]
ZeroStage = Annotated[int, Quantity(Dimension.COUNT, whole=True, minimum=0, maximum=3)]

OffloadShare = Annotated[
    float | Literal["auto"],
    Quantity(Dimension.FRACTION, minimum=0, maximum=1, example="50%", words=("auto",)),
]

OFFLOADABLE = ("optimizer", "gradients", "activations", "parameters")


class LayerSplit(Section):
    """Layers of each pipeline stage: `even`, a list, or the counts of the first and last stage."""

    accepts: ClassVar = ("layers", {"const": "even"})

    layers: tuple[NonNegativeInt, ...] | None = key("layers of each stage (of each chunk when interleaved), in order")
    first: NonNegativeInt | None = key("layers of the first stage; the other stages share the rest evenly")
    last: NonNegativeInt | None = key("layers of the last stage; the other stages share the rest evenly")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if data == "even":
            return {}
        if isinstance(data, list | tuple):
            data = {"layers": data}
        elif isinstance(data, str):
            raise refuse(f"{data!r} is not a layer split", "even, a list of layers per stage, or {first, last}")
        return data

    @classmethod
    def _contradictions(cls, data: dict[str, Any]) -> None:
        if "layers" in data and ("first" in data or "last" in data):
            raise refuse("layers already states the first and last stage", "layers, or first and last")
        if data.get("layers") == []:
            raise refuse("an empty list of layers", "even or a list of layers per stage")

    @property
    def even(self) -> bool:
        """Whether all stages get the same number of layers."""
        return self.layers is None and self.first is None and self.last is None


class RecomputeSpec(Section):
    """Activations that are rebuilt in backward: the policy alone, a list of modules, or a mapping."""

    accepts: ClassVar = ("policy", "modules")

    policy: RecomputePolicy | None = key("none, selective (the listed modules) or full (whole layers)")
    modules: tuple[RecomputeModule, ...] | None = key("modules that are replayed; default core_attention")
    method: RecomputeMethod | None = key("uniform: groups of `layers`; block: the first `layers` of each scope")
    layers: NonNegativeInt | None = key("layers recomputed per scope (block), or group size (uniform)")
    scope: RecomputeScope | None = key("whether `layers` counts per pipeline stage or per virtual chunk")
    per_stage: tuple[NonNegativeInt, ...] | None = key("layers recomputed on each pipeline stage, in order")
    other_layers: tuple[RecomputeModule, ...] | None = key("modules replayed in the layers that `layers` leaves out")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"policy": data}
        if isinstance(data, list | tuple):
            data = {"modules": data}
        if not isinstance(data, dict):
            return data
        modules, policy = data.get("modules"), data.get("policy")
        if isinstance(modules, str):
            data = data | {"modules": [modules]}
        return data | {"policy": "selective"} if modules and policy is None else data

    @classmethod
    def _contradictions(cls, data: dict[str, Any]) -> None:
        modules, policy = data.get("modules"), data.get("policy")
        if modules and policy in ("none", "full"):
            raise refuse(f"modules does not go with policy: {policy}", "policy: selective")
        extent = [k for k in ("layers", "per_stage") if data.get(k) is not None]
        if policy == "none" and extent:
            raise refuse(f"{extent[0]} does not go with policy: none", "policy: full or selective")
        if len(extent) == 2:
            raise refuse("layers and per_stage both state how many layers are recomputed", "one of them")


class OffloadSpec(Section):
    """Fractions kept off the device: names alone (`offload: optimizer`), a list of names, or a mapping.

    `auto`: the smallest share with which the layout fits (`offload: auto` of the optimizer states).
    """

    accepts: ClassVar = (
        {"enum": [*OFFLOADABLE, "auto", "none", False]},
        {"type": "array", "items": {"enum": list(OFFLOADABLE)}},
    )

    optimizer: OffloadShare | None = key(
        "fraction of optimizer states kept off the device (true: all; auto: the least that fits)"
    )
    gradients: Fraction | None = key("fraction of gradients kept off the device (true: all)")
    activations: OffloadShare | None = key(
        "fraction of saved activations kept off the device (true: all; auto: the least that fits)"
    )
    parameters: Fraction | None = key("fraction of parameters kept off the device (true: all)")
    activation_modules: tuple[RecomputeModule, ...] | None = key("modules whose activations go; default all")
    target: OffloadTarget | None = key("where they go; default host memory")
    optimizer_step: OptimizerPlace | None = key(
        "where offloaded states are updated: host CPUs, or swapped to the device"
    )

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if data == "none" or data is False:
            return {}
        if data == "auto":
            return {"optimizer": "auto"}
        if isinstance(data, str):
            data = [data]
        if isinstance(data, list | tuple):
            unknown = [name for name in data if name not in OFFLOADABLE]
            if unknown:
                raise refuse(f"{unknown[0]!r} cannot be offloaded", ", ".join(OFFLOADABLE))
            return dict.fromkeys(data, 1.0)
        if isinstance(data, dict):
            return {k: float(v) if isinstance(v, bool) and k in OFFLOADABLE else v for k, v in data.items()}
        return data


class OverlapSpec(Section):
    """Communication hidden behind computation; `overlap: true|false` states all of them."""

    accepts: ClassVar = ({"type": "boolean"},)

    grad_reduce: StrictBool | None = key("reduce gradients bucket by bucket during backward")
    param_gather: StrictBool | None = key("gather sharded parameters ahead of their use")
    tensor: TensorOverlap | None = key(
        "tensor-parallel communication: none, bulk, or fused with the products (mc2, coc)"
    )
    p2p: StrictBool | None = key("send and receive between pipeline stages behind computation")
    expert: StrictBool | None = key("expert all-to-all behind the computation of other tokens")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if isinstance(data, bool):
            return {"grad_reduce": data, "param_gather": data, "p2p": data, "expert": data,
                    "tensor": "bulk" if data else "none"}  # fmt: skip
        if isinstance(data, dict) and isinstance(data.get("tensor"), bool):
            return data | {"tensor": "bulk" if data["tensor"] else "none"}
        return data


class ParallelSpec(Section):
    """One parallel layout. `parallel: auto` leaves it to the planner."""

    accepts: ClassVar = ({"const": "auto"},)

    tensor: PositiveInt | None = key("tensor-parallel degree")
    tensor_grid: tuple[PositiveInt, ...] | None = key("x and y degree of two-dimensional tensor parallelism")
    pipeline: PositiveInt | None = key("pipeline stages")
    data: PositiveInt | None = key("data-parallel degree; default devices / (tensor x pipeline x context)")
    context: PositiveInt | None = key("context-parallel degree: devices that share a sequence")
    context_kind: ContextKind | None = key("how attention is shared over context ranks")
    ulysses_degree: PositiveInt | None = key("ranks of the all-to-all part of a hybrid context group")
    expert: PositiveInt | None = key("expert-parallel degree")
    expert_tensor: PositiveInt | None = key("tensor-parallel degree inside experts; default tensor")
    virtual_pipeline: PositiveInt | None = key("chunks of layers per pipeline stage (interleaving)")
    schedule: Schedule | None = key("pipeline schedule")
    layer_split: LayerSplit = section(LayerSplit, "layers of each stage: even, a list, or {first, last}")
    micro_batch_size: PositiveInt | None = key(
        "sequences of one micro-batch on one data-parallel rank", unit="sequences"
    )
    sequence_parallel: StrictBool | None = key("shard norms and residuals over the tensor group")
    zero_stage: ZeroStage | None = key(
        "0 none; 1 shards optimizer states (distributed optimizer); 2 gradients; 3 weights"
    )
    shard_group: PositiveInt | None = key("devices over which ZeRO or FSDP shards; the rest replicates (HSDP)")
    recompute: RecomputeSpec = section(RecomputeSpec, "activations rebuilt in backward")
    offload: OffloadSpec = section(OffloadSpec, "what is kept off the device")
    overlap: OverlapSpec = section(OverlapSpec, "communication hidden behind computation")
    rank_order: tuple[RankAxis, ...] | None = key(
        "parallel axes from adjacent ranks outwards: a list or tensor-context-..."
    )
    group_generator: GroupGenerator | None = key(
        "folded: experts have their own rank grid; nested: inside data parallel"
    )

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        if data == "auto":
            return {}
        if not isinstance(data, dict):
            return data
        order = data.get("rank_order")
        if isinstance(order, str):
            data = data | {"rank_order": _rank_order(order)}
        return data

    @classmethod
    def _contradictions(cls, data: dict[str, Any]) -> None:
        order = data.get("rank_order")
        if isinstance(order, list) and len({str(axis) for axis in order}) != len(order):
            raise refuse("rank_order names an axis twice", "each axis once")

    @property
    def auto(self) -> bool:
        """Whether the document leaves the whole layout to the planner."""
        return not self.model_fields_set


def _rank_order(text: str) -> list[str]:
    """ "tp-cp-ep-dp-pp" (Megatron) or full names, joined by "-"."""
    short = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline"}
    return [short.get(part.strip(), part.strip()) for part in text.split("-")]

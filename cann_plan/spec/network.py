"""`network:` collective library, algorithm, routing and transport."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from cann_plan.spec.base import Section, key, section
from cann_plan.spec.quantity import AtLeastOne

Library = Literal["hccl", "nccl", "rccl", "ideal"]
Algorithm = Literal[
    "auto", "ring", "double_ring", "mesh", "one_shot", "halving_doubling", "recursive_doubling", "nhr", "nb",
    "pipeline", "pairwise", "bruck", "tree", "double_tree", "in_network", "hierarchical", "ahc",
]  # fmt: skip
Routing = Literal["minimal", "ecmp", "adaptive", "valiant", "ugal", "topology-aware"]
Transport = Literal["rdma", "tcp"]
CompressionKind = Literal["none", "bf16", "fp16", "fp8", "int8", "int4", "top_k"]
Placement = Literal["contiguous", "random", "scattered"]


class CompressionSpec(Section):
    """Compression of gradients on the wire: its kind alone, or a mapping."""

    accepts: ClassVar = ("kind",)

    kind: CompressionKind | None = key("number format on the wire, or top_k sparsification")
    ratio: AtLeastOne | None = key("bytes without compression over bytes with; default follows from kind")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"kind": data} if isinstance(data, str) else data


class NetworkSpec(Section):
    """Collective library, algorithm, routing and transport: the library alone, or a mapping."""

    accepts: ClassVar = ("library",)

    library: Library | None = key("collective library; default the cluster's own; ideal: no software time")
    algorithm: Algorithm | None = key("collective algorithm between servers; auto: the library's own selection rule")
    routing: Routing | None = key("how packets choose among equal or longer paths")
    transport: Transport | None = key("rdma: network cards read memory directly; tcp: copies through the kernel")
    compression: CompressionSpec = section(CompressionSpec, "compression of gradients on the wire")
    placement: Placement | None = key("how the nodes of the job lie in the cluster")

    @classmethod
    def _shorthand(cls, data: Any) -> Any:
        return {"library": data} if isinstance(data, str) else data

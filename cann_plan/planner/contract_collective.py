"""The JSON documents of `collective`: one message size, or a sweep over sizes."""

from typing import Literal, TypedDict


class CollectiveDocument(TypedDict):
    """`cann-plan collective`: time of one collective on a cluster. Bandwidths are null where nothing moves."""

    schema: Literal["cann-plan/collective/1"]
    op: str
    bytes: float
    ranks: int
    algorithm: str
    time_s: float
    algorithm_gb_per_s: float | None
    bus_gb_per_s: float | None
    lower_bound_s: float
    bottleneck: str


class CollectiveRow(TypedDict):
    """One message size of a sweep."""

    bytes: float
    algorithm: str
    time_s: float
    algorithm_gb_per_s: float | None
    bus_gb_per_s: float | None
    lower_bound_s: float
    bottleneck: str


class CollectiveSweepDocument(TypedDict):
    """`cann-plan collective --sweep`: one row per message size, as nccl-tests and hccl_test print them."""

    schema: Literal["cann-plan/collective-sweep/1"]
    op: str
    ranks: int
    stride: int
    rows: list[CollectiveRow]

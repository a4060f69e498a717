"""The JSON document of `compare-topologies`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from cann_plan.planner.contract_estimate import Assumption, Json


class HottestLink(TypedDict):
    """The link that holds a held layout's collectives up most.

    `pressure`: load over capacity while every endpoint sends at full rate; `slowdown` of the collective: 1 where no
    link slows it.
    """

    link: str
    collective: str | None
    pressure: float
    slowdown: float


class TopologyCollective(TypedDict):
    """One collective of the held layout, with its largest message."""

    ranks: int
    stride: int
    bytes: float
    time_s: float
    algorithm: str
    slowdown: float
    link: str
    pressure: float
    hops: int


class TopologyRow(TypedDict):
    """One network for the same plan, at equal injection bandwidth or cost.

    `training_days` belongs to `step_s`, the held layout. `cost` is the price of the network in `currency` of the
    document, `training_cost` that of the run. `step_s` is null where the held layout cannot be evaluated.
    """

    name: str
    shape: str
    endpoints: int
    planes: int
    diameter: int
    bisection_gb_per_s: float
    injection_gb_per_s: float
    switches: int
    switches_by_radix: dict[str, int]
    cables: int
    cables_by_kind: dict[str, int]
    cost: float | None
    cost_reason: str | None
    power_w: float | None
    power_reason: str | None
    routing: str
    hottest_link: HottestLink
    collectives: dict[str, TopologyCollective]
    step_s: float | None
    step_s_best_layout: float | None
    best_layout: dict[str, Json] | None
    training_days: float | None
    training_days_best_layout: float | None
    training_cost: float | None
    days_times_cost: float | None
    rank: int
    rank_best_layout: int
    why: str


class Flip(TypedDict):
    """Where another network becomes the better buy: `at` of `over` (injection_gb_per_s or devices)."""

    over: Literal["injection_gb_per_s", "devices"]
    at: float
    name: str
    text: str


class Buy(TypedDict):
    """The network to buy: the cheapest of those as fast as the fastest, within `tolerance` of the step time."""

    name: str
    tolerance: float
    why: str
    flips: list[Flip]
    checked: str


class OwnNetwork(TypedDict):
    """The network the plan's cluster comes with, for comparison."""

    name: str
    step_s: float | None


class TopologiesDocument(TypedDict):
    """`cann-plan compare-topologies`: which network for this plan, and why."""

    schema: Literal["cann-plan/compare-topologies/1"]
    equalised_on: str
    injection_gb_per_s: float
    scope: str
    placement: str
    currency: str
    price_table: str
    devices: int
    held_layout: dict[str, Json] | None
    own_network: OwnNetwork
    topologies: list[TopologyRow]
    buy: Buy | None
    assumptions: list[Assumption]
    skipped: NotRequired[list[dict[str, str]]]

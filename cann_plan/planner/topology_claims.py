"""What routing and the choice of topology bring: the figures behind statements about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from cann_plan.planner.choose import choose
from cann_plan.planner.compare_topologies import compare_topologies
from cann_plan.planner.contract_topologies import TopologiesDocument, TopologyRow
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.topology_network import fabric_for, own_table, scale_out, topology_table
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan

COMMUNICATION: Final = ("tensor_comm", "context_comm", "expert_comm", "pipeline_comm", "data_comm")
HIDDEN: Final = ("tensor", "context", "expert", "pipeline", "data")
CASES: Final = (("ecmp", "random"), ("ecmp", "compact"), ("minimal", "compact"), ("adaptive", "compact"),
                ("topology-aware", "random"), ("topology-aware", "compact"))  # fmt: skip
"""(routing, placement) from static hashing and scattered servers to the best of both."""


@dataclass(frozen=True, slots=True)
class RoutingCase:
    """A plan on one topology under one routing and placement.

    `communication_s`: seconds of communication per step, exposed and hidden, links inside servers included.
    `slowdown`: of the collective that links slow most.
    """

    topology: str
    routing: str
    placement: str
    step_s: float
    communication_s: float
    slowest_collective: str
    slowdown: float


def routing_cases(
    loaded: LoadedPlan, topology: str, cases: Sequence[tuple[str, str]] = CASES, queue_pairs: int = 1
) -> list[RoutingCase]:
    """The plan's layout (stated, or the best on the cluster's own network) under each routing and placement.

    Raises:
        SpecError, PlanError: as `choose` and `compare_topologies`.
    """
    from cann_plan.planner.compare_topologies_rows import collectives_of
    from cann_plan.planner.topology_recorder import Recorder

    chosen = choose(loaded)
    own = own_table(chosen.job)
    cut = scale_out(own.network, chosen.job.cluster.devices)
    fabric = replace(fabric_for(topology, cut), queue_pairs=queue_pairs)
    found = []
    for routing, placement in cases:
        table = topology_table(cut, fabric, own.options, routing=routing, placement=placement)
        recorder = Recorder(table)
        result = evaluate(replace(chosen.job.problem, communication=recorder), chosen.strategies)
        told = collectives_of(recorder, chosen.strategies)
        name, worst = max(told.items(), key=lambda item: item[1]["slowdown"], default=("none", None))
        found.append(
            RoutingCase(
                topology, routing, placement, float(result.step[0]), communication_seconds(result), name,
                worst["slowdown"] if worst is not None else 1.0,
            )
        )  # fmt: skip
    return found


def communication_seconds(result: Evaluation) -> float:
    """Seconds of communication of one step, exposed and hidden."""
    exposed = sum(float(result.breakdown[name][0]) for name in COMMUNICATION)
    return exposed + sum(float(result.overlapped[name][0]) for name in HIDDEN)


def gain(before: RoutingCase, after: RoutingCase) -> float:
    """Share of the communication time that is saved."""
    return 1.0 - after.communication_s / before.communication_s if before.communication_s > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether some topologies are the right choice for a plan.

    `behind`: how much slower the best of them is than the fastest network, each with its best layout; `cheaper`: its
    price over that of the cheapest network as fast as the fastest, minus one (negative: cheaper).
    """

    best: TopologyRow
    behind: float
    cheaper: float | None
    buy: str
    document: TopologiesDocument


def advice(loaded: LoadedPlan, advised: Sequence[str]) -> Advice:
    """Check the advice to take one of `advised` topologies for a plan, against the default set.

    Raises:
        SpecError, PlanError: as `compare_topologies`.
        ValueError: none of the advised topologies can run the plan.
    """
    from cann_plan.network.topology.catalogue import DEFAULT

    document = compare_topologies(loaded, tuple(dict.fromkeys((*DEFAULT, *advised))), flips=False)
    timed = [row for row in document["topologies"] if row["step_s_best_layout"] is not None]
    mine = [row for row in timed if row["name"] in advised]
    if not mine or document["buy"] is None:
        raise ValueError("none of the advised topologies can run the plan")
    best = min(mine, key=lambda row: row["step_s_best_layout"] or 0.0)
    fastest = min(row["step_s_best_layout"] or 0.0 for row in timed)
    bought = next(row for row in timed if document["buy"] is not None and row["name"] == document["buy"]["name"])
    cheaper = None
    if best["cost"] is not None and bought["cost"]:
        cheaper = best["cost"] / bought["cost"] - 1.0
    return Advice(best, (best["step_s_best_layout"] or 0.0) / fastest - 1.0, cheaper, bought["name"], document)

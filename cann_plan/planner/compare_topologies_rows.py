"""One network of a comparison: step with the layout held and re-optimised, parts, cost, hottest link, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.network.groups import Group
from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.price import NetworkPrices, Total, power_of, price_of
from cann_plan.network.topology.table import TopologyTable
from cann_plan.planner.contract_topologies import HottestLink, TopologyCollective, TopologyRow
from cann_plan.planner.evaluate import Evaluation, evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.topology_network import ScaleOut, own_table, topology_table
from cann_plan.planner.topology_recorder import Recorder
from cann_plan.planner.topology_search import Bounds, best_of
from cann_plan.planner.whole_run import DAY, cost_of, elapsed_seconds, evaluation_share, goodput_of
from cann_plan.records import dataclass

TIE: Final = 0.01
"""Step times within this fraction count as equal: below the error of any network model here."""


TERMS: Final = {
    "tensor_comm": "tensor", "context_comm": "context", "expert_comm": "expert", "pipeline_comm": "pipeline",
    "pipeline_bubble": "pipeline", "data_comm": "data",
}  # fmt: skip
"""Parts of a step and the purpose of the collectives that make them grow."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What all networks of a comparison share.

    `own`: the held layout on the cluster's own network.
    """

    job: Job
    own: Evaluation
    cut: ScaleOut
    strategies: Strategies
    bounded: Bounds
    prices: NetworkPrices
    routing: str | None
    placement: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One network: figures before ranking. `step` and `best` in seconds, None where nothing can be evaluated."""

    fabric: Fabric
    cut: ScaleOut
    table: TopologyTable
    routing: str
    step: float | None
    best: float | None
    best_layout: Strategies | None
    evaluation: Evaluation
    collectives: dict[str, TopologyCollective]
    hottest: HottestLink
    price: Total
    power: Total


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entries by held step and by best layout; equal steps (within `TIE`) by price."""

    by_step: list[Entry]
    by_best: list[Entry]


def entry_of(contest: Contest, fabric: Fabric, cut: ScaleOut) -> Entry:
    """Evaluate one network."""
    table = topology_table(
        cut, fabric, own_table(contest.job).options, routing=contest.routing, placement=contest.placement
    )
    recorder = Recorder(table)
    result = evaluate(replace(contest.job.problem, communication=recorder), contest.strategies)
    step = float(result.step[0])
    known = (step, contest.strategies) if bool(result.feasible[0]) else None
    best = best_of(table, contest.bounded, known)
    collectives = collectives_of(recorder, contest.strategies)
    injected = cut.level.bandwidth * cut.per_node
    return Entry(
        fabric, cut, table, table.routing, step if np.isfinite(step) else None, best[0] if best else None,
        best[1] if best else None, result, collectives, hottest_link(collectives, table, result, contest.own),
        price_of(fabric.parts, injected, contest.prices), power_of(fabric.parts, injected, contest.prices),
    )  # fmt: skip


def collectives_of(recorder: Recorder, strategies: Strategies) -> dict[str, TopologyCollective]:
    """What the layout asks the network for, by purpose."""
    found: dict[str, TopologyCollective] = {}
    for asked in recorder.collectives():
        group = asked.group
        told = recorder.table.explain(asked.operation, asked.nbytes, group)
        if told is None:
            continue
        purpose = _purpose(asked.operation, group, strategies)
        if purpose == "data" and not _used(asked.operation, strategies):
            continue
        name = f"{purpose} {asked.operation}"
        if name in found and found[name]["bytes"] >= asked.nbytes:
            continue
        found[name] = {
            "ranks": group.size * group.outer_size, "stride": group.stride, "bytes": asked.nbytes,
            "time_s": told.seconds, "algorithm": told.algorithm, "slowdown": told.slowdown, "link": told.link,
            "pressure": told.pressure, "hops": told.hops,
        }  # fmt: skip
    return found


def _used(operation: str, strategies: Strategies) -> bool:
    """Whether the gradient exchange of the layout's ZeRO stage is this operation; cost models ask for all of them."""
    sharded = int(strategies.zero_stage[0]) >= 1
    if operation == "all_reduce":
        return not sharded or int(strategies.shard_group[0]) > 0
    return sharded


def _purpose(operation: str, group: Group, strategies: Strategies) -> str:
    """Whose collective it is: tensor, expert, pipeline, context or data."""
    s = strategies
    if operation == "send_recv":
        return "pipeline"
    if operation == "all_to_all":
        return "expert" if int(s.expert[0]) > 1 else "context"
    if group.stride == 1 and group.size * group.outer_size == int(s.tensor[0]) > 1:
        return "tensor"
    return "data"


def hottest_link(
    collectives: dict[str, TopologyCollective], table: TopologyTable, result: Evaluation, base: Evaluation
) -> HottestLink:
    """The link of the collective that costs most against the cluster's own network; the busiest where none does.

    The part of the step that grows most names the purpose, the most slowed collective of that purpose the link.
    """
    if not collectives:
        uniform = table.fabric.topology.uniform.hottest
        return {"link": uniform.name, "collective": None, "pressure": uniform.pressure, "slowdown": 1.0}
    growth: dict[str, float] = {}
    for term, purpose in TERMS.items():
        more = float(result.breakdown[term][0] - base.breakdown[term][0])
        growth[purpose] = growth.get(purpose, 0.0) + more
    worst = max(growth, key=lambda purpose: growth[purpose])
    blamed = {name: item for name, item in collectives.items() if name.split(" ")[0] == worst}
    if not blamed or not growth[worst] > 1e-3 * float(base.step[0]):
        blamed = collectives
    name, found = max(blamed.items(), key=lambda item: (item[1]["slowdown"], item[1]["time_s"]))
    return {"link": found["link"], "collective": name, "pressure": found["pressure"], "slowdown": found["slowdown"]}


def order(entries: list[Entry]) -> Ranking:
    """Both rankings."""
    return Ranking(_ranked(entries, "step"), _ranked(entries, "best"))


def _ranked(entries: list[Entry], name: str) -> list[Entry]:
    """Fastest first; runs of steps within `TIE` of the fastest of the run are ordered by price."""

    def seconds(entry: Entry) -> float:
        value = getattr(entry, name)
        return float("inf") if value is None else float(value)

    left = sorted(entries, key=seconds)
    result: list[Entry] = []
    while left:
        limit = seconds(left[0]) * (1.0 + TIE)
        equal = [entry for entry in left if seconds(entry) <= limit]
        left = left[len(equal) :]
        equal.sort(key=lambda e: float("inf") if e.price.amount is None else rounded(e.price.amount))
        result += equal
    return result


def rounded(price: float) -> float:
    """A price to six digits, so that prices made equal count as equal."""
    return float(f"{price:.6g}")


def days_of(job: Job, step: float, evaluation: Evaluation) -> float | None:
    """Elapsed days of the whole run at `step` seconds per step."""
    passes = sum(float(evaluation.breakdown[name][0]) for name in ("forward", "backward", "recompute"))
    forward = float(evaluation.breakdown["forward"][0]) / passes if passes else 0.0
    share = goodput_of(job) / (1.0 + evaluation_share(job, forward))
    steps = job.tokens / (float(job.sequence_length) * job.global_batch_size)
    elapsed = elapsed_seconds(steps * step, share, float(job.plan.run.warmup_s or 0.0))
    return None if elapsed is None else elapsed / DAY


def row_of(contest: Contest, entry: Entry, ranking: Ranking) -> TopologyRow:
    """The row of the document."""
    job, fabric, topology = contest.job, entry.fabric, entry.fabric.topology
    days = days_of(job, entry.step, entry.evaluation) if entry.step is not None else None
    best_days = days_of(job, entry.best, entry.evaluation) if entry.best is not None else None
    run = cost_of(job, days * DAY) if days is not None else {"amount": None}
    injected = entry.cut.level.bandwidth
    kinds: dict[str, int] = {}
    for cables in fabric.parts.cables:
        kinds[cables.kind] = kinds.get(cables.kind, 0) + cables.count
    layout: dict[str, Any] | None = None
    if entry.best_layout is not None:
        layout = {
            name: int(getattr(entry.best_layout, name)[0])
            for name in ("tensor", "pipeline", "data", "context", "expert", "virtual", "micro_batch_size", "zero_stage",
                         "rank_order")
        }  # fmt: skip
    return {
        "name": fabric.name,
        "shape": fabric.summary,
        "endpoints": fabric.endpoints,
        "planes": fabric.planes,
        "diameter": topology.diameter,
        "bisection_gb_per_s": fabric.bisection * injected / 1e9,
        "injection_gb_per_s": injected / 1e9,
        "switches": fabric.parts.switch_count,
        "switches_by_radix": {str(radix): count for radix, count in sorted(fabric.parts.switches.items())},
        "cables": fabric.parts.cable_count,
        "cables_by_kind": kinds,
        "cost": entry.price.amount,
        "cost_reason": entry.price.reason,
        "power_w": entry.power.amount,
        "power_reason": entry.power.reason,
        "routing": entry.routing,
        "hottest_link": entry.hottest,
        "collectives": entry.collectives,
        "step_s": entry.step,
        "step_s_best_layout": entry.best,
        "best_layout": layout,
        "training_days": days,
        "training_days_best_layout": best_days,
        "training_cost": run["amount"],
        "days_times_cost": days * entry.price.amount if days is not None and entry.price.amount is not None else None,
        "rank": ranking.by_step.index(entry) + 1,
        "rank_best_layout": ranking.by_best.index(entry) + 1,
        "why": why_of(entry, ranking),
    }


def why_of(entry: Entry, ranking: Ranking) -> str:
    """One sentence: how far behind and which link is to blame."""
    first = min((e.step for e in ranking.by_step if e.step is not None), default=None)
    if entry.step is None or first is None:
        return "the held layout cannot be evaluated on it"
    behind = entry.step / first - 1.0
    hot = entry.hottest
    if behind <= TIE:
        text = "as fast as any"
        text += f", although {_slows(hot)}" if hot["slowdown"] > 1.0 + 1e-9 else ": no link slows its collectives"
    else:
        text = f"{behind:.0%} slower than the fastest" if behind >= 0.1 else f"{behind:.1%} slower than the fastest"
        text += f": {_slows(hot)}"
    best, fastest = entry.best, min((e.best for e in ranking.by_best if e.best is not None), default=None)
    if best is not None and fastest is not None and behind > TIE:
        gap = best / fastest - 1.0
        if gap <= TIE:
            text += "; another layout makes up for it"
        elif best < entry.step * (1.0 - TIE):
            text += f"; another layout leaves {gap:.1%}"
    return text


def _slows(hot: HottestLink) -> str:
    """What the hottest link does to its collective."""
    if hot["collective"] is None:
        return "more links per message"
    collective = hot["collective"].replace("_", "-").replace("send-recv", "send")
    if hot["slowdown"] < 1.05:
        return f"the {collective} takes more steps"
    verb = "slow" if hot["link"].endswith("s") else "slows"
    return f"the {hot['link']} {verb} the {collective} {hot['slowdown']:.1f} times"

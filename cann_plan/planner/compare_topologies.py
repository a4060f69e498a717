"""`compare-topologies`: one plan on many scale-out networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.network.topology.catalogue import DEFAULT
from cann_plan.network.topology.price import NetworkPrices, load_prices, price_of
from cann_plan.network.topology.routing import DESCRIPTIONS, routing_name
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.choose import choose
from cann_plan.planner.compare_topologies_buy import buy_of
from cann_plan.planner.compare_topologies_rows import Contest, Entry, entry_of, order, row_of
from cann_plan.planner.contract_topologies import TopologiesDocument
from cann_plan.planner.estimate import parallel_section
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.planner.topology_network import ScaleOut, fabric_for, own_table, scale_out, topology_table
from cann_plan.planner.topology_search import Bounds, best_of, bounds, layout_space
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan

SCHEMA: Final = "cann-plan/compare-topologies/1"
EQUALISED: Final = ("injection", "cost")
REFERENCE: Final = "fat-tree"
"""Whose price the others get at equal cost: the non-blocking fat tree at the cluster's own injection."""
SCOPE: Final = "replaces the network between servers only; links inside a server stay"
LAYOUT_KEYS: Final = ("overlap", "rank_order", "group_generator", "offload")
"""Keys of `parallel` that a re-optimised layout keeps."""

Step = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Held:
    """A job, the layout that is held, and all feasible layouts with their lower bounds."""

    job: Job
    strategies: Strategies
    bounded: Bounds


def compare_topologies(
    loaded: LoadedPlan,
    topologies: Sequence[str | Mapping[str, Any]] = DEFAULT,
    *,
    equal: str = "injection",
    routing: str | None = None,
    placement: str = "compact",
    prices: str | None = None,
    injection: float | None = None,
    flips: bool = True,
    on_progress: Step | None = None,
) -> TopologiesDocument:
    """Evaluate a plan on each topology with its layout held and with the layout re-optimised.

    `topologies`: names, descriptions or files; `equal`: injection (every device injects what it does in the plan's
    cluster, or `injection` bytes/s) or cost (injection scaled so that every network costs what a non-blocking fat tree
    does); `prices`: a table of prices; `flips`: look for the size and bandwidth at which the answer changes.

    Raises:
        SpecError: located problems of the plan or the price table.
        PlanError: an unknown topology, routing or placement, or a network that cannot be replaced.
    """
    if equal not in EQUALISED:
        raise PlanError("--equal", f"unknown basis {equal!r}", ", ".join(EQUALISED))
    if routing is not None:
        try:
            routing = routing_name(routing)
        except ValueError as error:
            raise PlanError("--routing", str(error).partition(";")[0], ", ".join(DESCRIPTIONS)) from error
    table = load_prices(prices)
    job, stated = _job(loaded)
    cut = scale_out(own_table(job).network, job.cluster.devices)
    if injection is not None:
        cut = cut.with_injection(injection)
    held = _held(loaded, job, stated, cut, routing, placement)
    own = evaluate(held.job.problem, held.strategies)
    contest = Contest(held.job, own, cut, held.strategies, held.bounded, table, routing, placement)
    entries: list[Entry] = []
    skipped: list[dict[str, str]] = []
    total = len(topologies)
    reference = _reference(cut, table) if equal == "cost" else None
    for place, what in enumerate(topologies):
        if on_progress is not None:
            on_progress(place, total)
        try:
            fabric = fabric_for(what, cut)
        except PlanError as error:
            if total == 1 or "unknown" in error.message or "file" in error.message:
                raise
            skipped.append({"name": str(what), "why": error.message})
            continue
        entries.append(entry_of(contest, fabric, _scaled(cut, fabric.parts, table, reference, str(what))))
    if not entries:
        raise PlanError("--topologies", f"none of them can be built: {skipped[0]['why']}" if skipped else "none named")
    if on_progress is not None:
        on_progress(total, total)
    ranked = order(entries)
    rows = [row_of(contest, entry, ranked) for entry in ranked.by_step]
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "equalised_on": "injection bandwidth" if equal == "injection" else "network cost",
        "injection_gb_per_s": cut.level.bandwidth / 1e9,
        "scope": SCOPE,
        "placement": placement,
        "currency": table.currency,
        "price_table": table.name,
        "devices": job.cluster.devices,
        "held_layout": parallel_section(held.job, held.strategies),
        "own_network": {"name": cut.level.name, "step_s": float(own.step[0]) if np.isfinite(own.step[0]) else None},
        "topologies": rows,
        "buy": buy_of(contest, ranked, flips=flips and equal == "injection"),
        "assumptions": [*held.job.assumptions.items, *_assumptions(contest, entries, equal)],
    }
    if skipped:
        body["skipped"] = skipped
    return cast(TopologiesDocument, body)


def _job(loaded: LoadedPlan) -> tuple[Job, Strategies | None]:
    """The job on its servers and its stated layout, if it states one."""
    if not loaded.hardware.nodes_stated:
        found = choose(loaded)
        return found.job, found.strategies
    job = prepare(loaded)
    if job.strategies is not None:
        return job, choose(loaded).strategies
    return job, None


def _held(
    loaded: LoadedPlan, job: Job, stated: Strategies | None, cut: ScaleOut, routing: str | None, placement: str
) -> Held:
    """The stated layout, or the best one on the cluster's own network."""
    free, open_plan = job, loaded
    if stated is not None and job.strategies is not None:
        kept = {key: value for key in LAYOUT_KEYS if (value := loaded.root.plain()["parallel"].get(key)) is not None}
        open_plan = loaded.override({"parallel": kept})
        free = prepare(open_plan, job.cluster)
    own = own_table(job)
    anything = topology_table(cut, fabric_for("switch", cut), own.options)
    bounded = bounds(layout_space(open_plan, free.problem), anything)
    if stated is not None:
        return Held(job, stated, bounded)
    # what `estimate` looks at: pipeline stages outermost
    best = best_of(own, bounded.only(bounded.strategies.rank_order == 0))
    if best is None:
        found = choose(loaded)
        return Held(found.job, found.strategies, bounded)
    note = f"fastest of {bounded.least.shape[0]} layouts that fit, on the cluster's own network"
    job.assumptions.add("parallel", "auto", note)
    return Held(replace(job, problem=bounded.problem), best[1], bounded)


def _reference(cut: ScaleOut, prices: NetworkPrices) -> float:
    """What the reference network costs."""
    total = price_of(fabric_for(REFERENCE, cut).parts, cut.level.bandwidth * cut.per_node, prices)
    if total.amount is None:
        raise PlanError("--equal", f"cost cannot be equal: {total.reason}", "a complete price table")
    return total.amount


def _scaled(cut: ScaleOut, parts: Any, prices: NetworkPrices, reference: float | None, name: str) -> ScaleOut:
    """The injection at which a network costs what the reference does; unchanged without a reference."""
    if reference is None:
        return cut
    total = price_of(parts, cut.level.bandwidth * cut.per_node, prices)
    if not total.amount:
        raise PlanError("--equal", f"cost of {name} is unknown: {total.reason}", "a complete price table")
    return cut.with_injection(cut.level.bandwidth * reference / total.amount)


def _assumptions(contest: Contest, entries: list[Entry], equal: str) -> list[dict[str, Any]]:
    cut = contest.cut
    level = f"{cut.level.latency * 1e6:g} us for the first hop, 0.5 us for each further switch or forwarding server"
    efficiency = cut.level.efficiency
    items: list[dict[str, Any]] = [
        {"path": "topology.latency", "value": level, "source": "cluster; EDR and HDR switches 0.5 to 0.6 us"},
        {
            "path": "topology.efficiency",
            "value": efficiency,
            "source": f"cluster level {cut.level.name}: share of the line rate, the same on every network",
        },
        {
            "path": "topology.collectives",
            "value": "rail by rail, all groups at once; where links slow the library's algorithm down, the fastest of "
            "its algorithms, direct exchange and, on direct networks, rings or meshes along all axes at once",
            "source": "cann-plan",
        },
    ]
    used = dict.fromkeys(entry.routing for entry in entries)
    items += [{"path": "topology.routing", "value": name, "source": DESCRIPTIONS[name]} for name in used]
    if equal == "cost":
        text = "price per GB/s, so bandwidth follows cost in proportion"
        items.append({"path": "topology.cost", "value": text, "source": f"price table {contest.prices.name}"})
    items += [
        {"path": f"topology.{entry.fabric.name}", "value": entry.fabric.note, "source": "catalogue"}
        for entry in entries
        if entry.fabric.note
    ]
    return items

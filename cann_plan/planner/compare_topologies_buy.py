"""Which network to buy, why, and at which size or bandwidth another one becomes the better buy."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cann_plan.cost.strategies import Strategies
from cann_plan.network.topology.fabric import Fabric
from cann_plan.network.topology.price import price_of
from cann_plan.network.topology.table import TopologyTable
from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.compare_topologies_rows import TIE, Contest, Entry, Ranking, rounded
from cann_plan.planner.contract_topologies import Buy, Flip
from cann_plan.planner.evaluate import evaluate
from cann_plan.planner.topology_network import ScaleOut, fabric_for, own_table, topology_table
from cann_plan.records import dataclass

BANDWIDTHS: Final = (0.5, 0.25, 2.0)
"""Injection tried for a flip, as a fraction of the comparison's."""
SIZES: Final = (4, 16)
"""Device counts tried for a flip, as multiples: data parallelism and batch grow along."""
MOST_DEVICES: Final = 131072
CONTENDERS: Final = 4
"""Networks tried beside the one to buy: the next cheapest and the fastest."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One network at another size or bandwidth."""

    name: str
    step: float
    price: float


def buy_of(contest: Contest, ranking: Ranking, *, flips: bool) -> Buy | None:
    """The cheapest network whose best layout is within `TIE` of the fastest; by parts where prices are unknown."""
    timed = [entry for entry in ranking.by_best if entry.best is not None]
    if not timed:
        return None
    chosen = _choose([(entry, float(entry.best or 0.0), _worth(entry)) for entry in timed])
    found: list[Flip] = []
    checked = ""
    if flips and len(timed) > 1:
        found, checked = _flips(contest, timed, chosen)
    return {
        "name": chosen.fabric.name, "tolerance": TIE, "why": _why(timed, chosen), "flips": found, "checked": checked,
    }  # fmt: skip


def _worth(entry: Entry) -> float:
    """Price, or ports and cables where prices are unknown."""
    if entry.price.amount is not None:
        return rounded(entry.price.amount)
    return float(entry.fabric.parts.switch_ports + entry.fabric.parts.cable_count)


def _choose(options: list[tuple[Entry, float, float]]) -> Entry:
    fastest = min(step for _, step, _ in options)
    equal = [item for item in options if item[1] <= fastest * (1.0 + TIE)]
    return min(equal, key=lambda item: (item[2], item[1]))[0]


def _why(timed: list[Entry], chosen: Entry) -> str:
    """Why it wins: as fast as which, cheaper by how much, and what the cheaper ones lose."""
    fastest = min(float(entry.best or 0.0) for entry in timed)
    equal = [e for e in timed if e is not chosen and float(e.best or 0.0) <= fastest * (1.0 + TIE)]
    priced = chosen.price.amount is not None
    text = "no other network is as fast with its best layout"
    if equal:
        dearest = max(equal, key=_worth)
        saving = 1.0 - _worth(chosen) / _worth(dearest) if _worth(dearest) else 0.0
        others = f"{len(equal)} other network{'s' if len(equal) > 1 else ''}"
        what = "of the price" if priced else "of the ports and cables"
        text = f"within {TIE:.0%} of the fastest step, as {others} are"
        if saving > 0.005:
            text += f", for {1.0 - saving:.0%} {what} of {dearest.fabric.name}"
        text = text.replace(", as 1 other network are", ", as 1 other network is")
    cheaper = [e for e in timed if _worth(e) < _worth(chosen)]
    if cheaper:
        near = min(cheaper, key=lambda e: float(e.best or 0.0))
        loss = float(near.best or 0.0) / fastest - 1.0
        text += f"; the best of the cheaper ones, {near.fabric.name}, is {loss:.1%} slower ({_blame(near)})"
    return text


def _blame(entry: Entry) -> str:
    hot = entry.hottest
    if hot["collective"] is not None and hot["slowdown"] >= 1.05:
        return f"{hot['link']}, {hot['slowdown']:.1f} times its load"
    return "more steps per collective"


def _flips(contest: Contest, timed: list[Entry], chosen: Entry) -> tuple[list[Flip], str]:
    """Bandwidths and sizes at which another network is the better buy, all with the layout best on the one to buy."""
    layout = chosen.best_layout
    if layout is None:
        return [], ""
    rivals = sorted((e for e in timed if e is not chosen), key=_worth)[: CONTENDERS - 1]
    fastest = min((e for e in timed if e.step is not None), key=lambda e: float(e.step or 0.0), default=None)
    tried = [chosen, *rivals]
    if fastest is not None and fastest not in tried:
        tried.append(fastest)
    now = chosen.fabric.name
    flips: list[Flip] = []
    own = contest.cut.level.bandwidth
    for factor in BANDWIDTHS:
        cut = contest.cut.with_injection(own * factor)
        options = [
            _try(contest, layout, entry.fabric, cut, 1, entry.table.at_bandwidth(own * factor)) for entry in tried
        ]
        winner = _winner([option for option in options if option is not None])
        if winner is not None and winner != now:
            rate = own * factor / 1e9
            flips.append({"over": "injection_gb_per_s", "at": rate, "name": winner,
                          "text": f"at {rate:g} GB/s per device {winner}"})  # fmt: skip
            break
    devices = contest.job.cluster.devices
    sizes = [size for size in SIZES if devices * size <= MOST_DEVICES]
    for size in sizes:
        cut = replace(contest.cut, nodes=contest.cut.nodes * size)
        options = []
        for entry in tried:
            try:
                fabric = fabric_for(entry.fabric.name, cut)
            except PlanError:
                continue
            options.append(_try(contest, layout, fabric, cut, size))
        winner = _winner([option for option in options if option is not None])
        if winner is not None and winner != now:
            flips.append({"over": "devices", "at": float(devices * size), "name": winner,
                          "text": f"at {devices * size:,} devices {winner}"})  # fmt: skip
            break
    rates = f"{min(BANDWIDTHS) * own / 1e9:g} to {max(BANDWIDTHS) * own / 1e9:g} GB/s per device"
    reach = f", up to {devices * max(sizes):,} devices" if sizes else ""
    names = ", ".join(entry.fabric.name for entry in tried)
    return flips, f"{names} with one layout at {rates}{reach}"


def _try(
    contest: Contest,
    strategies: Strategies,
    fabric: Fabric,
    cut: ScaleOut,
    size: int,
    table: TopologyTable | None = None,
) -> Tried | None:
    """One network with a layout, `size` times as many devices by data parallelism and batch."""
    problem = contest.bounded.problem
    if table is None:
        table = topology_table(
            cut, fabric, own_table(contest.job).options,
            routing=contest.routing, placement=contest.placement,
        )  # fmt: skip
    if size > 1:
        strategies = replace(strategies, data=strategies.data * size)
        problem = replace(problem, devices=problem.devices * size, global_batch_size=problem.global_batch_size * size)
    step = float(evaluate(replace(problem, communication=table), strategies).step[0])
    if not np.isfinite(step):
        return None
    total = price_of(fabric.parts, cut.level.bandwidth * cut.per_node, contest.prices)
    worth = None if total.amount is None else rounded(total.amount)
    if worth is None:
        worth = float(fabric.parts.switch_ports + fabric.parts.cable_count)
    return Tried(fabric.name, step, worth)


def _winner(options: list[Tried]) -> str | None:
    """The cheapest within `TIE` of the fastest."""
    if not options:
        return None
    fastest = min(option.step for option in options)
    return min((o for o in options if o.step <= fastest * (1.0 + TIE)), key=lambda o: (o.price, o.step)).name

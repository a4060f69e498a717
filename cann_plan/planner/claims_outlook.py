"""Claims on what is to come: less energy, devices nobody has built."""

from __future__ import annotations

from typing import Final

from cann_plan.planner.claim import Case, Changes, Claim, communication_share, figure

LIQUID: Final[Changes] = {"economics.pue": 1.111}
"""Huawei Smart Modular Data Centre, annual PUE in test (digitalinfranetwork.com)."""
PERFECT: Final[Changes] = {"economics.pue": 1.0}
ORDER_OF_MAGNITUDE: Final = 10.0


def energy() -> Claim:
    """Liquid cooling and memory technology: training energy down by an order of magnitude."""
    case = Case("claim-energy")
    base, liquid, perfect = (case.estimate(changes)["energy"]["kwh"] or 0.0 for changes in ({}, LIQUID, PERFECT))
    ratio = base / liquid
    share = ratio / ORDER_OF_MAGNITUDE
    return Claim(
        "energy",
        ORDER_OF_MAGNITUDE,
        ratio,
        "energy before over energy after",
        "reached" if ratio >= ORDER_OF_MAGNITUDE else "not_reachable",
        f"the facility takes {base / perfect - 1.0:.0%} on top of the equipment: liquid cooling saves a factor of "
        f"{ratio:.2f}, cooling without any energy would save {base / perfect:.2f}. The rest of a factor of ten needs "
        f"equipment that takes {share:.0%} of today's energy for the same work: devices and memory, not cooling",
        case.plan,
        ("facility at a PUE of 1.55 (average of large Chinese data centres) to 1.111",),
        (
            figure("energy, PUE 1.55", base, "kWh"),
            figure("energy, PUE 1.111", liquid, "kWh", LIQUID),
            figure("energy, cooling free", perfect, "kWh", PERFECT),
        ),
    )


def super_hetero() -> Claim:
    """Future devices join the same plan."""
    case = Case("claim-super-hetero")
    today: Changes = {"cluster": {"extends": "atlas-900-a2", "nodes": case.loaded.hardware.nodes}}
    now, then = case.estimate(today), case.estimate()
    ratio = now["time"]["step_s"] / then["time"]["step_s"]
    return Claim(
        "super-hetero",
        None,
        ratio,
        "speed over Ascend 910B with RoCE",
        "reached_if",
        f"a made-up accelerator with ten times the matrix rate behind made-up optical links makes the step {ratio:.2f} "
        "times as fast: memory bandwidth and the links inside the server are then what holds it back. Anything with "
        "rates for matrix products, memory and links is a device; a quantum processor has none of these",
        case.plan,
        ("the device's and the link's rates are made up", "operator efficiencies are inherited from the Ascend 910B",
         "one kind of device per plan"),
        (
            figure("step, Ascend 910B", now["time"]["step_s"], "s", today),
            figure("step, made-up device and link", then["time"]["step_s"], "s"),
            figure("communication share, made-up device and link", communication_share(then), "fraction"),
        ),
    )  # fmt: skip

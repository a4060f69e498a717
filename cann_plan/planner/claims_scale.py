"""Claims on scale: how many devices, how communication grows, what memory a model takes, one trillion parameters."""

from __future__ import annotations

from math import log
from typing import Final

from cann_plan.planner.claim import (
    COMMUNICATION,
    Case,
    Changes,
    Claim,
    communication_share,
    figure,
    part_seconds,
    replica_bytes,
)
from cann_plan.planner.collective import collective
from cann_plan.planner.communication import network_of
from cann_plan.planner.size import size

TENS_OF_THOUSANDS: Final = 10_000
CLAIMED_SHARE: Final = 0.3
LINEAR: Final = 1.0
SMALL: Final = 65536.0
"""Bytes of a message that is all start-up time."""
LARGE_BUDGET: Final[Changes] = {"training.tokens": 15.6e12, "limits.goodput_days": 90}
"""Tokens of Llama 3.1 405B (arXiv 2407.21783) in a quarter of a year."""


def scale_need() -> Claim:
    """A model of 100B parameters needs tens of thousands of devices for long."""
    case = Case("claim-scale-need")
    month = size(case.loaded)["devices"]
    quarter = size(case.variant(LARGE_BUDGET))["devices"]
    enough = quarter is not None and quarter >= TENS_OF_THOUSANDS
    return Claim(
        "scale-need",
        "tens of thousands",
        quarter,
        "devices",
        "reached_if" if enough else "not_reachable",
        f"15.6e12 tokens, the budget of Llama 3.1, in 90 days take {quarter} A100; GPT-3's 300 billion in a month take "
        f"{month}",
        case.plan,
        ("15.6e12 tokens in 90 days", "sizes tried are powers of two and one and a half times them"),
        (
            figure("300e9 tokens in 30 days", month, "devices"),
            figure("15.6e12 tokens in 90 days", quarter, "devices", LARGE_BUDGET),
        ),
    )


def comm_growth() -> Claim:
    """Communication grows exponentially with the cluster."""
    case = Case("claim-comm-growth")
    nodes, batch = case.loaded.hardware.nodes, case.loaded.spec.training.global_batch_size or 1
    few, many = nodes * 16, nodes * 128
    weak: list[Changes] = [
        {"cluster.nodes": count, "training.global_batch_size": batch * count // nodes} for count in (few, many)
    ]
    same: Changes = {"cluster.nodes": nodes * 64}
    steps = [part_seconds(case.estimate(changes), COMMUNICATION) for changes in weak]
    exchanges = [part_seconds(case.estimate(changes), ("data_comm",)) for changes in weak]
    stride = case.loaded.hardware.devices_per_node
    network = network_of(case.loaded.hardware.with_nodes(many))
    rings = [collective("all-reduce", SMALL, network, count, "ring", stride)["time_s"] for count in (few, many)]
    powers = {
        "communication of a step": _power(few, many, steps),
        "exchange of gradients": _power(few, many, exchanges),
        "all-reduce of 64 KiB by a ring": _power(few, many, rings),
    }
    steepest = max(powers.values())
    return Claim(
        "comm-growth",
        "exponential",
        steepest,
        "power of the number of servers",
        "reached" if steepest > LINEAR else "not_reachable",
        f"with the same work on every device communication of a step grows from {few} to {many} servers as their "
        f"number to the power {powers['communication of a step']:.3f}: a rank sends (p-1)/p of its "
        f"gradients whatever p is. The worst case, small messages round one ring, is linear ({steepest:.2f}). "
        "What does grow is its share of the step, when one batch is spread over more devices",
        case.plan,
        ("a non-blocking network: hot links of an oversubscribed one come on top",),
        (
            *(figure(f"power, {name}", power, "power", weak[-1]) for name, power in powers.items()),
            figure(f"communication, {few} servers", steps[0], "s/step", weak[0]),
            figure(f"communication, {many} servers, same work each", steps[1], "s/step", weak[1]),
            figure(f"share of the step, {nodes} servers", communication_share(case.estimate()), "fraction"),
            figure(f"share of the step, {nodes * 64} servers on the same batch",
                   communication_share(case.estimate(same)), "fraction", same),
        ),
    )  # fmt: skip


def _power(few: int, many: int, seconds: list[float]) -> float:
    """Exponent of the power law through the times at two sizes."""
    return log(seconds[1] / seconds[0]) / log(many / few)


def model_memory() -> Claim:
    """A model of 100B parameters takes hundreds of GB."""
    case = Case("claim-model-memory")
    document = case.estimate()
    sizes = {part: replica_bytes(document, part) / 1e9 for part in ("weights", "gradients", "optimizer")}
    states = sum(sizes.values())
    weights = sizes["weights"]
    return Claim(
        "model-memory",
        "hundreds of GB",
        weights,
        "GB",
        "reached_if" if 100 <= weights < 1000 else "not_reachable",
        f"the weights alone are {weights:.0f} GB in bf16; training adds gradients and optimizer states to "
        f"{states:.0f} GB, before any activation",
        case.plan,
        ("one copy, nothing sharded over data parallel", "memory means the weights (inference, or the model file)"),
        (*(figure(part, value, "GB") for part, value in sizes.items()), figure("training states", states, "GB")),
    )


def comm_share() -> Claim:
    """Communication can take 30% of a step on large clusters."""
    case = Case("claim-comm-share")
    figures = []
    for nodes in (32, 128, 512):
        changes = {"cluster.nodes": nodes}
        share = communication_share(case.estimate(changes))
        figures.append(figure(f"{nodes * 8} devices, same batch", share, "fraction", changes))
    share = communication_share(case.estimate())
    return Claim(
        "comm-share",
        CLAIMED_SHARE,
        share,
        "fraction of the step",
        "reached" if share >= CLAIMED_SHARE else "not_reachable",
        "exposed communication on the critical stage; most of it is the all-reduce of tensor parallelism inside the "
        "server, what grows with the cluster is the exchange of gradients",
        case.plan,
        ("tensor parallel over all eight devices of a server, tensor communication not overlapped",
         "a batch of 4 Mi tokens on 4,096 devices"),
        tuple(figures),
    )  # fmt: skip


def trillion() -> Claim:
    """One trillion parameters on more than ten thousand devices."""
    case = Case("claim-trillion")
    document = case.estimate()
    parameters, devices = document["parameters"]["total"], document["parallel"]["devices"]
    memory, time = document["memory"], document["time"]
    works = parameters >= 1e12 and devices >= TENS_OF_THOUSANDS and memory["fits"]
    return Claim(
        "trillion",
        1.0,
        parameters / 1e12,
        "10^12 parameters",
        "reached" if works else "not_reachable",
        f"{parameters / 1e12:.2f}e12 parameters on {devices:,} devices: {memory['peak_gib']:.0f} of "
        f"{memory['visible_gib']:.0f} GiB, MFU {time['mfu']:.0%}",
        case.plan,
        ("a non-blocking network between all servers",),
        (
            figure("devices", devices, "devices"),
            figure("peak device memory", memory["peak_gib"], "GiB"),
            figure("model FLOPs utilisation", time["mfu"], "fraction"),
            figure("450e9 tokens with stops", time["goodput_days"], "days"),
        ),
    )

"""Claims on memory: fused operators with recomputation, activation checkpointing."""

from __future__ import annotations

from typing import Final

from cann_plan.planner.claim import (
    COMPUTE,
    Case,
    Changes,
    Claim,
    all_devices_bytes,
    figure,
    part_seconds,
    replica_bytes,
)

UNFUSED: Final[Changes] = {"software.attention": "unfused", "software.fused": "none"}
KEEP_ALL: Final[Changes] = {"parallel.recompute": "none"}


def fusion_recompute() -> Claim:
    """Fused operators and recomputation: memory -50% for +15% compute time."""
    case = Case("claim-fusion-recompute")
    plain = UNFUSED | KEEP_ALL
    variants: tuple[tuple[str, Changes], ...] = (
        ("fused, recomputed", {}),
        ("fused alone", KEEP_ALL),
        ("recomputed alone", UNFUSED),
        ("fused, whole layers recomputed", {"parallel.recompute": "full"}),
    )
    base = case.estimate(plain)
    held, spent = replica_bytes(base, "activations"), part_seconds(base, COMPUTE)
    peak = base["memory"]["peak_gib"]
    figures = []
    changes_of: dict[str, tuple[float, float]] = {}
    for name, changes in variants:
        document = case.estimate(changes)
        memory = replica_bytes(document, "activations") / held - 1.0
        time = part_seconds(document, COMPUTE) / spent - 1.0
        changes_of[name] = (memory, time)
        figures.append(figure(f"activations, {name}", memory, "change", changes))
        figures.append(figure(f"compute time, {name}", time, "change", changes))
    figures.append(
        figure("device peak, fused, recomputed", case.estimate()["memory"]["peak_gib"] / peak - 1.0, "change")
    )
    memory, time = changes_of["fused, recomputed"]
    holds = memory <= -0.5 and time <= 0.15
    of_peak = float(figures[-1]["value"] or 0.0)
    whole = of_peak <= -0.5
    return Claim(
        "fusion-recompute",
        -0.5,
        memory,
        "change of activation memory",
        "reached" if holds and whole else "reached_if" if holds else "not_reachable",
        f"activations {memory:+.0%}, compute time {time:+.0%} (claimed: at most +15%): fused attention stores no "
        "scores, and activation functions and norms are cheap to replay. The peak of the device falls by "
        f"{-of_peak:.0%} only, since weights, gradients and optimizer states stay",
        case.plan,
        ("memory means activations, not training states", "before: attention unfused, no fused operators"),
        tuple(figures),
    )


def checkpointing() -> Claim:
    """Activation checkpointing: from TB to hundreds of GB for 100B parameters."""
    case = Case("claim-checkpointing")
    without = case.estimate(KEEP_ALL)
    document = case.estimate()
    before, after = (all_devices_bytes(each, "activations") / 1e9 for each in (without, document))
    states = sum(replica_bytes(document, part) for part in ("weights", "gradients")) / 1e9
    states += all_devices_bytes(document, "optimizer") / 1e9
    slower = part_seconds(document, COMPUTE) / part_seconds(without, COMPUTE) - 1.0
    holds = before >= 1000 and after < 1000
    return Claim(
        "checkpointing",
        "TB to hundreds of GB",
        after,
        "GB of activations on all devices",
        "reached_if" if holds else "not_reachable",
        f"activations fall from {before:.0f} to {after:.0f} GB over all devices for {slower:+.0%} compute time; the "
        f"{states:.0f} GB of training states stay. Checkpoints keep activations, not gradients, and pay in time, not "
        "in space",
        case.plan,
        ("memory means the activations of all 256 devices, micro-batches of 4 sequences",),
        (
            figure("activations on all devices, everything kept", before, "GB", KEEP_ALL),
            figure("activations on all devices, layer inputs kept", after, "GB"),
            figure("activations of one model copy, everything kept", replica_bytes(without, "activations") / 1e9, "GB",
                   KEEP_ALL),
            figure("activations of one model copy, layer inputs kept", replica_bytes(document, "activations") / 1e9,
                   "GB"),
            figure("training states of one model copy", states, "GB"),
            figure("compute time", slower, "change"),
        ),
    )  # fmt: skip

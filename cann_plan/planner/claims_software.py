"""Claims on software: the operator library, automatic configuration."""

from __future__ import annotations

from typing import Final

from cann_plan.planner.claim import Case, Changes, Claim, figure

COMPLETE: Final[Changes] = {"software.op_library": {"kind": "optimized", "coverage": 1.0}}
UNFUSED: Final[Changes] = {**COMPLETE, "software.attention": "unfused", "software.fused": "none"}


def _generic(slowdown: float) -> Changes:
    return {"software.op_library": {"kind": "generic", "fallback_slowdown": slowdown}}


def kernel_library() -> Claim:
    """An optimised library: 2-3 times per operator, 90% of operators covered."""
    case = Case("claim-kernel-library")
    covered = case.estimate()["time"]["step_s"]
    complete = case.estimate(COMPLETE)["time"]["step_s"]
    twice, thrice = (case.estimate(_generic(slowdown))["time"]["step_s"] / covered for slowdown in (2.0, 3.0))
    unfused = case.estimate(UNFUSED)["time"]["step_s"] / complete
    return Claim(
        "kernel-library",
        "2 to 3 per operator",
        twice,
        "step without the library over step with it, 2 per operator",
        "reached_if",
        f"if every operator really takes 2 to 3 times as long without the library, a step takes {twice:.2f} to "
        f"{thrice:.2f} times as long, since communication does not change. The factor itself is the document's: nobody "
        f"measured it. What published operator tables do show is fused attention and fused element-wise operators, "
        f"worth {unfused:.2f} on the step",
        case.plan,
        (
            "the 2 to 3 times are an input, not a result",
            "convolutions are no part of these models: conv2d is not shown",
        ),
        (
            figure("generic operators at 2 times", twice, "ratio of steps", _generic(2.0)),
            figure("generic operators at 3 times", thrice, "ratio of steps", _generic(3.0)),
            figure("90% of the operators covered, the rest at 2 times", covered / complete, "ratio of steps"),
            figure("unfused attention and element-wise operators", unfused, "ratio of steps", UNFUSED),
        ),
    )


def auto_tuning() -> Claim:
    """Automatic configuration of the parallel layout."""
    case = Case("claim-auto-tuning")
    auto: Changes = {"parallel": "auto"}
    less: Changes = {"parallel.recompute": "none"}
    hand, best, relaxed = (case.estimate(changes) for changes in ({}, auto, less))
    ratio = hand["time"]["step_s"] / best["time"]["step_s"]
    layout = best["parallel"]
    found = case.choice(auto).found
    tried = found.evaluated if found is not None else 0
    return Claim(
        "auto-tuning",
        None,
        ratio,
        "speed of the layout found over the layout by rule of thumb",
        "reached" if ratio >= 1.0 and best["memory"]["fits"] else "not_reachable",
        f"of {tried} layouts the fastest that fits is {ratio:.2f} times as fast: tensor {layout['tensor']}, pipeline "
        f"{layout['pipeline']}, data {layout['data']}, ZeRO {layout['zero_stage']}, recompute "
        f"{layout['recompute']['policy']}; its memory: {best['memory']['verdict'].replace('_', ' ')}. It is an "
        "exhaustive search over layouts by the model, no learning",
        case.plan,
        ("by hand: tensor over the server, pipeline over the rest, everything recomputed",),
        (
            figure("step by hand", hand["time"]["step_s"], "s"),
            figure("step by hand, nothing recomputed", relaxed["time"]["step_s"], "s", less),
            figure("step found", best["time"]["step_s"], "s", auto),
            figure("device memory found", best["memory"]["peak_gib"], "GiB", auto),
        ),
    )

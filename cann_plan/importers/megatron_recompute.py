"""Recomputation arguments of Megatron-LM, MindSpeed and AscendSpeed to `recompute:`."""

from __future__ import annotations

from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import Arguments

MODULES: Final = {
    "core_attn": "core_attention", "moe_act": "moe_activation", "layernorm": "norm", "mla_up_proj": "mla_up_proj",
    "mlp": "mlp", "moe": "moe", "shared_experts": "shared_experts",
}  # fmt: skip
SELF_TUNING: Final = {
    "adaptive-recompute-device-size": "recomputed layers are chosen at run time",
    "auto-recompute-device-size": "recomputed layers are chosen at run time",
    "adaptive-memory-optimization": "memory features are chosen at run time",
    "automated-pipeline": "stages and recomputed layers are chosen at run time",
}  # fmt: skip


def recompute_section(arguments: Arguments, virtual: int, notes: Notes) -> dict[str, Any]:
    """What is rebuilt in backward.

    `block` counts layers of each virtual chunk, or of each stage with --enable-recompute-layers-per-pp-rank; `uniform`
    gives the size of a group. A method without a granularity counts only with --swap-attention, where it recomputes
    the feed-forward blocks of the first layers.
    """
    for name, why in SELF_TUNING.items():
        if arguments.has(name):
            notes.unmodelled(name, arguments.text(name) or True, f"{why}: none is taken")
    for name in ("recompute-in-bubble", "recompute-in-advance"):
        if arguments.has(name):
            notes.unmodelled(name, True, "hides recomputation in bubbles: its time is counted in full")
    granularity = (arguments.text("recompute-granularity") or "").lower()
    if arguments.has("recompute-activations"):
        granularity = "selective"
    method = (arguments.text("recompute-method", "activations-checkpoint-method", "checkpoint-method") or "").lower()
    layers = arguments.whole("recompute-num-layers", minimum=0)
    per_rank = arguments.has("enable-recompute-layers-per-pp-rank")
    extra, extra_layers = _modules(arguments, notes)
    policy = (arguments.text("checkpoint-policy") or "").lower()  # AscendSpeed 2023
    if arguments.has("checkpoint-activations") or policy in ("full", "block"):
        granularity, method = "full", method or ("block" if policy == "block" else "uniform")
    elif policy:
        notes.unmodelled("checkpoint-policy", policy, "a policy chosen layer by layer: none is taken")
    scope = "chunk" if virtual > 1 and not per_rank else "stage"
    if granularity == "full":
        section: dict[str, Any] = {"policy": "full", "method": method or None, "layers": layers if method else None}
        if method == "block":
            section |= {"layers": layers if layers is not None else 1, "scope": scope}
        section["other_layers"] = extra if extra and method == "block" else None
        return section
    if granularity == "selective":
        listed = arguments.texts("recompute-modules")
        modules = _named(listed, notes) or ["core_attention"]
        return {"policy": "selective", "modules": list(dict.fromkeys([*modules, *extra]))}
    if method and arguments.has("swap-attention"):
        section = {"policy": "selective", "modules": ["mlp"], "method": "block", "layers": layers or 1, "scope": scope}
        notes.warn("a recompute method without granularity beside --swap-attention recomputes feed-forward blocks only")
        return section
    if method or layers is not None:
        notes.warn("--recompute-method and --recompute-num-layers do nothing without --recompute-granularity")
    if extra:
        section = {"policy": "selective", "modules": extra}
        if extra_layers is not None:
            section |= {"method": "block", "layers": extra_layers, "scope": scope}
        return section
    return {"policy": "none"}


def _named(listed: list[str], notes: Notes) -> list[str]:
    for name in listed:
        if name not in MODULES:
            notes.unmodelled("recompute-modules", name, "module nobody here knows")
    return [MODULES[name] for name in listed if name in MODULES]


def _modules(arguments: Arguments, notes: Notes) -> tuple[list[str], int | None]:
    """Modules that MindSpeed's own switches replay, and the number of layers where one is stated."""
    switches = (
        ("recompute-activation-function", "activation"), ("recompute-norm", "norm"),
        ("recompute-mla-up-proj", "mla_up_proj"), ("mla-zero-memory", "mla_up_proj"),
    )  # fmt: skip
    found = list(dict.fromkeys(module for name, module in switches if arguments.has(name)))
    counts = [
        arguments.whole(f"{name}-num-layers", minimum=0)
        for name in ("recompute-activation-function", "recompute-norm") if arguments.has(name)
    ]  # fmt: skip
    stated = [count for count in counts if count is not None]
    if len(set(stated)) > 1 or (stated and len(stated) != len(found)):
        notes.warn("modules are replayed in different numbers of layers: the largest number is taken for all")
        return found, None if len(stated) != len(found) else max(stated)
    return found, stated[0] if stated else None

"""`recompute_config` and `offset` of MindFormers: what is rebuilt on which stage, and uneven stages."""

from __future__ import annotations

import re
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.mindformers_settings import Settings

_OPERATORS: Final = (
    (re.compile(r"attention.*(flash|softmax|core)"), "core_attention"),
    (re.compile(r"silu|activation|feed_forward\W*mul|gelu"), "activation"),
    (re.compile(r"norm|cast"), "norm"),
    (re.compile(r"attention"), "attention"),
    (re.compile(r"feed_forward|mlp"), "mlp"),
)
DEFAULT_OPERATORS: Final = ["activation"]
"""`select_recompute: true` replays the product and the SiLU of the feed-forward block (MindFormers default)."""


def recompute_section(config: Settings, layers: int, parts: int, notes: Notes) -> dict[str, Any]:
    """Whole layers by stage first, else the operators of `select_recompute`; `parts`: stages x chunks."""
    full = _amount(config.raw("recompute"), layers, parts, "recompute_config.recompute", notes)
    chosen = config.raw("select_recompute")
    for key in ("parallel_optimizer_comm_recompute", "select_comm_recompute"):
        if config.raw(key):
            notes.unmodelled(f"recompute_config.{key}", True, "repeated communication in backward")
    if config.raw("recompute_slice_activation"):
        notes.unmodelled("recompute_config.recompute_slice_activation", True, "saved input sharded over tensor ranks")
    config.asked.add("mp_comm_recompute")
    selected = _selected(chosen, layers, parts, notes)
    if full is not None and full != [0] * parts:
        section: dict[str, Any] = {"policy": "full"}
        if full != [layers] * parts:
            section["per_stage"] = full
        if selected is not None:
            section["other_layers"] = selected["modules"]
        return section
    return selected or {"policy": "none"}


def _selected(value: Any, layers: int, parts: int, notes: Notes) -> dict[str, Any] | None:
    if isinstance(value, dict):
        patterns: list[str] = [str(key) for key in value]
        counts = [_amount(item, layers, parts, "recompute_config.select_recompute", notes) for item in value.values()]
        if any(item != counts[0] for item in counts):
            notes.warn("select_recompute gives operators different layers: the first operator's are taken for all")
        count = counts[0] if counts else None
    elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        patterns, count = value, None
    else:
        count = _amount(value, layers, parts, "recompute_config.select_recompute", notes)
        if count is None or count == [0] * parts:
            return None
        patterns = []
    modules = [module for pattern in patterns if (module := _module(pattern, notes)) is not None]
    section: dict[str, Any] = {"policy": "selective", "modules": list(dict.fromkeys(modules)) or DEFAULT_OPERATORS}
    if not patterns:
        notes.assume("parallel.recompute.modules", section["modules"], "MindFormers default of select_recompute")
    if count is not None and count != [layers] * parts:
        section["per_stage"] = count
    return section


def _module(pattern: str, notes: Notes) -> str | None:
    words = pattern.lower().replace("\\", "")
    found = next((module for expression, module in _OPERATORS if expression.search(words)), None)
    if found is None:
        notes.unmodelled("recompute_config.select_recompute", pattern, "operator nobody here knows")
    return found


def _amount(value: Any, layers: int, parts: int, path: str, notes: Notes) -> list[int] | None:
    """Layers per part: true is all of them, a number the same everywhere, a list one per part (nested: per chunk)."""
    if value is None or value is False or value == 0:
        return None
    if value is True:
        return [layers] * parts
    flat = flatten(value)
    if flat is None or len(flat) not in (1, parts):
        notes.refuse(f"{path}: {str(value)[:60]} is not true, false, or a number of layers for each of {parts} parts")
        return None
    return flat * parts if len(flat) == 1 else flat


def flatten(value: Any) -> list[int] | None:
    """A number, a list of numbers, or a list of such lists (one per chunk) in model order."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, list) or len(value) > 10_000:
        return None
    found: list[int] = []
    for item in value:
        inner = item if isinstance(item, list) else [item]
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in inner):
            return None
        found += inner
    return found


def stage_layers(offset: Any, layers: int, extra: int, parts: int, notes: Notes) -> list[int] | None:
    """Layers per part from offsets to an even split of `layers` and the `extra` multi-token-prediction layers.

    The latter sit on the last part and are not in the result. None for an even split.
    """
    flat = flatten(offset)
    if offset is None or flat is None or not any(flat):
        return None
    if len(flat) != parts:
        notes.refuse(f"model.model_config.offset: {len(flat)} values for {parts} pipeline parts")
        return None
    base, left = divmod(layers + extra - sum(flat), parts)
    result = [base + value for value in flat]
    result[-1] -= extra
    if left or min(result) < 0:
        notes.refuse(f"model.model_config.offset: {str(offset)[:60]} does not share {layers + extra} layers")
        return None
    return result if len(set(result)) > 1 else None

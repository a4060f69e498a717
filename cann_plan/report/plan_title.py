"""A plan and its layout in a few words."""

from collections.abc import Mapping
from typing import Any

# Degrees shown even when they are 1; the others only when they are used.
_ALWAYS = ("tensor", "pipeline", "data")
_DEGREES = ("tensor", "pipeline", "data", "context", "expert", "expert_tensor", "virtual_pipeline")


def title(plan: Mapping[str, Any], parallel: Mapping[str, Any]) -> str:
    """For example `llama-2-70b · atlas-900-a2 · 256 devices`."""
    parts = [_name(plan.get("name")) or _name(plan.get("model")), _name(plan.get("cluster"))]
    devices = parallel.get("devices")
    if devices is not None:
        parts.append(f"{devices:,} device{'s' if devices != 1 else ''}")
    return " · ".join(part for part in parts if part) or "plan"


def layout(parallel: Mapping[str, Any]) -> str:
    """For example `tensor 8 · pipeline 4 · data 8 · micro-batch 1 × 32 · ZeRO 1 · recompute full`."""
    parts = [
        f"{key.replace('_', ' ')} {parallel[key]}"
        for key in _DEGREES
        if isinstance(parallel.get(key), int) and (key in _ALWAYS or parallel[key] > 1)
    ]
    size, number = parallel.get("micro_batch_size"), parallel.get("micro_batches")
    if size is not None:
        parts.append(f"micro-batch {size}" + (f" × {number}" if number is not None else ""))
    if parallel.get("zero_stage"):
        parts.append(f"ZeRO {parallel['zero_stage']}")
    if parallel.get("schedule") and (parallel.get("pipeline") or 1) > 1:
        parts.append(str(parallel["schedule"]))
    recompute = _recompute(parallel.get("recompute"))
    if recompute:
        parts.append(f"recompute {recompute}")
    return " · ".join(parts)


def _recompute(value: object) -> str:
    if isinstance(value, Mapping):
        value = value.get("policy")
    return str(value) if value not in (None, False) else ""


def _name(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in ("name", "preset", "extends"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return ""

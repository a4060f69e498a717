"""Measured runs that state a plan: this project's own form of a row.

- id: titan-8b-8g
  source: torchtitan paper, table 1
  tier: A
  device: h100-96g-hbm2e
  stack: torchtitan
  plan: {model: {...}, cluster: {...}, training: {...}, parallel: {...}, software: {...}}
  measured: {tokens_per_s_per_device: 5762}
"""

from __future__ import annotations

from typing import Any, Final, cast

from cann_plan.importers.rows import Fields, MeasuredRow, Remark, RowSkippedError
from cann_plan.importers.rows_recompute import Recompute

SEARCHES: Final = ("none", "unstated", "layers")


def is_plan_row(row: MeasuredRow) -> bool:
    """Whether the row states a plan."""
    return isinstance(row.data.get("plan"), dict)


def plan_of(row: MeasuredRow) -> tuple[dict[str, Any], Recompute, tuple[Remark, ...]]:
    """The plan, what is searched for about recomputation, and remarks on values that the source does not state.

    Raises:
        RowSkippedError: the plan lacks what a step time needs.
        SpecError: a value of the wrong type, located.
    """
    top = Fields(row)
    plan = dict(cast(dict[str, Any], top.raw("plan")))
    search = top.text("recompute_search") or "none"
    if search not in SEARCHES:
        top.fail("recompute_search", search, ", ".join(SEARCHES))
    training, parallel = plan.get("training"), plan.get("parallel")
    if not isinstance(training, dict) or not isinstance(parallel, dict):
        raise RowSkippedError("the plan states no training or no layout")
    for key in ("global_batch_size", "sequence_length"):
        if not isinstance(training.get(key), int):
            raise RowSkippedError(f"the plan does not state training.{key}")
    remarks = tuple(Remark(path, None, "not stated by the source") for path in top.texts("assumed") or ())
    plan.setdefault("name", row.id)
    section = parallel.get("recompute")
    recompute = Recompute(section if isinstance(section, dict) else {}, search, top.number("memory_limit_bytes"))
    return plan, recompute, remarks


def devices_of(plan: dict[str, Any]) -> int:
    """Devices the plan states. Raises RowSkippedError where it does not."""
    cluster = plan.get("cluster")
    devices = cluster.get("devices") if isinstance(cluster, dict) else None
    if not isinstance(devices, int) or devices < 1:
        raise RowSkippedError("the plan does not state cluster.devices")
    return devices

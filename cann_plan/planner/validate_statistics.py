"""Error statistics of predictions: overall and by group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from cann_plan.planner.contract import ErrorStatistics, GroupStatistics

NO_ROWS: ErrorStatistics = {"n": 0, "mape": None, "median": None, "p90": None, "bias": None}


def statistics(errors: Sequence[float]) -> ErrorStatistics:
    """`mape`, `median` and `p90` of |error|, `bias` the median signed error; quantiles interpolate linearly."""
    if not errors:
        return NO_ROWS.copy()
    signed = np.asarray(errors, np.float64)
    size = np.abs(signed)
    return {
        "n": len(errors),
        "mape": float(np.mean(size)),
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
        "bias": float(np.median(signed)),
    }


def by_group(
    items: Iterable[tuple[Sequence[str], str, float]], key: Callable[[str], object] = str
) -> list[GroupStatistics]:
    """Statistics of (groups, quantity, error) items: one entry per quantity and group, in order of `key`."""
    found: dict[tuple[str, str], list[float]] = {}
    for groups, quantity, error in items:
        for group in groups:
            found.setdefault((quantity, group), []).append(error)
    order = sorted(found, key=lambda item: (item[0] != "step_time", item[0], str(key(item[1]))))
    return [{"group": group, "quantity": quantity, **statistics(found[quantity, group])} for quantity, group in order]

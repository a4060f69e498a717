"""Error statistics of log errors, as numbers and as the words of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def statistics(log_errors: Array) -> dict[str, float]:
    """mape, median and p90 of |predicted / measured - 1|, bias: median of the signed error."""
    errors = np.expm1(log_errors)
    size = np.abs(errors)
    return {
        "n": float(errors.shape[0]),
        "mape": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
        "bias": float(np.median(errors)),
    }


def words(log_errors: Array) -> str:
    """`MAPE / median / p90 / bias` in per cent."""
    if log_errors.shape[0] == 0:
        return "-"
    found = statistics(log_errors)
    sizes = " / ".join(f"{100 * found[key]:.1f}" for key in ("mape", "median", "p90"))
    return f"{sizes} / {100 * found['bias']:+.1f}"

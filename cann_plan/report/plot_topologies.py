"""The comparison of `cann-plan compare-topologies` as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

HELD, BEST, BOUGHT = "#bbccee", "#4477aa", "#228833"


def plot_topologies(document: Mapping[str, Any], file: Path) -> None:
    """Step times of every network, held and best layout, and step over price.

    Raises:
        ValueError: matplotlib is not installed, or it does not know the file's ending.
    """
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ValueError("--plot needs matplotlib: pip install 'cann-plan[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in document["topologies"] if row["step_s"] is not None]
    bought = (document.get("buy") or {}).get("name")
    priced = any(row["cost"] is not None for row in rows)
    figure, panels = pyplot.subplots(1, 2 if priced else 1, figsize=(11 if priced else 7, 0.5 * len(rows) + 2))
    left = panels[0] if priced else panels
    places = range(len(rows))
    left.barh([p - 0.2 for p in places], [row["step_s"] for row in rows], 0.4, color=HELD, label="layout held")
    best = [row["step_s_best_layout"] or 0.0 for row in rows]
    left.barh([p + 0.2 for p in places], best, 0.4, color=BEST, label="best layout")
    left.set_yticks(list(places), [f"{row['name']}{'  *' if row['name'] == bought else ''}" for row in rows])
    left.invert_yaxis()
    left.set_xlabel("step, s")
    left.legend(loc="lower right", fontsize=8)
    if priced:
        right = panels[1]
        for place, row in enumerate(row for row in rows if row["cost"] is not None):
            colour = BOUGHT if row["name"] == bought else BEST
            right.plot(row["cost"] / 1e6, row["step_s_best_layout"] or row["step_s"], "o", color=colour)
            right.annotate(row["name"], (row["cost"] / 1e6, row["step_s_best_layout"] or row["step_s"]),
                           textcoords="offset points", xytext=(5, 4 if place % 2 else -10), fontsize=8)  # fmt: skip
        low, high = min(best), max(best)
        right.set_ylim(low * 0.97, high * 1.03)  # differences below the error of the model look small
        right.set_xlabel(f"network, million {document['currency']}")
        right.set_ylabel("step with the best layout, s")
    figure.suptitle(f"{document['devices']:,} devices, equal {document['equalised_on']}")
    figure.tight_layout()
    try:
        figure.savefig(file)
    finally:
        pyplot.close(figure)

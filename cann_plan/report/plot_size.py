"""The sizes of `cann-plan size` as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIME, MONEY, ANSWER = "#4477aa", "#cc6677", "#228833"


def plot_size(document: Mapping[str, Any], file: Path) -> None:
    """Days, and cost or device-hours, over the number of devices; the answer and the limits marked.

    Raises:
        ValueError: nothing fits, matplotlib is not installed, or it does not know the file's ending.
    """
    rows = [row for row in document["table"] if row["fits"] and row["days"] is not None]
    if not rows:
        raise ValueError("no number of devices fits")
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ValueError("--plot needs matplotlib: pip install 'cann-plan[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, NullLocator

    devices = [row["devices"] for row in rows]
    figure, left = pyplot.subplots(figsize=(7, 4.5))
    right = left.twinx()
    priced = all(row["cost"] is not None for row in rows)
    money = [row["cost"] if priced else row["device_hours"] for row in rows]
    left.plot(devices, [row["days"] for row in rows], "o-", color=TIME)
    right.plot(devices, money, "s--", color=MONEY)
    left.set_xscale("log", base=2)
    left.set_xticks(_apart(devices, document["devices"]))
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    left.xaxis.set_minor_locator(NullLocator())
    left.tick_params(axis="x", rotation=45)
    left.set_yscale("log")
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    right.set_ylim(bottom=0.0)
    left.set_xlabel("devices")
    left.set_ylabel("days", color=TIME)
    right.set_ylabel(f"cost, {document.get('currency') or 'currency'}" if priced else "device-hours", color=MONEY)
    limit = (document.get("limits") or {}).get("goodput_days")
    if limit is not None:
        left.axhline(limit, color=TIME, linewidth=0.8, linestyle=":")
    if document["devices"] is not None:
        left.axvline(document["devices"], color=ANSWER, linewidth=0.8)
    if document.get("diminishing_from") is not None:
        left.axvspan(document["diminishing_from"], devices[-1], color="#eeeeee", zorder=0)
    figure.tight_layout()
    try:
        figure.savefig(file)
    finally:
        pyplot.close(figure)


def _apart(devices: list[int], answer: int | None) -> list[int]:
    """Numbers whose labels do not touch on a logarithmic axis; the answer's is among them."""
    kept: list[int] = []
    for number in devices:
        near = kept and number < 1.2 * kept[-1]
        if near and number == answer:
            kept[-1] = number
        elif not near:
            kept.append(number)
    return kept

"""The timeline of `cann-plan memory` as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {"forward": "#4477aa", "backward": "#cc6677", "optimizer": "#228833"}


def plot_timeline(document: Mapping[str, Any], file: Path) -> None:
    """Live tensors of the peak rank over one step, with what the framework can use.

    Raises:
        ValueError: matplotlib is not installed, or it does not know the file's ending.
    """
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ValueError("--plot needs matplotlib: pip install 'cann-plan[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    events = document["timeline"]
    figure, axes = pyplot.subplots(figsize=(10, 4))
    timed = bool(events) and events[0]["t_s"] is not None
    for phase, colour in COLOURS.items():
        chosen = [(event["t_s"] if timed else index, event["allocated_gib"]) for index, event in enumerate(events)
                  if event["phase"] == phase]  # fmt: skip
        if chosen:
            axes.plot(*zip(*chosen, strict=True), ".", color=colour, label=phase, markersize=4)
    at = [event["t_s"] if timed else index for index, event in enumerate(events)]
    axes.step(at, [event["allocated_gib"] for event in events], where="post", color="#bbbbbb", linewidth=0.6, zorder=0)
    worst = max(document["ranks"], key=lambda rank: rank["device_gib"])
    limit = document.get("visible_gib", 0.0) - worst["communicators_gib"] - worst["runtime_gib"]
    axes.axhline(limit, color="black", linestyle="--", linewidth=0.8, label="left by communicators and runtime")
    axes.set_xlabel("time of the step, s" if timed else "pass")
    axes.set_ylabel("live tensors, GiB")
    axes.set_title(f"pipeline stage {document.get('peak_stage', worst['stage'])}")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    try:
        figure.savefig(file)
    finally:
        pyplot.close(figure)

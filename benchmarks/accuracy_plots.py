"""Scatter plots of predicted over measured step time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.accuracy_fit import Result

FILES = {"in": "accuracy_in_sample.png", "group": "accuracy_left_out.png"}
TITLES = {"in": "Fitted on all runs", "group": "Each model and source left out of the fit that predicts it"}


def write_plots(result: Result, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    samples = [result.samples[i] for i in result.fitted]
    measured = np.array([s.observation.measured for s in samples])
    families = np.array([str(s.place.family) for s in samples])
    for kind, name in FILES.items():
        errors = result.errors[kind][result.fitted]
        figure, axis = pyplot.subplots(figsize=(5.2, 5.0))
        for family in sorted(set(families)):
            mine = families == family
            label = f"{family} ({int(mine.sum())})"
            axis.loglog(measured[mine], measured[mine] * np.exp(errors[mine]), ".", markersize=4, label=label)
        ends = np.array([measured.min() * 0.7, measured.max() * 1.4])
        axis.loglog(ends, ends, "k-", linewidth=0.8)
        for factor in (0.9, 1.1):
            axis.loglog(ends, ends * factor, "k:", linewidth=0.6)
        axis.set(xlabel="measured step time, s", ylabel="predicted step time, s", title=TITLES[kind],
                 xlim=ends, ylim=ends)  # fmt: skip
        axis.title.set_fontsize(10)
        axis.legend(fontsize=7, frameon=False)
        figure.tight_layout()
        figure.savefig(folder / name, dpi=110, metadata={"Software": None})
        pyplot.close(figure)

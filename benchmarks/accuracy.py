"""Calibrate every device and stack on the measured runs and say how well that predicts runs it never saw.

    python benchmarks/accuracy.py [--rows ROWS.yaml...] [--odd ODD.yaml] [--write]

`--write`: parameters into presets/profiles, the table into tests/data/accuracy.yaml, the report into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy_fit import Result, calibrate  # noqa: E402
from benchmarks.accuracy_profiles import write_profiles  # noqa: E402
from benchmarks.accuracy_workers import Workers  # noqa: E402
from cann_plan.importers.rows import read_rows  # noqa: E402
from cann_plan.planner.calibrate_model import NAMES  # noqa: E402
from cann_plan.planner.validate import read_exclusions  # noqa: E402

MEASURED = ROOT / "tests" / "data" / "measured"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", nargs="*", type=Path, default=sorted(MEASURED.glob("*.yaml")))
    options.add_argument("--odd", type=Path)
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    started = time.monotonic()
    odd = read_exclusions(chosen.odd) if chosen.odd else {}
    rows = [row for path in chosen.rows for row in read_rows(path)]
    rows = [row for row in rows if row.tier in ("A", "B") and row.id not in odd]
    with Workers(rows) as workers:
        print(f"{len(workers.samples)} runs, {len(workers.skipped)} skipped, {time.monotonic() - started:.0f} s")
        result = calibrate(workers)
    print(f"{time.monotonic() - started:.0f} s")
    show(result)
    if chosen.write:
        write_profiles(result)
    return 0


def line(errors: np.ndarray) -> str:
    e = np.exp(errors) - 1.0
    a = np.abs(e)
    figures = (100 * a.mean(), 100 * np.median(a), 100 * np.quantile(a, 0.9))
    return "/".join(f"{value:5.1f}" for value in figures) + f"/{100 * np.median(e):+5.1f}"


def show(result: Result) -> None:
    samples = result.samples
    places = [s.observation.place for s in samples]
    for place in sorted(set(places), key=lambda item: (str(item.device), str(item.stack))):
        mine = np.array([other == place for other in places])
        groups = len({s.observation.group for s, m in zip(samples, mine, strict=True) if m})
        theta, active = np.exp(result.joint.posterior.theta(place)), result.joint.active[mine][0]
        text = " ".join(f"{n[:6]}={v:.3g}" for n, v, a in zip(NAMES, theta, active, strict=True) if a)
        figures = "  ".join(f"{name} {line(result.errors[name][mine])}" for name in ("in", "group", "pair"))
        print(f"{place.device:17}{place.stack:19}{mine.sum():4d}{groups:3d}  {figures}  {text}")
    for name, errors in result.errors.items():
        print(f"{name:8} {line(errors)}")


if __name__ == "__main__":
    sys.exit(main())

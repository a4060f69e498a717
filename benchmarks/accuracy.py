"""Calibrate every device and stack on the published runs and say how well that predicts runs it never saw.

    python benchmarks/accuracy.py [--rows ROWS.yaml...] [--write]

`--write`: parameters into presets/profiles, the table into tests/data/accuracy.yaml, the report into docs/accuracy.md
and its summary into README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # the processes use the cores

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.accuracy_fit import calibrate, rankings, stability, verify_refits, without_source  # noqa: E402
from benchmarks.accuracy_plots import write_plots  # noqa: E402
from benchmarks.accuracy_profiles import write_profiles  # noqa: E402
from benchmarks.accuracy_report import Studies, report, summary, table  # noqa: E402
from benchmarks.accuracy_table import write_table  # noqa: E402
from benchmarks.accuracy_workers import Workers  # noqa: E402
from cann_plan.importers.rows import read_rows  # noqa: E402

MEASURED = ROOT / "tests" / "data" / "measured"
README_START, README_END = "<!-- accuracy: written by make accuracy -->", "<!-- /accuracy -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", type=Path, default=sorted(MEASURED.glob("*.yaml")))
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    started = time.monotonic()
    rows = [row for path in chosen.rows for row in read_rows(path)]
    with Workers(rows) as workers:
        print(f"{len(workers.samples)} runs, {len(workers.skipped)} skipped, {time.monotonic() - started:.0f} s")
        result = calibrate(workers)
        print(f"fitted and cross-validated, {time.monotonic() - started:.0f} s")
        print(table(result))
        if not chosen.write:
            return 0
        studies = Studies(
            verify_refits(result, workers), stability(result, workers), rankings(result),
            {word: without_source(result, workers, word) for word in ("korthikanti22-t5", "narayanan21-t1", "foundry")},
        )  # fmt: skip
    write_profiles(result)
    write_table(result, rows, ROOT)
    write_plots(result, ROOT / "docs" / "img")
    (ROOT / "docs" / "accuracy.md").write_text(report(result, studies), encoding="utf-8")
    _into_readme(summary(result, studies))
    print(f"written, {time.monotonic() - started:.0f} s")
    return 0


def _into_readme(text: str) -> None:
    readme = ROOT / "README.md"
    whole = readme.read_text(encoding="utf-8")
    if README_START not in whole or README_END not in whole:
        return
    before, after = whole.split(README_START)[0], whole.split(README_END)[1]
    readme.write_text(f"{before}{README_START}\n{text}\n{README_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

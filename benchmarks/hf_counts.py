"""Parameter counts of every config.json in a folder against the counts beside them.

    python benchmarks/hf_counts.py FOLDER

FOLDER holds config files and `parameter_counts.yaml`, a mapping of file name to `{counted: {total, active, scope}}`.
Exit status 1 if a count differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from cann_plan.importers.hf import HfConfigError, import_hf
from cann_plan.workload.build import build_architecture
from cann_plan.workload.parameters import parameter_counts

ACTIVE_TOLERANCE = 0.005


def main(folder: Path) -> int:
    reference = yaml.safe_load((folder / "parameter_counts.yaml").read_text(encoding="utf-8"))
    wrong = unsupported = right = uncounted = 0
    for file, row in reference.items():
        counted = row["counted"] if isinstance(row["counted"], dict) else {}
        try:
            counts = parameter_counts(build_architecture(import_hf(folder / file)))
        except HfConfigError as error:
            unsupported += 1
            print(f"{file:45s} {error}")
            continue
        total = counted.get("total")
        active = counted.get("active", total)
        if total is None:
            uncounted += 1
            verdict = "no reference"
        elif counts.total == total and abs(counts.active - active) <= ACTIVE_TOLERANCE * active:
            right += 1
            verdict = "exact" if counts.active == active else f"active {counts.active / active - 1:+.4%}"
        else:
            wrong += 1
            verdict = f"WRONG total {counts.total - total:+,} active {counts.active - active:+,}"
        print(f"{file:45s} {counts.total:>18,} {counts.active:>18,}  {verdict}")
    print(f"{right} exact, {wrong} wrong, {unsupported} unsupported, {uncounted} without a reference")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

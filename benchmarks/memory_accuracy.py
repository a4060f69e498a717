"""Predicted against measured memory: files of small runs, by what each row may be judged on.

python benchmarks/memory_accuracy.py ROWS.yaml... [--worst 20]
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from cann_plan.importers.memory_rows import read_memory_rows
from cann_plan.planner.validate_memory import LOW, validate_memory
from cann_plan.planner.validate_statistics import statistics


def family(identifier: str) -> str:
    """The script of a row: its id without the date or the machine."""
    return re.sub(r"-(dev|lts)(_\w+|-\w+)*$|-\d{4}-\d{2}-\d{2}$", "", identifier)


def line(name: str, figures: Any) -> str:
    parts = (f"{key} {figures[key]:.3f}" for key in ("median", "p90", "bias", "mape") if figures[key] is not None)
    return f"{name:8s} n {figures['n']:4d}  " + "  ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--worst", type=int, default=15, help="scripts with the largest errors to list")
    options = parser.parse_args()
    # all files together: a baseline carried on by one suite is dated by the other
    document = validate_memory(options.files)
    for file in options.files:
        ids = {str(row["id"]) for row in read_memory_rows(file)}
        judged = [row for row in document["rows"] if row["judged"] and row["id"] in ids]
        print(file)
        for quantity in ("static", "peak"):
            errors = [row["error"] for row in judged if row["quantity"] == quantity]
            low = f" low by >10%: {sum(error < LOW for error in errors)}" if quantity == "peak" else ""
            print(" ", line(quantity, statistics(errors)) + low)
        for quantity in ("static", "peak"):
            by_family: dict[str, list[float]] = {}
            for row in judged:
                if row["quantity"] == quantity:
                    by_family.setdefault(family(row["id"]), []).append(row["error"])
            ranked = sorted(by_family.items(), key=lambda item: -max(abs(error) for error in item[1]))
            print(f"  {quantity}: {len(by_family)} scripts")
            for name, errors in ranked[: options.worst]:
                print(f"    {name[:80]:80s} n {len(errors):3d}  {min(errors):+.3f} to {max(errors):+.3f}")
        for item in (skipped for skipped in document["skipped"] if skipped["id"] in ids):
            print("  skipped", item["id"], item["why"][:100])


if __name__ == "__main__":
    main()

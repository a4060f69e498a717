"""Published rows in the project's own form: a plan, the measured figure, its source and tier.

    python benchmarks/accuracy_rows.py ROWS.yaml... --odd ODD.yaml

writes tests/data/measured/*.yaml, one file per software stack.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cann_plan.importers.rows import RowSkippedError, read_rows  # noqa: E402
from cann_plan.importers.rows_plan import ImportedRow, import_row  # noqa: E402
from cann_plan.planner.validate import read_exclusions  # noqa: E402
from cann_plan.planner.validate_rows import prepare_row  # noqa: E402

TARGET = ROOT / "tests" / "data" / "measured"
HEADER = (
    "# Published training runs as plans, with their figures and sources; made by benchmarks/accuracy_rows.py.\n"
    "# tier A: full configuration, B: recomputation not stated, C: something material is missing (never fitted);\n"
    "# odd: the row's own figures do not add up (left out of the fit); assumed: keys that the source does not state.\n"
)
FIGURES = ("step_time_s", "tokens_per_s_per_device", "samples_per_s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path)
    parser.add_argument("--odd", type=Path)
    chosen = parser.parse_args()
    odd = read_exclusions(chosen.odd) if chosen.odd else {}
    files: dict[str, list[dict[str, Any]]] = defaultdict(list)
    skipped = 0
    for path in chosen.rows:
        for row in read_rows(path):
            try:
                imported = import_row(row)
                prepare_row(imported)
                if imported.measured.step_s is None:
                    raise RowSkippedError("no step time")
            except RowSkippedError:
                skipped += 1
                continue
            files[re.sub(r"[^a-z0-9]+", "-", imported.stack)].append(_converted(imported, row.id in odd))
    TARGET.mkdir(parents=True, exist_ok=True)
    for stale in TARGET.glob("*.yaml"):
        stale.unlink()
    for name, rows in sorted(files.items()):
        (TARGET / f"{name}.yaml").write_text(HEADER + _dump(_shared(rows)), encoding="utf-8")
    print(f"{sum(map(len, files.values()))} rows in {len(files)} files, {skipped} without a plan or a step time")
    return 0


def _converted(imported: ImportedRow, odd: bool) -> dict[str, Any]:
    data, plan = imported.row.data, json.loads(json.dumps(imported.plan))
    plan.pop("name", None)
    if plan["model"].get("name") == imported.row.id:
        plan["model"].pop("name")
    measured = {key: data["measured"][key] for key in FIGURES if data["measured"].get(key) is not None}
    row: dict[str, Any] = {
        "id": imported.row.id,
        "source": str(data.get("source", "")),
        "tier": imported.row.tier,
        "device": imported.device,
        "stack": imported.stack,
        "kind": imported.kind,
        "plan": plan,
        "measured": {key: measured[key] for key in list(measured)[:1]},
    }
    if odd:
        row["odd"] = True
    if imported.recompute.search != "none":
        row["recompute_search"] = imported.recompute.search
    if imported.recompute.limit is not None:
        row["memory_limit_bytes"] = imported.recompute.limit
    assumed = sorted({remark.path for remark in imported.remarks if not remark.source.startswith("not used")})
    if assumed:
        row["assumed"] = assumed
    return row


def _shared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with equal sections as one object, which YAML writes once and refers to."""
    known: dict[str, Any] = {}
    for row in rows:
        for key in ("model", "cluster", "software"):
            value = row["plan"][key]
            if key == "cluster":
                levels = value.get("scale_out")
                if levels is not None:
                    value["scale_out"] = known.setdefault(json.dumps(levels), levels)
            row["plan"][key] = known.setdefault(key + json.dumps(value), value)
    return rows


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return not isinstance(data, dict | list) or bool(super().ignore_aliases(data))


def _dump(rows: list[dict[str, Any]]) -> str:
    return str(yaml.dump(rows, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=116, allow_unicode=True))


if __name__ == "__main__":
    sys.exit(main())

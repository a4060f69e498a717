"""How many measured runs with launch arguments import to their layout.

    python benchmarks/import_rows.py ROWS.yaml...

A row counts as right when the plan loads, the degrees are those of the arguments, tensor x pipeline x context x data is
the stated number of devices, and the padded vocabulary is the one stated or the multiple's.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from cann_plan.importers.imported import Imported, ImportRefusedError
from cann_plan.importers.megatron_rows import import_args_row
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import load_plan


def main(paths: list[str]) -> int:
    for path in paths:
        rows = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        rows = [row for row in rows if isinstance(row.get("args"), dict) and row["args"]]
        outcomes: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        wrong: list[str] = []
        for row in rows:
            kind, detail, imported = _judge(row)
            outcomes[kind] += 1
            if kind != "right":
                wrong.append(f"  {kind:9} {row['id']}: {detail}")
            if imported is not None:
                unknown.update(item.argument for item in imported.unknown if "nobody here" in item.why)
        total = sum(outcomes.values())
        layouts = outcomes["right"] + outcomes["no vocabulary"] + outcomes["no model"]
        print(f"{Path(path).name}: {total} rows with arguments")
        print(f"  layout as stated      {layouts:4}  {layouts / max(total, 1):6.1%}")
        for kind, number in outcomes.most_common():
            print(f"  {kind:20} {number:6}  {number / max(total, 1):6.1%}")
        print("\n".join(wrong))
        print("  unknown arguments:", ", ".join(f"{name} ({number})" for name, number in sorted(unknown.items())))
    return 0


def _judge(row: dict[str, Any]) -> tuple[str, str, Imported | None]:
    """(right, wrong, refused, or what alone is missing; why; the import)."""
    try:
        imported = import_args_row(row)
    except (ImportRefusedError, SpecError) as error:
        return "refused", str(error), None
    problem = _layout(row, imported.plan) or _vocabulary(row, imported.plan)
    if problem:
        return ("refused" if imported.refused else "wrong"), problem, imported
    if imported.refused:
        text = "; ".join(imported.refused)
        alone = len(imported.refused) == 1 and "vocabulary" in text
        model = all("model" in reason or "--seq-length" in reason or "vocabulary" in reason for reason in
                    imported.refused)  # fmt: skip
        return ("no vocabulary" if alone else "no model" if model else "refused"), text, imported
    try:
        load_plan(imported.plan)
    except SpecError as error:
        return "wrong", str(error)[:200], imported
    return "right", "", imported


def _layout(row: dict[str, Any], plan: dict[str, Any]) -> str | None:
    arguments, parallel = row["args"], plan["parallel"]
    stated = {
        "tensor": "tensor-model-parallel-size", "pipeline": "pipeline-model-parallel-size",
        "context": "context-parallel-size",
    }  # fmt: skip
    for key, name in stated.items():
        if parallel.get(key, 1) != int(arguments.get(name, 1)):
            return f"{key} is {parallel.get(key, 1)}, stated {arguments.get(name)}"
    ranks = math.prod(parallel.get(key, 1) for key in ("tensor", "pipeline", "context", "data"))
    devices = row.get("devices") or int(arguments.get("nnodes", 0)) * int(arguments.get("nproc_per_node", 0))
    if devices and ranks != devices:
        return f"tensor x pipeline x context x data = {ranks}, stated {devices} devices"
    return None


def _vocabulary(row: dict[str, Any], plan: dict[str, Any]) -> str | None:
    arguments, model = row["args"], plan.get("model") or {}
    words = model.get("vocabulary_size")
    if words is None:
        return None
    step = plan["software"]["vocabulary_multiple"] * plan["parallel"]["tensor"]
    padded = -(-words // step) * step
    stated = arguments.get("padded-vocab-size")
    if stated is None:
        source = row.get("vocab") or arguments.get("vocab-size") or words
        each = int(arguments.get("make-vocab-size-divisible-by", 128)) * plan["parallel"]["tensor"]
        stated = -(-int(source) // each) * each
    return None if int(stated) == padded else f"padded vocabulary is {padded}, stated {stated}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

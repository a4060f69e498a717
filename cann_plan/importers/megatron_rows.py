"""Measured runs that give launch arguments instead of a described model and layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cann_plan.importers.imported import Imported, ImportRefusedError, Notes
from cann_plan.importers.megatron import Options, import_launch
from cann_plan.importers.megatron_arguments import from_mapping
from cann_plan.importers.megatron_source import LAUNCHER_COUNTS, Launch
from cann_plan.spec.hardware_presets import UnknownPresetError
from cann_plan.spec.hardware_words import cluster_from_words

# Systems of functional tests, by what the rows call them.
_SYSTEMS: Final = (
    (re.compile(r"gb200", re.I), "gb200-nvl72", None),
    (re.compile(r"h100", re.I), "h100-80g-sxm", None),
    (re.compile(r"a100", re.I), "a100-80g-sxm", None),
    (re.compile(r"\ba3\b", re.I), "ascend-910c-die-64g", None),
    (re.compile(r"ascend|npu", re.I), "ascend-910b-64g", "the board is not stated"),
)
_USUAL: Final = ("a100-80g-sxm", "the system is not stated")


def import_args_row(row: Mapping[str, Any]) -> Imported:
    """The plan of a row with `args` (and `env`), on the devices the row states.

    Raises ImportRefusedError for a row without arguments or on a device nobody knows.
    """
    arguments = row.get("args")
    if not isinstance(arguments, Mapping) or not arguments:
        raise ImportRefusedError("the row has no launch arguments")
    found = from_mapping(arguments)
    launcher = {key: found.pop(key) for key in list(found) if key in LAUNCHER_COUNTS}
    environment = row.get("env")
    entry = str(row.get("script") or row.get("config") or "")
    launch = Launch(
        found, launcher, entry=entry, name=str(row.get("id") or "row"),
        environment={str(key): str(value) for key, value in environment.items()} if isinstance(environment, Mapping)
        else {},
        words=f"{row.get('framework') or ''} {row.get('hardware') or ''}",
    )  # fmt: skip
    notes = Notes()
    vocabulary, devices = row.get("vocab"), row.get("devices")
    if isinstance(vocabulary, int) and row.get("vocab_note"):
        notes.assume("model.vocabulary_size", vocabulary, str(row["vocab_note"]))
    imported = import_launch(
        launch, notes,
        Options(
            devices=devices if isinstance(devices, int) else None,
            vocabulary=vocabulary if isinstance(vocabulary, int) else None,
        ),
    )  # fmt: skip
    cluster, source = _cluster(row, imported.plan["cluster"]["devices"])
    imported.plan["cluster"] = cluster
    assumptions = tuple(a for a in imported.assumptions if a.path != "cluster")
    if source is not None:
        notes.assumptions = [*assumptions]
        notes.assume("cluster", cluster["extends"], source)
        assumptions = tuple(notes.assumptions)
    return Imported(
        imported.plan, assumptions, imported.ignored, imported.unknown, imported.warnings, imported.refused
    )  # fmt: skip


def plan_from_args(row_args: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The plan mapping of a measured run whose layout is given as launch arguments.

    `row` supplies devices, hardware, environment and, where the arguments have none, the vocabulary. Raises
    ImportRefusedError with the reasons where no complete plan results.
    """
    imported = import_args_row({**row, "args": row_args})
    if imported.refused:
        raise ImportRefusedError("; ".join(imported.refused))
    return imported.plan


def _cluster(row: Mapping[str, Any], devices: int) -> tuple[dict[str, Any], str | None]:
    hardware = str(row.get("hardware") or "")
    per_node = row.get("devices_per_node") or row.get("gpus_per_node")
    per_node = per_node if isinstance(per_node, int) else None
    device, source = row.get("device"), None
    if not isinstance(device, str):
        found = next(((name, why) for pattern, name, why in _SYSTEMS if pattern.search(hardware)), _USUAL)
        device, source = found
    try:
        document = cluster_from_words(device, hardware, str(row.get("network") or ""), per_node)
    except UnknownPresetError:
        raise ImportRefusedError(f"no preset of device {device}") from None
    document["devices"] = devices
    if per_node is not None and devices < per_node:
        document.pop("devices_per_node", None)
    return document, source

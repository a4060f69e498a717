"""What a user writes for topologies: names, files, descriptions; the plan when none is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cann_plan.network.topology.catalogue import DEFAULT, FAMILIES, PRESETS, names
from cann_plan.planner.assumptions import PlanError
from cann_plan.spec.document import read
from cann_plan.spec.errors import closest

DEFAULT_PLAN: Final = "dense-100b-1024"
"""Plan compared when none is given."""
SEQUENCES_PER_DEVICE: Final = 4
"""Devices per sequence of the default plan's batch beyond its own: 16 Mi tokens on 16,384 devices, as Llama 3
(arXiv 2407.21783)."""


def default_overrides(devices: int | None) -> list[str]:
    """Overrides of the default plan for another number of devices: a batch that grows with it."""
    if devices is None:
        return []
    return [f"training.global_batch_size={max(1024, devices // SEQUENCES_PER_DEVICE)}"]


def topologies_of(text: str | None) -> list[str | Mapping[str, Any]]:
    """Names separated by commas, `all`, graph files, or YAML files that describe a topology; the default set for None.

    Raises:
        PlanError: an unknown name.
        SpecError: a description that is no YAML mapping.
    """
    if text is None:
        return list(DEFAULT)
    chosen: list[str | Mapping[str, Any]] = []
    for word in (part.strip() for part in text.split(",")):
        if word == "all":
            chosen += [name for name in names() if name not in ("torus", "full-mesh", "ring")]
        elif word.endswith((".yaml", ".yml")):
            chosen.append(_described(word))
        elif word in FAMILIES or word in PRESETS or "/" in word or "." in word:
            chosen.append(word)
        elif word:
            raise PlanError("--topologies", f"unknown topology {word!r}", f"{', '.join(names())}, all, or a file",
                            closest(word, list(names())))  # fmt: skip
    if not chosen:
        raise PlanError("--topologies", "names no topology", f"{', '.join(names())}, all, or a file")
    return chosen


def _described(path: str) -> Mapping[str, Any]:
    """The description in a YAML file; its name is the file's unless it states one."""
    document = read(path).plain()
    if not isinstance(document, dict) or "family" not in document:
        raise PlanError("--topologies", f"{path}: expected a mapping with family", ", ".join(FAMILIES))
    return {"name": Path(path).stem, **document}

"""Fitted parameters into the profiles that ship: an entry per device with runs, one per family, and the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.accuracy_fit import Result
from cann_plan.planner.calibrate_document import (
    Spread,
    interval,
    parameter_intervals,
    parameter_values,
    remarks,
    span,
)  # fmt: skip
from cann_plan.planner.calibrate_hierarchy import Place, configuration_weights, kinship

PROFILES = Path(__file__).resolve().parents[1] / "presets" / "profiles"
MARKER = "# Written by `make accuracy` from tests/data/measured; changes below this line are lost."
FAMILIES = ("ascend-910a", "ascend-a2", "volta", "ampere", "hopper", "blackwell")
VENDOR = {family: "Ascend" if family.startswith("ascend") else "NVIDIA" for family in FAMILIES}


def write_profiles(result: Result, profiles: Path = PROFILES) -> None:
    for path in sorted(profiles.glob("*.yaml")):
        text = path.read_text(encoding="utf-8").split(MARKER)[0].rstrip() + "\n"
        name = str(yaml.safe_load(text)["name"])
        path.write_text(f"{text}{MARKER}\n{_dump(document(result, name))}", encoding="utf-8")


def document(result: Result, stack: str) -> dict[str, Any]:
    """`calibrations`, `parameters` and `interval` of a stack."""
    places = {result.samples[i].place for i in result.fitted if result.samples[i].place.stack == stack}
    own = sorted(places, key=lambda place: str(place.device))
    entries = [_fitted(result, place) for place in own]
    vendors = {VENDOR[str(place.family)] for place in own} or {"Ascend" if stack == "mindspore" else "NVIDIA"}
    entries += [_family(result, family, stack) for family in FAMILIES if VENDOR[family] in vendors]
    field = result.joint.posterior
    if own:
        devices = ", ".join(str(place.device) for place in own)
        source = f"inherited: mean of all stacks moved as runs of this stack on {devices} move it"
    else:
        source = "inherited: no runs of this stack; mean of all stacks"
    basis = "runs of whole stacks left out: this device has no runs of any stack"
    return {
        "calibrations": entries,
        "parameters": parameter_values(field.theta(Place(None, None, stack)), source),
        "interval": interval(None, _spread(result, result.errors["stack"], None).ends(), basis),
    }


def _fitted(result: Result, place: Place) -> dict[str, Any]:
    mine = [int(i) for i in result.fitted if result.samples[i].place == place]
    samples = [result.samples[i] for i in mine]
    field = result.joint.posterior
    theta, spread = field.theta(place), field.spread(place)
    chosen = [bool(v) for v in result.joint.active[int(np.flatnonzero(result.fitted == mine[0])[0])]]
    unseen = result.errors["group"]
    errors = np.abs(np.exp(unseen[mine]) - 1.0)
    groups = {s.observation.group for s in samples}
    source = (
        f"fit on {len(mine)} runs of {len(groups)} models and sources with those of kindred devices and stacks; "
        f"left out by group: MAPE {errors.mean():.1%}, median {np.median(errors):.1%}"
    )
    vendor = VENDOR[str(place.family)]
    basis = "measured over predicted of runs left out by model and source"
    return {
        "devices": [place.device],
        "parameters": parameter_values(theta, source),
        "interval": interval(_spread(result, unseen, mine), _spread(result, unseen, _of(result, vendor)).ends(), basis),
        "sequence_length": span([s.sequence_length for s in samples]),
        "hidden_size": span([s.hidden_size for s in samples]),
        "ranks": span([s.devices for s in samples]),
        "parameter_intervals": parameter_intervals(theta, spread, chosen),
        "notes": remarks(theta, spread, field.prior.sigma * np.sqrt(kinship(place, place)), chosen),
    }  # fmt: skip


def _family(result: Result, family: str, stack: str) -> dict[str, Any]:
    place = Place(None, family, stack)
    source = f"inherited: mean of all stacks moved as runs on {family} devices and runs of this stack move it"
    basis = "runs of whole (device, stack) pairs left out: this device has no runs of this stack"
    members = _of(result, VENDOR[family])
    return {
        "devices": [family],
        "parameters": parameter_values(result.joint.posterior.theta(place), source),
        "interval": interval(None, _spread(result, result.errors["pair"], members).ends(), basis),
    }


def _of(result: Result, vendor: str) -> list[int]:
    return [int(i) for i in result.fitted if VENDOR[str(result.samples[i].place.family)] == vendor]


def _spread(result: Result, errors: np.ndarray, members: list[int] | None) -> Spread:
    index = [int(i) for i in result.fitted] if members is None else members
    samples = [result.samples[i] for i in index]
    weights = configuration_weights([s.observation for s in samples])
    return Spread(-errors[index], weights, len({s.observation.group for s in samples}))


class _Dumper(yaml.SafeDumper):
    pass


def _dump(data: dict[str, Any]) -> str:
    lines = ["calibrations:"]
    for entry in data["calibrations"]:
        for index, (key, value) in enumerate(entry.items()):
            text = _flow(value)
            lines.append(f"{'  - ' if index == 0 else '    '}{key}: {text}")
    lines += [f"{key}: {_flow(data[key])}" for key in ("parameters", "interval")]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6).strip()

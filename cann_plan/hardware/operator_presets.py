"""Load the operator constants of a device family from `presets/operators/<family>.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

import cann_plan
from cann_plan.hardware.operator_model import (
    AttentionFit,
    DecodeFit,
    GemmFit,
    GroupedGemmFit,
    OperatorModel,
    Provenance,
    Validity,
    VectorFit,
)

Fit = TypeVar("Fit")

_PROVENANCE_FIGURES = ("mape", "median", "p90", "held_out_mape", "held_out_median", "held_out_p90")


class UnknownOperatorFamily(ValueError):  # noqa: N818 - reads as the reason
    """No preset of that name."""


def operator_preset_directory() -> Path:
    """Directory of the shipped presets: inside the wheel, or beside the package in a source tree."""
    package = Path(cann_plan.__file__).resolve().parent
    inside = package / "presets" / "operators"
    return inside if inside.is_dir() else package.parent / "presets" / "operators"


def operator_families() -> list[str]:
    """Names of the shipped families."""
    return sorted(path.stem for path in operator_preset_directory().glob("*.yaml"))


@cache
def load_operator_model(family: str) -> OperatorModel:
    """The constants of `family`; sections it does not have come from the family it inherits from.

    Raises:
        UnknownOperatorFamily: no such preset.
    """
    path = operator_preset_directory() / f"{family}.yaml"
    if family not in operator_families():
        raise UnknownOperatorFamily(f"operator family {family!r}; allowed: {', '.join(operator_families())}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    return operator_model_from(document)


def operator_model_from(document: Mapping[str, Any]) -> OperatorModel:
    """The operator model a preset document describes."""
    inherits = document.get("inherits")
    parent = load_operator_model(str(inherits["family"])) if inherits else None

    def section(name: str, build: Callable[[Mapping[str, Any]], Fit], inherited: Mapping[str, Fit]) -> dict[str, Fit]:
        fits: dict[str, Fit] = {key: _mark(fit) for key, fit in inherited.items()}
        own: Mapping[str, Mapping[str, Any]] = document.get(name, {})
        for key, entry in own.items():
            same = entry.get("same_as")
            fits[key] = (
                _mark(build(own[str(same)])) if same and key != "fp16" else build(own[str(same)] if same else entry)
            )
        return fits

    decode = document.get("decode")
    optimizer = document.get("optimizer")
    matrix: Mapping[str, Any] = document.get("matrix_unit", {})
    return OperatorModel(
        family=str(document["family"]),
        reference=str(document["reference"]),
        gemm=section("gemm", _gemm, parent.gemm if parent else {}),
        grouped_gemm=section("grouped_gemm", _grouped, parent.grouped_gemm if parent else {}),
        attention=section("attention", _attention, parent.attention if parent else {}),
        default_attention=str(document.get("default_attention", parent.default_attention if parent else "")),
        decode=_decode(decode) if decode else _mark(_required(parent, "decode").decode),
        vector=section("vector", _vector, parent.vector if parent else {}),
        optimizer=_vector(optimizer) if optimizer else _mark(_required(parent, "optimizer").optimizer),
        tile=int(matrix.get("tile", parent.tile if parent else 1)),
        aligned_elements=int(matrix.get("aligned_elements", parent.aligned_elements if parent else 1)),
        misaligned_slowdown=float(matrix.get("misaligned_slowdown", parent.misaligned_slowdown if parent else 1.0)),
        inherits=f"{inherits['family']}: {inherits['rule']}" if inherits else None,
    )


def _required(parent: OperatorModel | None, section: str) -> OperatorModel:
    if parent is None:
        raise ValueError(f"an operator preset without a parent needs a section {section!r}")
    return parent


def _mark(fit: Any) -> Any:
    """`fit` with its provenance marked as inherited from another family."""
    return replace(fit, provenance=replace(fit.provenance, inherited=True))


def _provenance(entry: Mapping[str, Any]) -> Provenance:
    raw: Mapping[str, Any] = entry["provenance"]
    figures = {name: float(raw[name]) for name in _PROVENANCE_FIGURES if raw.get(name) is not None}
    return Provenance(
        source=str(raw["source"]),
        points=int(raw.get("points", 0)),
        inherited=bool(raw.get("inherited", False)),
        date=str(raw.get("date", "")),
        **figures,
    )


def _validity(entry: Mapping[str, Any]) -> Validity:
    ranges: Mapping[str, Any] = entry.get("validity", {})
    return Validity({name: (float(pair[0]), float(pair[1])) for name, pair in ranges.items()})


def _gemm(entry: Mapping[str, Any]) -> GemmFit:
    return GemmFit(
        launch_s=float(entry["launch_s"]),
        efficiency=float(entry["efficiency"]),
        memory_efficiency=float(entry["memory_efficiency"]),
        half_m=float(entry["half_m"]),
        half_n=float(entry["half_n"]),
        half_k=float(entry["half_k"]),
        half_units=float(entry.get("half_units", 0.0)),
        cast_launch_s=float(entry.get("cast_launch_s", 0.0)),
        cast_efficiency=float(entry.get("cast_efficiency", 0.0)),
        provenance=_provenance(entry),
        validity=_validity(entry),
    )


def _grouped(entry: Mapping[str, Any]) -> GroupedGemmFit:
    return GroupedGemmFit(
        launch_s=float(entry["launch_s"]),
        efficiency=float(entry["efficiency"]),
        memory_efficiency=float(entry["memory_efficiency"]),
        half_m=float(entry["half_m"]),
        half_n=float(entry["half_n"]),
        half_k=float(entry["half_k"]),
        provenance=_provenance(entry),
        validity=_validity(entry),
    )


def _attention(entry: Mapping[str, Any]) -> AttentionFit:
    return AttentionFit(
        launch_s=float(entry["launch_s"]),
        efficiency=float(entry["efficiency"]),
        memory_efficiency=float(entry["memory_efficiency"]),
        half_keys=float(entry["half_keys"]),
        half_units=float(entry["half_units"]),
        half_dim=float(entry["half_dim"]),
        backward_efficiency=float(entry["backward_efficiency"]),
        provenance=_provenance(entry),
        validity=_validity(entry),
    )


def _decode(entry: Mapping[str, Any]) -> DecodeFit:
    return DecodeFit(
        launch_s=float(entry["launch_s"]),
        memory_efficiency=float(entry["memory_efficiency"]),
        half_units=float(entry["half_units"]),
        provenance=_provenance(entry),
        validity=_validity(entry),
    )


def _vector(entry: Mapping[str, Any]) -> VectorFit:
    return VectorFit(
        launch_s=float(entry["launch_s"]),
        memory_efficiency=float(entry["memory_efficiency"]),
        provenance=_provenance(entry),
        validity=_validity(entry),
    )

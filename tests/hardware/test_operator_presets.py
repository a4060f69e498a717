"""Shipped operator constants: every family loads, every figure has a source, inheritance is visible."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cann_plan.hardware.operator_presets import UnknownOperatorFamily, load_operator_model, operator_families

MEASURED = ("a100", "h100", "h200", "b200", "ascend-a3-die")
INHERITED = ("ascend-910a", "ascend-910b", "b300", "gb200", "gb300", "generic", "v100")


def test_all_families_are_shipped() -> None:
    assert set(operator_families()) == set(MEASURED) | set(INHERITED)


@pytest.mark.parametrize("family", [*MEASURED, *INHERITED])
def test_every_constant_has_a_source_and_a_physical_value(family: str) -> None:
    model = load_operator_model(family)
    fits = [model.decode, model.optimizer, *model.gemm.values(), *model.grouped_gemm.values()]
    fits += [*model.attention.values(), *model.vector.values()]
    assert model.default_attention in model.attention
    assert "elementwise" in model.vector
    for fit in fits:
        assert fit.provenance.source
        for field in fields(fit):
            value = getattr(fit, field.name)
            if field.name == "backward_efficiency":
                assert 0.3 <= value <= 2.0
            elif field.name.endswith("efficiency"):
                assert 0.0 <= value <= 1.0
            elif field.name.startswith("half_") or field.name.endswith("launch_s"):
                assert value >= 0.0


@pytest.mark.parametrize("family", MEASURED)
def test_measured_products_state_points_range_and_held_out_errors(family: str) -> None:
    fit = load_operator_model(family).gemm["bf16"]
    assert fit.provenance.points >= 200
    assert fit.provenance.held_out_mape is not None
    assert not fit.provenance.inherited
    assert fit.validity.ranges["m"][1] >= 8192


@pytest.mark.parametrize("family", INHERITED)
def test_inherited_families_say_so(family: str) -> None:
    model = load_operator_model(family)
    assert model.inherits
    assert all(fit.provenance.inherited for fit in model.gemm.values())


def test_an_unknown_family_is_refused_with_the_list() -> None:
    with pytest.raises(UnknownOperatorFamily, match=r"allowed: a100, .*v100"):
        load_operator_model("a101")

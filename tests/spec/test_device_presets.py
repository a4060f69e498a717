"""Device presets: sources, names, dense peaks against published tables, capacities, refused data types."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cann_plan.spec.device import DeviceSpec, UnknownFigureError, UnsupportedDataTypeError
from cann_plan.spec.hardware_presets import (
    KINDS,
    Kind,
    UnknownPresetError,
    canonical_name,
    default_cluster_for_device,
    load_device,
    load_server,
    preset_directory,
    preset_document,
    preset_names,
    resolve_cluster,
)

DEVICES = preset_names("devices")
FILES = [(kind, name) for kind in KINDS for name in preset_names(kind)]
GIB = 2.0**30

# Dense TFLOP/s: Huawei simulator profiles (910B bins, per die for the A3), Atlas 900 launch (910A), NVIDIA, AMD and
# Google datasheets. The sparse marketing figures are twice the NVIDIA and AMD values.
DENSE = [
    ("ascend-910a-32g", "fp16", 256.0),
    ("ascend-910b-64g", "fp16", 376.0),
    ("ascend-910b-64g", "bf16", 353.9),
    ("ascend-910b3-64g", "bf16", 294.9),
    ("ascend-910b4-64g", "bf16", 245.8),
    ("ascend-910c-die-64g", "bf16", 353.9),
    ("v100-32g-sxm", "fp16", 125.0),
    ("a100-80g-sxm", "bf16", 312.0),
    ("a100-40g-sxm", "bf16", 312.0),
    ("a800-80g-sxm", "bf16", 312.0),
    ("h100-80g-sxm", "bf16", 989.0),
    ("h100-80g-sxm", "fp8", 1979.0),
    ("h100-80g-pcie", "bf16", 756.0),
    ("h800-80g-sxm", "bf16", 989.0),
    ("h20-96g", "bf16", 148.0),
    ("h200-141g-sxm", "bf16", 989.0),
    ("b200-180g-sxm", "bf16", 2250.0),
    ("b200-180g-sxm", "fp8", 4500.0),
    ("gb200-nvl72", "bf16", 2500.0),
    ("mi300x-192g", "bf16", 1307.4),
    ("mi250x-gcd-64g", "bf16", 191.5),
    ("l40s-48g", "bf16", 362.0),
    ("tpu-v4", "bf16", 275.0),
    ("tpu-v5p", "bf16", 459.0),
    ("tpu-v6e", "bf16", 918.0),
]

# GiB a framework reports: OOM messages and logs of torch, torch_npu and MindSpore.
VISIBLE = [
    ("ascend-910b-64g", 60.97),
    ("ascend-910c-die-64g", 60.97),
    ("ascend-910b4-32g", 29.50),
    ("a100-80g-sxm", 79.15),
    ("v100-32g-sxm", 31.74),
    ("h200-141g-sxm", 139.80),
    ("mi300x-192g", 191.98),
    ("rtx3090-24g", 23.58),
]


def figures(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every mapping with a `value` in a document."""
    if isinstance(node, dict):
        found = [(path, node)] if "value" in node else []
        return found + [f for k, v in node.items() if k != "sources" for f in figures(v, f"{path}.{k}")]
    if isinstance(node, list):
        return [f for i, v in enumerate(node) for f in figures(v, f"{path}[{i}]")]
    return []


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_every_figure_names_a_source_the_file_explains(kind: Kind, name: str) -> None:
    document = preset_document(kind, name)
    explained = set(document.get("sources", {}))
    used: set[str] = set()
    for path, figure in figures(document):
        keys = figure["source"].split("; ")
        assert set(keys) <= explained, path
        assert "none" not in keys or figure["value"] == "unknown" or "assumption" in figure.get("note", ""), path
        used.update(keys)
    assert used == explained


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_no_number_with_a_unit_stands_without_a_source(kind: Kind, name: str) -> None:
    """Rates, sizes and powers are figures, never bare values of a key."""
    quantity = re.compile(r"^\d[\d.]*\s*(GB/s|GiB|TFLOP/s|TOPS|us|W|kW)$")

    def walk(node: Any, path: str) -> None:
        if isinstance(node, dict):
            for k, v in node.items():
                if k != "value":
                    walk(v, f"{path}.{k}")
        elif isinstance(node, list):
            for v in node:
                walk(v, path)
        elif isinstance(node, str):
            assert not quantity.match(node), path

    walk(preset_document(kind, name), name)


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_aliases_are_unique_and_resolve(kind: Kind) -> None:
    seen: dict[str, str] = {}
    for name in preset_names(kind):
        document = preset_document(kind, name)
        assert document["name"] == name
        for alias in [name, *document["aliases"]]:
            assert seen.setdefault(alias.lower(), name) == name, alias
            assert canonical_name(kind, alias) == name
            assert canonical_name(kind, alias.upper()) == name


@pytest.mark.parametrize("kind", KINDS)
def test_a_preset_is_read_on_one_screen(kind: Kind) -> None:
    for name in preset_names(kind):
        lines = (preset_directory(kind) / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 60, name


@pytest.mark.parametrize(("device", "dtype", "tflops"), DENSE)
def test_peaks_are_the_published_dense_ones(device: str, dtype: str, tflops: float) -> None:
    assert load_device(device).peak_flops(dtype) == pytest.approx(tflops * 1e12, rel=1e-12)


@pytest.mark.parametrize(("device", "gib"), VISIBLE)
def test_visible_capacity_is_what_frameworks_report(device: str, gib: float) -> None:
    assert load_device(device).visible_memory() == pytest.approx(gib * GIB, rel=1e-12)


@pytest.mark.parametrize("name", DEVICES)
def test_visible_capacity_is_below_the_nominal_one(name: str) -> None:
    device = load_device(name)
    capacity = device.memory.capacity.value
    assert capacity is not None
    if device.memory.visible.known:
        assert 0.9 * capacity < device.visible_memory() < capacity
    else:
        assert device.visible_memory() == capacity
        assert any("visible" in text for text in device.assumed())
    assert device.runtime_memory.value is not None
    assert device.runtime_memory.value < 0.1 * capacity


def test_80_gb_cards_show_79_gib_and_never_80() -> None:
    for name in ("a100-80g-sxm", "a800-80g-sxm", "h100-80g-sxm", "h800-80g-sxm"):
        assert 79.10 * GIB <= load_device(name).visible_memory() <= 79.35 * GIB


@pytest.mark.parametrize(
    ("device", "dtype", "reason"),
    [
        ("ascend-910a-32g", "bf16", "fp16"),
        ("ascend-910a-32g", "fp8", "fp16"),
        ("ascend-910b-64g", "fp8", "no source states an fp8 rate"),
        ("ascend-910c-die-64g", "fp8", "no source states an fp8 rate"),
        ("v100-32g-sxm", "bf16", "Ampere"),
        ("a100-80g-sxm", "fp8", "Hopper"),
        ("h100-80g-sxm", "mxfp8", "not scaled in hardware"),
        ("h100-80g-sxm", "fp4", "Blackwell"),
        ("tpu-v5p", "fp16", "bf16"),
        ("ascend-950pr-128g", "bf16", "no source states its dense bf16 rate"),
        ("rtx4090-24g", "bf16", "no source states its dense bf16 rate"),
    ],
)
def test_a_data_type_without_a_rate_is_refused_with_the_reason(device: str, dtype: str, reason: str) -> None:
    spec = load_device(device)
    with pytest.raises(UnsupportedDataTypeError, match=reason) as refusal:
        spec.peak_flops(dtype)
    assert dtype not in refusal.value.allowed
    assert set(refusal.value.allowed) == set(spec.known_peaks)


def test_block_scaled_formats_run_at_the_plain_rate_where_hardware_scales_them() -> None:
    b200 = load_device("b200-180g-sxm")
    assert b200.peak_flops("mxfp8") == b200.peak_flops("fp8")
    assert b200.peak_flops("nvfp4") == b200.peak_flops("fp4")
    assert load_device("mi355x-288g").peak_flops("mxfp4") == 10100e12


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("ATLAS_800_A2_376T_64G", "ascend-910b-64g"),
        ("ATLAS_800_A2_313T_64G", "ascend-910b3-64g"),
        ("ATLAS_800_A2_280T_64G", "ascend-910b4-64g"),
        ("ATLAS_800_A3_752T_128G_DIE", "ascend-910c-die-64g"),
        ("ascend-910b-376t-64g", "ascend-910b-64g"),
        ("ascend-910a", "ascend-910a-32g"),
        ("v100-sxm2-32g", "v100-32g-sxm"),
        ("b200-sxm", "b200-180g-sxm"),
        ("b300-sxm", "b300-288g-sxm"),
        ("gb300", "gb300-nvl72"),
        ("h100-nvl-96g", "h100-94g-nvl"),
        ("mi300x", "mi300x-192g"),
    ],
)
def test_names_of_other_tools_and_of_published_runs_are_aliases(alias: str, name: str) -> None:
    assert canonical_name("devices", alias) == name


def test_a_mistyped_device_gets_a_suggestion() -> None:
    with pytest.raises(UnknownPresetError, match="did you mean 'ascend-910b-64g'") as error:
        load_device("ascend-910b-64gb")
    assert "a100-80g-sxm" in error.value.allowed


def test_assumptions_of_an_unnamed_910b_and_of_the_910a_are_said() -> None:
    assert any("376T" in text for text in load_device("ascend-910b").assumed())
    assert any("1,200 GB/s" in text for text in load_device("ascend-910a").assumed())


@pytest.mark.parametrize("name", DEVICES)
def test_inherited_operator_constants_are_said(name: str) -> None:
    device = load_device(name)
    if device.operators.inherited:
        assert any("operator" in text for text in device.assumed())


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_has_a_usual_cluster_that_resolves(name: str) -> None:
    cluster = resolve_cluster(name)
    assert cluster.device.name == name
    assert cluster.devices == load_server(str(cluster.spec.server)).devices_per_node
    assert cluster.name == default_cluster_for_device(name)


def test_memory_only_devices_give_capacity_and_refuse_rates() -> None:
    device = load_device("rtx4090-24g")
    assert device.memory_only
    assert device.visible_memory() == pytest.approx(23.58 * GIB)
    with pytest.raises(UnknownFigureError, match=r"memory\.bandwidth"):
        device.memory_bandwidth()


def test_a_user_device_needs_no_sources_section() -> None:
    device = DeviceSpec.model_validate(
        {
            "name": "photonic-1",
            "peak": {"bf16": {"value": "1 PFLOP/s", "source": "vendor talk"}, "fp8": "2 PFLOP/s"},
            "memory": {"capacity": "128 GiB", "visible": "120 GiB", "bandwidth": "4 TB/s"},
        }
    )
    assert device.peak_flops("fp8") == 2e15
    assert device.peak_figure("bf16").source == "vendor talk"
    assert device.memory_bandwidth() == 4e12


@pytest.mark.parametrize(
    "change",
    [
        {"memory": {"capacity": "64 GiB", "visible": "65 GiB"}},
        {"peak": {"fp8": "1 PFLOP/s"}, "unsupported": {"fp8": "no"}},
        {"peak": {"fp7": "1 PFLOP/s"}},
        {"speed": 3},
        {"family": "ascend-a9"},
    ],
)
def test_contradictions_and_unknown_keys_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        DeviceSpec.model_validate({"name": "x"} | change)

"""Clusters: counting devices in dies and packages, level layout, documents that extend presets."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.spec.cluster import ClusterError
from cann_plan.spec.device import UnknownFigureError
from cann_plan.spec.hardware_presets import (
    UnknownPresetError,
    load_cluster_spec,
    load_server,
    preset_names,
    resolve_cluster,
)
from cann_plan.spec.server import LevelSpec, squarest

CLUSTERS = preset_names("clusters")
SCALABLE = [name for name in CLUSTERS if load_cluster_spec(name).scale_out and not load_cluster_spec(name).nodes]


def level(cluster: Any, name: str) -> dict[str, Any]:
    return next(item for item in cluster.network_levels() if item["name"] == name)


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_preset_resolves_and_its_levels_join_its_devices(name: str) -> None:
    cluster = resolve_cluster(name)
    levels = cluster.network_levels()
    assert math.prod(item["size"] for item in levels) == cluster.devices
    assert 0 <= cluster.node_levels <= len(levels)
    assert cluster.library in ("hccl", "nccl", "rccl", "ideal")


@pytest.mark.parametrize("name", SCALABLE)
@settings(max_examples=25, deadline=None)
@given(nodes=st.integers(1, 384))
def test_levels_hold_any_number_of_nodes_without_waste_of_a_whole_unit(name: str, nodes: int) -> None:
    cluster = resolve_cluster(name)
    if cluster.most_nodes is not None:
        nodes = min(nodes, cluster.most_nodes)
    grown = cluster.with_nodes(nodes)
    joined = math.prod(item.count for item in grown.levels)
    assert grown.devices == nodes * grown.devices_per_node
    assert joined >= grown.devices
    if len(grown.levels) > 1:
        below = math.prod(item.count for item in grown.levels[:-1])
        assert joined - grown.devices < below
    assert all(item.count > 1 for item in grown.levels)


def test_cloudmatrix384_is_384_packages_and_768_ranks() -> None:
    cluster = resolve_cluster("cloudmatrix384")
    assert (cluster.nodes, cluster.devices_per_node, cluster.devices, cluster.packages) == (48, 16, 768, 384)
    assert [item["size"] for item in cluster.network_levels()] == [2, 8, 48]


@pytest.mark.parametrize(("unit", "devices"), [("package", 384), ("die", 768), (None, 768)])
def test_devices_are_counted_in_the_unit_the_document_names(unit: str | None, devices: int) -> None:
    document: dict[str, Any] = {"extends": "atlas-900-a3", "devices": devices}
    if unit:
        document["count_unit"] = unit
    cluster = resolve_cluster(document)
    assert (cluster.nodes, cluster.devices) == (48, 768)
    said = [item for item in cluster.assumptions if item.path == "cluster.count_unit"]
    assert bool(said) == (unit is None)


def test_packages_per_node_are_counted_too() -> None:
    cluster = resolve_cluster({"extends": "atlas-900-a3", "nodes": 2, "devices_per_node": 4, "count_unit": "package"})
    assert (cluster.devices_per_node, cluster.devices) == (8, 16)


def test_package_and_die_are_the_same_where_a_package_is_one_device() -> None:
    for unit in ("package", "die"):
        assert resolve_cluster({"extends": "atlas-900-a2", "devices": 64, "count_unit": unit}).devices == 64


def test_910b_mesh_has_18_gb_per_link_and_20_gb_per_adapter() -> None:
    """HCCL plans with 18.3 of 28 GB/s per HCCS link and 20 of 25 GB/s per RoCE port."""
    cluster = resolve_cluster({"extends": "atlas-900-a2", "nodes": 32})
    assert (cluster.devices, cluster.library, cluster.generation, cluster.node_levels) == (256, "hccl", "a2", 1)
    mesh, roce = cluster.network_levels()
    assert (mesh["kind"], mesh["size"], roce["kind"], roce["size"]) == ("full-mesh", 8, "switch", 32)
    assert mesh["bandwidth"] * mesh["efficiency"] == pytest.approx(18.3e9, rel=2e-3)
    assert roce["bandwidth"] * roce["efficiency"] == pytest.approx(20e9, rel=1e-12)


def test_a3_node_is_dies_in_pairs_on_a_switch_and_scales_to_48_nodes_over_ub() -> None:
    cluster = resolve_cluster({"extends": "atlas-900-a3", "nodes": 96})
    assert [(item["kind"], item["size"]) for item in cluster.network_levels()] == [
        ("pair", 2),
        ("switch", 8),
        ("switch", 48),
        ("switch", 2),
    ]
    assert level(cluster, "UB SuperPoD")["bandwidth"] == 196e9
    assert level(cluster, "RoCE")["bandwidth"] == 25e9


def test_nvl72_spans_18_trays_and_counts_as_one_node_for_the_library() -> None:
    cluster = resolve_cluster({"extends": "gb200-nvl72", "devices": 144})
    assert (cluster.nodes, cluster.devices_per_node, cluster.node_levels) == (36, 4, 1)
    assert [item["size"] for item in cluster.network_levels()] == [72, 2]
    assert [item["size"] for item in resolve_cluster({"extends": "gb200-nvl72", "devices": 32}).network_levels()] == [
        32
    ]


@pytest.mark.parametrize(
    ("devices", "sizes"), [(256, [64, 4]), (64, [64]), (72, [72]), (148, [52, 3]), (1024, [64, 16])]
)
def test_jobs_are_spread_evenly_over_racks_in_whole_trays(devices: int, sizes: list[int]) -> None:
    cluster = resolve_cluster({"extends": "gb200-nvl72", "devices": devices})
    assert [item["size"] for item in cluster.network_levels()] == sizes


def test_oversubscription_counts_only_beyond_a_pod() -> None:
    inside = resolve_cluster({"extends": "meta-h100-24k", "nodes": 384})
    beyond = resolve_cluster({"extends": "meta-h100-24k", "nodes": 768})
    assert [item["oversubscription"] for item in inside.network_levels()] == [1.0, 1.0]
    assert [item["oversubscription"] for item in beyond.network_levels()] == [1.0, 1.0, 7.0]
    with pytest.raises(ClusterError, match="joins 3072 servers"):
        inside.with_nodes(3073)


def test_part_of_a_node_uses_part_of_its_mesh() -> None:
    assert resolve_cluster({"extends": "atlas-900-a2", "devices": 4}).network_levels()[0]["size"] == 4
    pair = resolve_cluster({"extends": "atlas-900-a3", "devices": 2})
    assert [(item["kind"], item["size"]) for item in pair.network_levels()] == [("pair", 2)]
    alone = resolve_cluster({"extends": "dgx-a100", "devices": 1})
    assert [item["size"] for item in alone.network_levels()] == [1]


def test_torus_slices_close_only_where_the_wiring_closes() -> None:
    """TPU v4 cubes of 4x4x4 close; a 2x2x2 slice does not (jax-ml/scaling-book, tpus)."""
    cube = level(resolve_cluster({"extends": "tpu-v4", "devices": 64}), "ICI torus")
    small = level(resolve_cluster({"extends": "tpu-v4", "devices": 8}), "ICI torus")
    assert (cube["dimensions"], cube["wrap"]) == ((4, 4, 4), True)
    assert (small["dimensions"], small["wrap"]) == ((2, 2, 2), False)


@given(size=st.integers(1, 20_000), axes=st.integers(1, 3))
def test_squarest_factors_multiply_to_the_size(size: int, axes: int) -> None:
    lengths = squarest(size, axes)
    assert math.prod(lengths) == size
    assert len(lengths) == axes


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ({"extends": "atlas-900-a2", "devices": 12}, "devices", "not whole nodes of 8"),
        ({"extends": "atlas-900-a2", "devices": 24, "nodes": 2}, "devices", "do not fill 2 nodes"),
        ({"extends": "atlas-900-a2", "devices_per_node": 16}, "devices_per_node", "has 8"),
        ({"extends": "workstation", "nodes": 2}, "nodes", "no network between servers"),
        ({"extends": "cloudmatrix384", "nodes": 49}, "nodes", "joins 48 servers"),
        ({"nodes": 2}, "server", "needs"),
    ],
)
def test_impossible_counts_are_refused_at_the_key(document: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message) as error:
        resolve_cluster(document)
    assert error.value.path == path


def test_devices_per_node_may_be_fewer_than_the_server_has() -> None:
    cluster = resolve_cluster({"extends": "dgx-a100", "devices": 12, "devices_per_node": 4})
    assert (cluster.nodes, cluster.devices_per_node) == (3, 4)
    assert [item["size"] for item in cluster.network_levels()] == [4, 3]


def test_a_cluster_document_overrides_device_figures_and_host() -> None:
    cluster = resolve_cluster(
        {
            "extends": "atlas-900-a2",
            "nodes": 4,
            "device": {"extends": "ascend-910b3", "name": "mine", "memory": {"bandwidth": "1.2 TB/s"}},
            "host": {"memory": "1.5 TiB"},
        }
    )
    assert cluster.device.name == "mine"
    assert cluster.device.peak_flops("bf16") == pytest.approx(294.9e12)
    assert cluster.device.memory_bandwidth() == 1.2e12
    assert cluster.host.memory.value == 1.5 * 2**40
    assert cluster.host.cores.value == 192


def test_a_document_that_names_only_a_device_gets_its_usual_cluster() -> None:
    cluster = resolve_cluster({"device": "a100-80g", "devices": 64})
    assert (cluster.name, cluster.device.name, cluster.nodes) == ("dgx-a100", "a100-80g-sxm", 8)


def test_nodes_of_the_document_replace_devices_of_the_preset() -> None:
    assert resolve_cluster({"extends": "cloudmatrix384", "devices": 64}).nodes == 4


def test_nodes_left_to_the_planner_are_marked() -> None:
    assert not resolve_cluster("atlas-900-a2").nodes_stated
    assert resolve_cluster("atlas-900-a2").with_nodes(3).nodes_stated
    assert resolve_cluster("cloudmatrix384").nodes_stated


def test_an_unknown_link_is_refused_when_needed_and_not_before() -> None:
    document: dict[str, Any] = {
        "server": {
            "name": "box",
            "device": "ascend-910b-64g",
            "devices_per_node": 2,
            "levels": [{"name": "link", "kind": "pair", "size": 2, "bandwidth": "unknown", "latency": "1 us"}],
        }
    }
    cluster = resolve_cluster(document)
    with pytest.raises(UnknownFigureError, match="level link: bandwidth is unknown"):
        cluster.network_levels()


def test_a_server_whose_levels_do_not_join_its_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="levels join 2 devices"):
        resolve_cluster(
            {
                "server": {
                    "name": "box",
                    "device": "ascend-910b-64g",
                    "devices_per_node": 8,
                    "levels": [{"name": "x", "kind": "pair", "size": 2, "bandwidth": "1 GB/s", "latency": "1 us"}],
                }
            }
        )


def test_a_level_of_rest_must_be_outermost() -> None:
    tier = {"name": "x", "kind": "switch", "size": "rest", "bandwidth": "25 GB/s", "latency": "1 us"}
    with pytest.raises(ValueError, match="outermost"):
        resolve_cluster({"extends": "dgx-a100", "scale_out": [tier, tier]})


def test_resizing_opens_a_ring_and_keeps_a_whole_one() -> None:
    ring = LevelSpec.model_validate({"name": "r", "kind": "ring", "size": 8, "bandwidth": "10 GB/s", "latency": "1 us"})
    assert ring.resized(8).wrap
    assert not ring.resized(4).wrap


def test_an_unknown_cluster_gets_a_suggestion() -> None:
    with pytest.raises(UnknownPresetError, match="did you mean 'atlas-900-a2'"):
        resolve_cluster("atlas-900-a22")


def test_power_of_known_servers() -> None:
    """DGX A100 6.5 kW, DGX H100 10.2 kW rated and 76% of it while training (arXiv 2506.14551)."""
    assert load_server("dgx-a100").power.rated.value == 6500.0
    h100 = load_server("dgx-h100").power
    assert h100.rated.value == 10200.0
    assert h100.training.value == pytest.approx(0.76 * 10200.0, rel=1e-3)
    assert load_server("atlas-800t-a2").power.rated.value is None

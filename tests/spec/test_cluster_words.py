"""Words of publications to cluster documents."""

from __future__ import annotations

import pytest

from cann_plan.spec.hardware_presets import resolve_cluster
from cann_plan.spec.hardware_words import cluster_from_words


@pytest.mark.parametrize(
    ("device", "hardware", "network", "cluster", "gigabytes_per_second"),
    [
        ("ascend-910b-64g", "ascend-910b-64g (Atlas 800T A2)", "HCCS; RoCE; not stated", "atlas-800t-a2", 25.0),
        ("ascend-910b-64g", "ascend-910b-64g (Atlas 900 A2 PoDc)", "", "atlas-900-a2", 25.0),
        ("ascend-910b3-64g", "ascend-910b3-64g (Atlas 800T A2)", "", "atlas-800t-a2", 25.0),
        ("ascend-910b-64g", "server not named", "HCCS full mesh in node; 200 Gbps RoCE per NPU", "atlas-900-a2", 25.0),
        ("ascend-910a-32g", "server not named", "not stated", "atlas-800-9000", 12.5),
        ("a100-80g-sxm", "a100-80g-sxm", "1600 Gbps per node RoCE", "dgx-a100", 25.0),
        ("a100-80g-sxm", "a100", "NVLink intra-node; inter-node 800 Gbps per node", "dgx-a100", 12.5),
        ("a100-80g-sxm", "a100", "400 Gbps per node", "dgx-a100", 6.25),
        ("a100-80g-sxm", "(Jean Zay)", "NVLink in node, 4 x Omni-Path 100 Gbps per node", "jean-zay-a100", 6.25),
        ("a100-80g-sxm", "(Selene)", "NVLink in node; 8 x 200 Gbps HDR InfiniBand per DGX A100", "dgx-a100", 25.0),
        ("h100-80g-sxm", "(Eos)", "NVLink4 450 GB/s in node; 400 Gbps InfiniBand per GPU (Eos)", "dgx-h100", 50.0),
        ("h100-80g-sxm", "h100-80g-sxm (A3)", "", "gcp-a3-high", 12.5),
        ("h200-141g-sxm", "", "NVLink in node; 400 Gb/s RDMA per GPU between nodes", "dgx-h200", 50.0),
        ("b300-sxm", "b300 (DGX B300)", "NVLink in node; inter-node not stated", "dgx-b300", 100.0),
    ],
)
def test_named_systems_and_stated_rates_are_taken(
    device: str, hardware: str, network: str, cluster: str, gigabytes_per_second: float
) -> None:
    resolved = resolve_cluster(cluster_from_words(device, hardware, network) | {"nodes": 4})
    assert resolved.name == cluster
    assert resolved.network_levels()[-1]["bandwidth"] == pytest.approx(gigabytes_per_second * 1e9)
    assert resolved.network_levels()[-1]["size"] == 4


def test_the_bin_of_the_run_is_kept_on_the_named_server() -> None:
    document = cluster_from_words("ascend-910b3-64g", "Atlas 800T A2")
    assert resolve_cluster(document).device.name == "ascend-910b3-64g"


def test_a_system_of_another_device_is_not_taken() -> None:
    assert cluster_from_words("h100-80g-sxm", "compared with Jean Zay")["extends"] == "dgx-h100"


def test_fewer_devices_per_node_share_the_stated_rate() -> None:
    document = cluster_from_words("a100-80g-sxm", network="800 Gbps per node", devices_per_node=4)
    assert resolve_cluster(document | {"nodes": 2}).network_levels()[-1]["bandwidth"] == pytest.approx(25e9)

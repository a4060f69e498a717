"""Topology files: closed forms on what they describe, located problems with what they get wrong."""

import pytest

from cann_plan.planner.collective import collective
from cann_plan.planner.collective_network import network_of_file
from cann_plan.spec.errors import SpecError

US = 1e-6


@pytest.fixture
def network(tmp_path):
    def read(text):
        file = tmp_path / "links.yaml"
        file.write_text(text, encoding="utf-8")
        return network_of_file(file)

    return read


def test_ring_all_reduce_of_a_file_is_the_closed_form(network):
    # 2 (p - 1) (alpha + n / p / B), bandwidth binary where written so (ASTRA-sim and TACOS count GiB/s)
    links = network("levels: [{kind: ring, size: 8, bandwidth: 50 GiB/s, latency: 500 ns}]")
    answer = collective("all-reduce", 2**26, links, 8, "ring")
    assert answer["time_s"] == pytest.approx(14 * (0.5 * US + 2**23 / (50 * 2**30)))
    # ASTRA-sim 518bd51, analytical congestion-aware backend: 2194.683 us
    assert answer["time_s"] == pytest.approx(2194.683 * US, rel=1e-3)


def test_gigabytes_are_decimal_unless_written_otherwise(network):
    decimal, binary = (
        network(f"levels: [{{kind: switch, size: 4, bandwidth: 100 {unit}, latency: 0}}]") for unit in ("GB/s", "GiB/s")
    )
    slow, fast = (collective("all-gather", 1e9, links, 4)["time_s"] for links in (decimal, binary))
    assert slow / fast == pytest.approx(1.024**3)


def test_a_switch_counts_its_latency_once_end_to_end(network):
    links = network("levels: [{kind: switch, size: 8, bandwidth: 100 GB/s, latency: 2 us}]")
    assert collective("send-recv", 1.0, links, 2)["time_s"] == pytest.approx(2 * US, rel=1e-4)


def test_levels_run_from_the_innermost_out(network):
    links = network(
        """
levels:
  - {kind: full-mesh, size: 4, bandwidth: 200 GB/s, latency: 1 us}
  - {name: spine, kind: switch, size: 2, bandwidth: 10 GB/s, latency: 5 us}
"""
    )
    assert links.devices == 8
    assert collective("all-reduce", 1e9, links, 4)["bottleneck"] == "level 0 full-mesh"
    assert collective("all-reduce", 1e9, links, 8)["bottleneck"] == "spine"
    assert collective("all-reduce", 1e9, links, 2, stride=4)["bottleneck"] == "spine"


def test_a_torus_is_one_ring_per_axis(network):
    torus = network("levels: [{kind: torus, dimensions: [4, 4, 4], size: 64, bandwidth: 50 GB/s, latency: 1 us}]")
    # every device has six links: the multi-dimensional ring keeps all of them busy, 2 (p - 1)/p n / (6 W)
    assert collective("all-reduce", 1e10, torus, 64, "best")["time_s"] == pytest.approx(
        2 * 63 / 64 * 1e10 / (6 * 50e9), rel=0.01
    )


@pytest.mark.parametrize(
    ("text", "line", "path", "message"),
    [
        ("levels:\n  - {kind: rng, size: 8, bandwidth: 1 GB/s, latency: 0}", 2, "levels[0].kind", "unknown value"),
        ("levels:\n  - {kind: ring, size: 8, latency: 0}", 2, "levels[0].bandwidth", "is missing"),
        ("levels: []", 1, "levels", "no level"),
        ("levels: 3", 1, "levels", "expected a list"),
        ("{}", 1, "levels", "is missing"),
        ("levels:\n  - {kind: ring, size: 8, bandwidth: 25, latency: 0}", 2, "levels[0].bandwidth", "unit missing"),
        ("levels:\n  - {kind: ring, size: 8, bandwidth: 1 GB/s, latency: 500}", 2, "levels[0].latency", "unit missing"),
        ("levels:\n  - {kind: ring, size: rest, bandwidth: 1 GB/s, latency: 0}", 2, "levels[0].size", "every size"),
        ("levels:\n  - {kind: ring, size: 0, bandwidth: 1 GB/s, latency: 0}", 2, "levels[0].size", "too small"),
        ("levels:\n  - {kind: ring, size: 8, bandwidth: 1 GT/s, latency: 0}", 2, "levels[0].bandwidth", "ambiguous"),
        ("levels:\n  - {kind: ring, size: 8, bandwidth: unknown, latency: 0}", 2, "levels", "bandwidth"),
        ("levels:\n  - {kind: ring, size: 3B, bandwidth: 1 GB/s, latency: 0}", 1, "levels", "too many devices"),
        ("[1]", 1, None, "expected a topology"),
        (
            "node_levels: 3\nlevels: [{kind: ring, size: 8, bandwidth: 1 GB/s, latency: 0}]",
            1,
            "node_levels",
            "3 levels",
        ),
    ],
)
def test_what_is_wrong_is_located(network, text, line, path, message):
    with pytest.raises(SpecError) as caught:
        network(text)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert problem.path == path
    assert problem.line is not None
    assert abs(problem.line - line) <= (1 if path == "levels" else 0)

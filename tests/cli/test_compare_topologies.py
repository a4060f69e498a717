"""`cann-plan compare-topologies` as it is called."""

import csv
import importlib.util
import io
import json

import pytest


def test_without_a_plan_it_says_what_to_buy(call):
    done = call("compare-topologies", "--topologies", "fat-tree,torus-3d,dragonfly")
    assert done.returncode == 0
    assert "buy " in done.stdout
    assert "1,024 devices" in done.stdout
    for name in ("fat-tree", "torus-3d", "dragonfly"):
        assert name in done.stdout
    assert "replaces the network between servers only" in done.stdout.replace("\n", " ")


def test_devices_and_json(call):
    done = call("compare-topologies", "--devices", "2048", "-t", "rail-only,super-pod", "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["devices"] == 2048
    assert [item["endpoints"] >= 2048 for item in document["topologies"]] == [True, True]


def test_csv_is_one_table(call):
    done = call("compare-topologies", "-t", "fat-tree,torus-3d", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["name"] for row in rows] in (["fat-tree", "torus-3d"], ["torus-3d", "fat-tree"])
    assert all(float(row["step_s"]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-t", "dragonfli"), "did you mean dragonfly?"),
        (("--routing", "magic"), "topology-aware"),
        (("--injection", "25"), "below 1 MB/s"),
        (("--injection", "quick"), "not a bandwidth"),
        (("--devices", "8"), "one server"),
        (("--prices", "none.yaml"), "no such file"),
        (("-t", "./none.txt"), "No such file"),
        (("--set", "cluster.topology=dragonfli", "-t", "fat-tree"), "unknown topology 'dragonfli'"),
    ],
)
def test_what_is_wrong_is_said(call, arguments, words):
    done = call("compare-topologies", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the plot extra is not installed")
def test_a_plot(call, tmp_path):
    file = tmp_path / "nets.svg"
    done = call("compare-topologies", "-t", "fat-tree,torus-3d", "--plot", str(file), "-q")
    assert done.returncode == 0
    assert "torus-3d" in file.read_text()
    wrong = call("compare-topologies", "-t", "fat-tree", "--plot", str(tmp_path / "nets.xyz"))
    assert wrong.returncode == 2

"""`cann-plan collective` from the command line."""

import csv
import io
import json

import jsonschema
import pytest

from cann_plan.report.json_schema import document_schema

RING = "levels: [{kind: ring, size: 8, bandwidth: 50 GB/s, latency: 0.5 us}]\n"


def test_json_keeps_the_contract(call):
    done = call("collective", "all-reduce", "--bytes", "64 MiB", "--cluster", "dgx-h100", "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    jsonschema.validate(document, document_schema("collective", strict=True))
    assert document["ranks"] == 8
    assert document["bytes"] == 2**26


def test_topology_from_standard_input(call):
    done = call("collective", "all-gather", "-b", "1GB", "--topology", "-", "--format", "json", stdin=RING)
    assert json.loads(done.stdout)["bottleneck"] == "level 0 ring"


def test_sweep_is_a_table_as_nccl_tests_print_it(call):
    arguments = (
        "collective",
        "all-reduce",
        "--sweep",
        "--bytes",
        "1 MiB",
        "--cluster",
        "atlas-900-a2",
        "--ranks",
        "64",
    )
    document = json.loads(call(*arguments, "--format", "json").stdout)
    jsonschema.validate(document, document_schema("collective-sweep", strict=True))
    assert [row["bytes"] for row in document["rows"]] == [2**power for power in range(10, 21)]
    rows = list(csv.DictReader(io.StringIO(call(*arguments, "--format", "csv").stdout)))
    assert [float(row["time_s"]) for row in rows] == [row["time_s"] for row in document["rows"]]
    screen = call(*arguments).stdout
    assert "busbw, GB/s" in screen
    assert "1.00 MiB" in screen


def test_one_rank_is_an_answer(call):
    done = call("collective", "broadcast", "-b", "1MB", "--cluster", "dgx-h100", "--ranks", "1")
    assert done.returncode == 0
    assert "nothing moves" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all-reduce", "--cluster", "dgx-h100"), "missing option --bytes"),
        (("all-reduce", "-b", "1MB"), "one of --cluster and --topology"),
        (("all-reduce", "-b", "1MB", "--cluster", "dgx-h100", "--topology", "x.yaml"), "one of --cluster"),
        (("gossip", "-b", "1MB", "--cluster", "dgx-h100"), "unknown collective 'gossip'"),
        (("all-reduce", "-b", "1 parsec", "--cluster", "dgx-h100"), "unknown unit 'parsec'"),
        (("all-reduce", "-b", "0", "--cluster", "dgx-h100"), "out of range"),
        (("all-reduce", "-b", "1MB", "--cluster", "dgx-h10"), "did you mean dgx-h100?"),
        (("all-reduce", "-b", "1MB", "--cluster", "dgx-h100", "--algorithm", "magic"), "unknown algorithm"),
        (("all-reduce", "-b", "1MB", "--topology", "none.yaml"), "no such file"),
        (("all-reduce", "-b", "1MB", "--cluster", "workstation", "--ranks", "64"), "--ranks"),
    ],
)
def test_wrong_input_is_exit_2_without_a_traceback(call, arguments, message):
    done = call("collective", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_bad_topology_is_located(call):
    done = call(
        "collective", "all-reduce", "-b", "1MB", "--topology", "-", stdin=RING.replace("kind: ring", "kind: rng")
    )
    assert done.returncode == 2
    assert "<stdin>:1:17: levels[0].kind: unknown value 'rng'" in done.stderr
    assert "did you mean ring?" in done.stderr

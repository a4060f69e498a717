"""`cann-plan claims` from the command line."""

import csv
import io
import json

import jsonschema

from cann_plan.report.json_schema import document_schema


def test_json_keeps_the_contract(call):
    done = call("claims", "energy", "rdma", "--format", "json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    jsonschema.validate(document, document_schema("claims", strict=True))
    assert [claim["id"] for claim in document["claims"]] == ["rdma", "energy"]


def test_screen_has_verdict_reason_and_the_way_to_compute_it_again(call):
    brief = call("claims", "energy", "--quiet").stdout
    assert "not reachable" in brief
    assert "Why" not in brief
    full = call("claims", "energy", "--explain").stdout
    assert "--set 'economics.pue=1.111'" in full
    assert "assumed:" in full


def test_csv_has_one_row_per_claim(call):
    rows = list(csv.DictReader(io.StringIO(call("claims", "energy", "model-memory", "--format", "csv").stdout)))
    assert [row["id"] for row in rows] == ["model-memory", "energy"]
    assert rows[0]["plan"] == "claim-model-memory"


def test_an_unknown_claim_is_exit_2(call):
    done = call("claims", "enrgy")
    assert done.returncode == 2
    assert "did you mean energy?" in done.stderr

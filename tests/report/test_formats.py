"""JSON is lossless, CSV and Markdown are well formed."""

import csv
import io
import json
import math
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cann_plan.planner.contract import DOCUMENTS
from cann_plan.report import delimited, json_text, markdown
from cann_plan.report.blocks import Column, Table, View
from cann_plan.report.json_schema import document_schema
from cann_plan.report.render import render


def test_json_is_the_document_unrounded(document: dict[str, Any]) -> None:
    document["time"]["step_s"] = 0.1 + 0.2
    assert json.loads(render(document, "json")) == document


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_json_and_csv_to_the_last_bit(value: float) -> None:
    assert json.loads(json_text.write({"x": value}))["x"] == value
    table = Table("", (Column("x", "X"),), [[value]])
    assert float(delimited.write(View([], table)).splitlines()[1]) == value


def test_json_has_no_nan_and_takes_numpy() -> None:
    text = json_text.write({"a": math.nan, "b": np.float64(1.5), "c": np.int64(3), "d": np.arange(2), "e": np.bool_(1)})
    assert json.loads(text) == {"a": None, "b": 1.5, "c": 3, "d": [0, 1], "e": True}


def test_the_estimate_validates_against_its_schema(document: dict[str, Any]) -> None:
    jsonschema.validate(document, document_schema("estimate", strict=True))


@pytest.mark.parametrize("removed", ["schema", "memory", "recommendations"])
def test_the_schema_refuses_a_document_without_a_key(document: dict[str, Any], removed: str) -> None:
    del document[removed]
    with pytest.raises(jsonschema.ValidationError, match=removed):
        jsonschema.validate(document, document_schema("estimate"))


@pytest.mark.parametrize("command", sorted(DOCUMENTS))
def test_every_schema_is_valid_and_pins_the_schema_id(command: str) -> None:
    schema = document_schema(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": f"cann-plan/{command}/1"}


def test_csv_of_an_estimate_has_a_value_and_unit_per_figure(document: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render(document, "csv"))))
    figures = {row["path"]: row for row in rows}
    assert float(figures["time.step_s"]["value"]) == document["time"]["step_s"]
    assert figures["time.step_s"]["unit"] == "s"
    assert figures["time.breakdown_s.forward"]["unit"] == "s"
    assert figures["memory.stages.7.logits_gib"] == {
        "path": "memory.stages.7.logits_gib",
        "value": "2.375",
        "unit": "GiB",
    }


def test_markdown_tables_have_one_width(document: dict[str, Any]) -> None:
    text = render(document, "markdown")
    assert text.startswith("## example-130b")
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        lines = table.splitlines()
        assert set(lines[1]) <= set("|- :")
        assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_markdown_does_not_let_a_cell_break_its_table() -> None:
    table = Table("", (Column("a", "A"), Column("b", "B")), [["x|y", "line\nbreak <b>"]])
    row = markdown.write(View([table], table)).splitlines()[2]
    assert row == "| x\\|y | line break \\<b> |"


def test_a_document_without_a_view_is_still_written() -> None:
    document = {"schema": "cann-plan/other/1", "figures": {"step_s": 1.25}}
    assert "figures.step_s,1.25,s" in render(document, "csv")
    assert "figures.step_s" in render(document, "table")

"""The screen of `optimize`: the winner as a plan section, today's plan, single changes, what decides, what helps."""

from typing import Any

import jsonschema
import yaml

from cann_plan.planner.optimize import Wanted, optimize
from cann_plan.report.json_schema import document_schema
from cann_plan.report.layout_text import plan_line
from cann_plan.report.render import render
from cann_plan.report.screen import Screen
from cann_plan.spec.resolve import load_plan


def optimized() -> dict[str, Any]:
    plan = {"model": "llama-3-8b", "cluster": {"extends": "dgx-h100", "nodes": 2},
            "training": {"tokens": 1e9, "global_batch_size": 256},
            "parallel": {"tensor": 8, "pipeline": 2, "micro_batch_size": 1},
            "search": {"tensor": [2, 8]}}  # fmt: skip
    wanted = Wanted(top=3, near=True, explain=True, usual=True, workers=1)
    return dict(optimize(load_plan(plan), wanted))


def test_optimize_shows_the_winner_todays_plan_single_changes_and_what_decides() -> None:
    document = optimized()
    jsonschema.validate(document, document_schema("optimize"))
    text = render(document, "table", screen=Screen(width=110))
    assert "parallel: {tensor: 2," in text
    assert f"rank {document['today']['rank']}" in text
    assert "Single changes to the plan's layout" in text
    assert "The best against the runner-up" in text
    assert "The best against today's plan" in text
    assert load_plan({"model": "llama-3-8b", **yaml.safe_load(plan_line(document["best"][0]["overrides"]))})
    records = render(document, "csv").splitlines()
    assert len(records) == 1 + len(document["best"])


def test_optimize_without_an_answer_says_what_would_help() -> None:
    plan = {"model": "llama-2-70b", "cluster": {"extends": "dgx-a100", "nodes": 1}}
    text = render(dict(optimize(load_plan(plan), Wanted(usual=True, workers=1))), "table", screen=Screen())
    assert "NO LAYOUT is feasible" in text
    assert "Closest: tensor" in text
    assert "--set cluster.nodes=" in text

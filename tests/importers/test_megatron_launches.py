"""Published launch-argument sets import to the layout they document, and every imported plan loads."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cann_plan.importers.megatron import Options, import_megatron
from cann_plan.spec.resolve import load_plan

FILE = Path(__file__).parents[1] / "data" / "launch_arguments.yaml"


@cache
def launches() -> list[dict[str, Any]]:
    return list(yaml.load(FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def at(plan: dict[str, Any], path: str) -> Any:
    value: Any = plan
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


@pytest.mark.parametrize("index", range(20))
def test_a_published_launch_imports_to_its_documented_layout(index: int) -> None:
    launch = launches()[index]
    imported = import_megatron(launch["args"], Options(devices=launch.get("devices")))
    assert not imported.refused
    found = {path: at(imported.plan, path) for path in launch["expect"]}
    assert found == launch["expect"]


@pytest.mark.parametrize("index", range(20))
def test_an_imported_plan_loads_and_its_degrees_fill_the_devices(index: int) -> None:
    launch = launches()[index]
    imported = import_megatron(launch["args"], Options(devices=launch.get("devices")))
    loaded = load_plan(imported.plan)
    parallel = loaded.spec.parallel
    ranks = (parallel.tensor or 1) * (parallel.pipeline or 1) * (parallel.context or 1) * (parallel.data or 1)
    assert ranks == loaded.hardware.devices


@pytest.mark.parametrize("index", range(20))
def test_words_and_a_mapping_say_the_same(index: int) -> None:
    launch = launches()[index]
    words: list[str] = []
    for name, value in launch["args"].items():
        words.append(f"--{name}")
        if value is not True:
            words += str(value).strip("[]").split() if name != "hybrid-layer-pattern" else [str(value)]
    options = Options(devices=launch.get("devices"))
    assert import_megatron(words, options).plan == import_megatron(launch["args"], options).plan


def test_every_argument_of_the_sets_is_read_ignored_or_reported() -> None:
    for launch in launches():
        imported = import_megatron(launch["args"], Options(devices=launch.get("devices")))
        strangers = [item.argument for item in imported.unknown if "nobody here knows" in item.why]
        assert strangers == [], launch["name"]

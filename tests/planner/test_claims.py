"""The claims of the source document: plans that bend nothing, figures that anyone can compute again."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cann_plan.planner.claim import COMPUTE, Case, part_seconds
from cann_plan.planner.claims import CLAIMS, claims
from cann_plan.report.json_schema import document_schema
from cann_plan.spec.presets import names, root
from cann_plan.spec.resolve import load_plan

CALIBRATION = {
    "profile", "calibration", "calibrations", "parameters", "operators", "compute_time", "vector_time",
    "attention_rate", "grouped_time", "launch_us", "step_ms", "mc2_hidden", "bulk_hidden", "expert_hidden", "interval",
    "efficiency", "runtime_memory", "visible", "stall_fraction", "fragmentation",
}  # fmt: skip
"""Keys by which a plan could bend the model to a figure."""

MADE_UP = "claim-super-hetero"
"""The one plan about hardware that does not exist; its rates say so."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return claims()  # type: ignore[return-value]


@pytest.fixture(scope="module")
def entries(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["id"]: entry for entry in document["claims"]}


def value(entry: dict[str, Any], name: str) -> float:
    found: float = next(item["value"] for item in entry["figures"] if item["name"] == name)
    return found


def keys_in(node: Any) -> set[str]:
    if isinstance(node, dict):
        return set(node) | {key for child in node.values() for key in keys_in(child)}
    if isinstance(node, list):
        return {key for child in node for key in keys_in(child)}
    return set()


def test_document_keeps_the_contract(document: dict[str, Any]) -> None:
    jsonschema.validate(document, document_schema("claims", strict=True))
    json.dumps(document, allow_nan=False)
    assert [entry["id"] for entry in document["claims"]] == list(CLAIMS)


def test_every_claim_says_what_it_rests_on(document: dict[str, Any]) -> None:
    for entry in document["claims"]:
        assert entry["why"]
        assert entry["figures"]
        assert entry["plan"] in names("plans")
        assert entry["assumptions"], entry["id"]


@pytest.mark.parametrize("name", [name for name in names("plans") if name.startswith("claim-")])
def test_claim_plans_bend_nothing(name: str) -> None:
    written = yaml.safe_load(root().joinpath("plans", f"{name}.yaml").read_text(encoding="utf-8"))
    touched = keys_in(written) & CALIBRATION
    assert touched == ({"efficiency"} if name == MADE_UP else set())


def test_variants_bend_nothing(document: dict[str, Any]) -> None:
    for entry in document["claims"]:
        for item in entry["figures"]:
            steps = {step for path in item["overrides"] for step in path.split(".")}
            assert not (steps | keys_in(item["overrides"])) & CALIBRATION


def test_every_plan_and_variant_loads(document: dict[str, Any]) -> None:
    for entry in document["claims"]:
        plan = load_plan(entry["plan"])
        for item in entry["figures"]:
            assert plan.override(item["overrides"]).hardware.devices > 0


@pytest.mark.parametrize("name", sorted({f"claim-{claim}" for claim in CLAIMS}))
def test_every_plan_computes_and_fits(name: str) -> None:
    estimate = Case(name).estimate()
    assert estimate["time"]["step_s"] > 0
    assert estimate["memory"]["fits"]


def test_figures_come_out_of_the_estimate_again(entries: dict[str, dict[str, Any]]) -> None:
    checked = 0
    for claim, name in (
        ("case-130b", "days before"), ("case-130b", "days after"), ("trillion", "450e9 tokens with stops"),
    ):  # fmt: skip
        (item,) = (item for item in entries[claim]["figures"] if item["name"] == name)
        estimate = Case(entries[claim]["plan"]).estimate(item["overrides"])
        assert item["value"] == estimate["time"]["goodput_days"]
        checked += 1
    assert checked == 3


def test_communication_at_the_documents_own_share(entries: dict[str, dict[str, Any]]) -> None:
    # 45 (0.7 + 0.3 / 1.7)
    assert value(
        entries["case-130b"], "45 days at the document's 30% share and +70% efficiency"
    ) == pytest.approx(39.441, abs=0.001)  # fmt: skip


def test_training_states_are_the_bytes_per_parameter_of_mixed_precision_adam(
    entries: dict[str, dict[str, Any]],
) -> None:
    # 2 bytes of bf16 weights, 4 of fp32 main gradients, 12 of master weights and moments; tables are padded
    total = Case("claim-model-memory").estimate()["parameters"]["total"]
    memory = entries["model-memory"]
    for part, size in (("weights", 2.0), ("gradients", 4.0), ("optimizer", 12.0)):
        assert value(memory, part) * 1e9 == pytest.approx(size * total, rel=0.01)


def test_slower_operators_slow_compute_alone() -> None:
    case = Case("claim-kernel-library")
    complete = case.estimate({"software.op_library": {"kind": "optimized", "coverage": 1.0}})
    generic = case.estimate({"software.op_library": {"kind": "generic", "fallback_slowdown": 3.0}})
    assert part_seconds(generic, COMPUTE) == pytest.approx(3.0 * part_seconds(complete, COMPUTE), rel=0.02)
    assert generic["time"]["breakdown_s"]["tensor_comm"] == complete["time"]["breakdown_s"]["tensor_comm"]
    # 0.9 + 0.1 x 2
    shipped = case.estimate()
    assert part_seconds(shipped, COMPUTE) == pytest.approx(1.1 * part_seconds(complete, COMPUTE), rel=0.02)


def test_cooling_changes_energy_by_the_ratio_of_facilities(entries: dict[str, dict[str, Any]]) -> None:
    assert entries["energy"]["computed"] == pytest.approx(1.55 / 1.111)
    assert entries["energy"]["verdict"] == "not_reachable"


def test_exchanged_gradients_are_the_whole_model(entries: dict[str, dict[str, Any]]) -> None:
    # ring between servers: 4 bytes x 101e9 over 32 servers, 8 ports of 20 GB/s each, after and before the mesh's
    # 2 x 1/8 at 18.3 GB/s
    size = 4.0 * Case("claim-collectives").estimate()["parameters"]["total"]
    between = 2.0 * 31.0 / 32.0 * size / 8.0 / 20e9
    inside = 2.0 * size / 8.0 / 18.3e9
    plain = value(entries["collectives"], "all-reduce of the whole model, level after level")
    assert plain == pytest.approx(between + inside, rel=0.02)


def test_no_network_grows_exponentially(entries: dict[str, dict[str, Any]]) -> None:
    assert entries["comm-growth"]["computed"] < 1.0
    assert value(entries["comm-growth"], "power, communication of a step") < 0.1


def test_a_single_claim_is_the_same_as_among_all(entries: dict[str, dict[str, Any]]) -> None:
    (alone,) = claims(("checkpointing",))["claims"]
    assert alone == entries["checkpointing"]


def test_an_unknown_claim_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no claim 'colectives'") as caught:
        claims(("colectives",))
    assert caught.value.suggestion == "collectives"  # type: ignore[attr-defined]


def test_the_guide_explains_every_claim() -> None:
    guide = Path(__file__).parents[2].joinpath("docs", "claims.md").read_text(encoding="utf-8")
    missing = [name for name in CLAIMS if f"| `{name}` |" not in guide]
    assert missing == []

"""Keys of the plan: shorthands, units, bounds, and what an absent key means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cann_plan.spec.document import parse_text
from cann_plan.spec.errors import SpecError
from cann_plan.spec.node import Source
from cann_plan.spec.parallel import OverlapSpec, ParallelSpec
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.quantity import Figure, FlopsPerSecond, PositiveInt
from cann_plan.spec.resolve import load_plan
from cann_plan.spec.software import ALL_FUSED
from cann_plan.spec.training import TrainingSpec
from cann_plan.spec.unsupported import UNSUPPORTED, Unsupported
from cann_plan.spec.validation import field_model, keys_of


def plan(text: str) -> PlanSpec:
    return PlanSpec.model_validate(parse_text(text, Source("x")).plain())


def parallel(text: str) -> ParallelSpec:
    return plan(f"parallel: {text}\n").parallel


def test_nothing_stated_means_nothing_assumed() -> None:
    spec = plan("model: null\n")
    for name in PlanSpec.model_fields:
        value: Any = getattr(spec, name)
        assert value is None or not value.stated
    assert spec.parallel.auto
    assert spec.training.optimizer.name is None
    assert spec.parallel.recompute.policy is None


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("auto", "{}"),
        ("{recompute: full}", "{recompute: {policy: full}}"),
        ("{recompute: none}", "{recompute: {policy: none}}"),
        ("{recompute: [mlp, norm]}", "{recompute: {policy: selective, modules: [mlp, norm]}}"),
        ("{recompute: {modules: mlp}}", "{recompute: {policy: selective, modules: [mlp]}}"),
        ("{layer_split: [3, 5]}", "{layer_split: {layers: [3, 5]}}"),
        ("{offload: optimizer}", "{offload: {optimizer: 1.0}}"),
        ("{offload: [optimizer, activations]}", "{offload: {optimizer: true, activations: 100%}}"),
        ("{overlap: false}",
         "{overlap: {grad_reduce: false, param_gather: false, p2p: false, expert: false, tensor: none}}"),
        ("{overlap: {tensor: true}}", "{overlap: {tensor: bulk}}"),
        ("{rank_order: tp-cp-ep-dp-pp}", "{rank_order: [tensor, context, expert, data, pipeline]}"),
        ("{tensor: 8, pipeline: null}", "{tensor: 8}"),
        ("{tensor: 8.0}", "{tensor: '8'}"),
    ],
)  # fmt: skip
def test_shorthands_of_a_layout(short: str, long: str) -> None:
    assert parallel(short) == parallel(long)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("software: mindspeed", "software: {stack: mindspeed}"),
        ("software: {fused: none}", "software: {fused: []}"),
        ("software: {op_library: generic}", "software: {op_library: {kind: generic}}"),
        ("software: {graph_mode: true}", "software: {graph_mode: graph}"),
        ("memory: unified", "memory: {pool: unified}"),
        ("network: hccl", "network: {library: hccl}"),
        ("network: {compression: fp8}", "network: {compression: {kind: fp8}}"),
        ("run: {checkpoint: auto}", "run: {checkpoint: {interval: auto}}"),
        ("run: {checkpoint: 30 min}", "run: {checkpoint: {interval: 1800}}"),
        ("training: {optimizer: adamw}", "training: {optimizer: {name: adamw}}"),
        ("training: {task: lora, lora: 16}", "training: {task: lora, lora: {rank: 16}}"),
        ("search: {tensor: 8, pipeline: [1, 2]}", "search: {tensor: {values: [8]}, pipeline: {values: [1, 2]}}"),
    ],
)
def test_shorthands_of_other_sections(short: str, long: str) -> None:
    assert plan(short) == plan(long)


def test_all_fused_operators() -> None:
    assert plan("software: {fused: all}").software.fused == ALL_FUSED


def test_layer_split_kinds() -> None:
    assert parallel("{layer_split: even}").layer_split.even
    assert not parallel("{layer_split: {first: 3}}").layer_split.even
    assert "layer_split" in parallel("{layer_split: even}").stated


@pytest.mark.parametrize(
    ("text", "section", "field", "value"),
    [
        ("memory: {pool_gib: 58}", "memory", "pool_gib", 58),
        ("memory: {pool_gib: 58 GiB}", "memory", "pool_gib", 58),
        ("memory: {pool_gib: 59392 MiB}", "memory", "pool_gib", 58),
        ("memory: {pool_gib: 58 GiB}", "memory", "pool_bytes", 58 * 2**30),
        ("memory: {communicator_buffer_mib: 200}", "memory", "communicator_buffer_bytes", 200 * 2**20),
        ("run: {warmup_s: 5 min}", "run", "warmup_s", 300),
        ("run: {mtbf_h: 12}", "run", "mtbf_s", 43200),
        ("run: {mtbf_h: 30 min}", "run", "mtbf_h", 0.5),
        ("limits: {days: 4 w}", "limits", "days", 28),
        ("limits: {kwh: 120 MWh}", "limits", "kwh", 120_000),
        ("limits: {memory_fraction: 95%}", "limits", "memory_fraction", 0.95),
        ("economics: {power_w: 5.6 kW}", "economics", "power_w", 5600),
        ("economics: {carbon_intensity: 540}", "economics", "carbon_intensity", 540),
        ("training: {tokens: 80B}", "training", "tokens", 80 * 10**9),
        ("serving: {ttft_s: 200 ms}", "serving", "ttft_s", 0.2),
    ],
)
def test_a_key_that_names_its_unit_holds_that_unit(text: str, section: str, field: str, value: float) -> None:
    assert getattr(getattr(plan(text), section), field) == pytest.approx(value, rel=1e-15)


def test_sections_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parallel("{tensor: 8}").tensor = 4  # type: ignore[misc]


@given(st.sampled_from(sorted(TrainingSpec.model_fields)), st.booleans())
def test_no_number_is_a_boolean(name: str, value: bool) -> None:
    text = f"model: llama-2-7b\ntraining: {{{name}: {str(value).lower()}}}\n"
    with pytest.raises(SpecError):
        load_plan(parse_text(text, Source("x")))


@pytest.mark.parametrize(
    ("value", "known", "source"),
    [
        ("313 TFLOP/s", True, None),
        ({"value": "313 TFLOP/s", "source": "data sheet", "note": "dense"}, True, "data sheet"),
        ("unknown", False, None),
        ({"value": "unknown", "source": "nobody"}, False, "nobody"),
        (None, False, None),
    ],
)
def test_figures_carry_their_source_or_are_unknown(value: object, known: bool, source: str | None) -> None:
    figure = Figure[FlopsPerSecond].model_validate(value)
    assert (figure.known, figure.source) == (known, source)
    assert figure.value == (313e12 if known else None)


@pytest.mark.parametrize("value", [{"source": "x"}, {"value": 1, "unit": "x"}, "many", [1]])
def test_what_is_no_figure(value: object) -> None:
    with pytest.raises(ValidationError):
        Figure[PositiveInt].model_validate(value)


def test_overlap_true_states_every_kind() -> None:
    spec = OverlapSpec.model_validate(True)
    assert all(getattr(spec, name) for name in OverlapSpec.model_fields)


def test_every_key_has_a_description() -> None:
    def undescribed(model: Any, path: str) -> list[str]:
        missing = []
        for name, field in model.model_fields.items():
            if not field.description:
                missing.append(f"{path}.{name}")
            default = field.get_default(call_default_factory=True)
            if hasattr(type(default), "model_fields") and path != "cluster":
                missing += undescribed(type(default), f"{path}.{name}")
        return missing

    assert undescribed(PlanSpec, "plan") == []


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: row.path)
def test_the_table_of_unsupported_keys_names_real_keys(row: Unsupported) -> None:
    *sections, name = row.path.split(".")
    model = field_model(PlanSpec, sections)
    assert model is not None
    assert name in keys_of(model)


@pytest.mark.parametrize(
    ("row", "text", "refused"),
    [
        (Unsupported("serving", "x"), "serving: {input_tokens: 100}", True),
        (Unsupported("serving", "x"), "serving: {}", False),
        (Unsupported("serving", "x"), "serving:", False),
        (Unsupported("memory.pool", "x", "unified"), "memory: {pool: unified}", True),
        (Unsupported("memory.pool", "x", "unified"), "memory: unified", True),
        (Unsupported("memory.pool", "x", "unified"), "memory: {pool: caching}", False),
        (Unsupported("parallel.offload.optimizer", "x"), "parallel: {offload: optimizer}", True),
        (Unsupported("parallel.offload.optimizer", "x"), "parallel: {offload: {optimizer: 0}}", False),
        (Unsupported("parallel.offload.optimizer", "x"), "parallel: {offload: none}", False),
        (Unsupported("network.compression", "x"), "network: {compression: none}", False),
        (Unsupported("network.compression", "x"), "network: {compression: fp8}", True),
    ],
)
def test_unsupported_keys_are_refused_only_where_they_ask_for_something(
    row: Unsupported, text: str, refused: bool
) -> None:
    node = parse_text(f"model: llama-2-7b\n{text}\n", Source("plan.yaml"))
    if not refused:
        assert load_plan(node, unsupported=[row]).model.layers == 32
        return
    with pytest.raises(SpecError) as caught:
        load_plan(node, unsupported=[row])
    (problem,) = caught.value.problems
    assert (problem.line, problem.path, problem.message) == (2, row.path, "not supported yet: x")

"""Whatever is done to a valid plan, loading gives a plan or a SpecError, and every problem has a place."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.spec.document import parse_text
from cann_plan.spec.errors import SpecError
from cann_plan.spec.node import Source
from cann_plan.spec.resolve import LoadedPlan, load_plan

VALID = """\
model: {extends: llama-2-70b, layers: 80}
cluster: {extends: atlas-900-a2, nodes: 32}
training:
  task: pretrain
  tokens: 80e9
  sequence_length: 4096
  global_batch_size: 1024
  precision: bf16
  optimizer: {name: adamw, master_weights: true}
parallel:
  tensor: 8
  pipeline: 4
  schedule: interleaved
  virtual_pipeline: 2
  layer_split: [20, 20, 20, 20]
  recompute: {policy: selective, modules: [core_attention]}
  overlap: {grad_reduce: true, tensor: mc2}
  rank_order: tp-cp-ep-dp-pp
software: {stack: mindspeed, fused: [rmsnorm, swiglu], loss: {chunk: 1024}}
memory: {pool_gib: 58 GiB, communicator_buffer_mib: 200}
run: {warmup_s: 5 min, checkpoint: {interval: 30 min, bandwidth: 25 GB/s}, mtbf_h: 12}
economics: {price_per_device_hour: 2.5, currency: CNY, pue: 1.3}
limits: {days: 28 d, memory_fraction: 95%}
search: {tensor: [4, 8], pipeline: {min: 1, max: 8}, recompute: none}
"""
LINES = VALID.splitlines()
WORDS = sorted({word for line in LINES for word in line.replace(",", " ").split()})
PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", ": ", ",", "-", "- ", "\n", "  ", "\t", "'", '"', "#", "&a ", "*a", "<<: ", "!!int ", "|",
     ">", "?", "%", "@", "~", "null", "true", "yes", "0", "-1", "1e999", "1:30", "010", "٣", "é", "\x00", "\ud800",
     "extends: ", "extends: plan.yaml", "auto", "none", "unknown", "{}", "[]", "9" * 50, ".nan", "value: 1", *WORDS]
)  # fmt: skip


def load(text: str) -> LoadedPlan | SpecError:
    try:
        return load_plan(parse_text(text, Source("plan.yaml")), unsupported=())
    except SpecError as error:
        return error


def check(result: LoadedPlan | SpecError) -> None:
    if isinstance(result, SpecError):
        assert result.problems
        for problem in result.problems:
            assert problem.file
            assert problem.message
            assert problem.line is None or problem.line >= 1
        assert "pydantic" not in result.render().lower()
        assert "Input should" not in result.render()
    else:
        assert result.model.layers >= 1
        assert result.hardware.devices >= 1


def test_the_plan_that_is_mutated_is_valid() -> None:
    result = load(VALID)
    assert isinstance(result, LoadedPlan), result
    assert result.hardware.devices == 256


@given(st.lists(st.tuples(st.integers(0, len(VALID)), st.integers(0, 12), st.lists(PIECES, max_size=2)), max_size=3))
@settings(max_examples=300, deadline=None)
def test_replaced_pieces_of_text(edits: list[tuple[int, int, list[str]]]) -> None:
    text = VALID
    for start, length, pieces in edits:
        text = text[:start] + "".join(pieces) + text[start + length :]
    check(load(text))


@given(st.lists(st.sampled_from(LINES), max_size=30), st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_shuffled_repeated_and_dropped_lines(lines: list[str], indent: int) -> None:
    check(load("\n".join(" " * (indent if i % 7 == 3 else 0) + line for i, line in enumerate(lines))))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner,
                                                                max_size=3),
    max_leaves=8,
)  # fmt: skip
PATHS = ["model", "cluster", "cluster.nodes", "cluster.server", "cluster.device", "cluster.scale_out", "model.layers",
         "model.moe", "model.extends", "cluster.extends", "training", "training.tokens", "training.optimizer",
         "training.lora", "parallel", "parallel.tensor", "parallel.layer_split", "parallel.recompute",
         "parallel.recompute.modules", "parallel.offload", "parallel.overlap", "parallel.rank_order",
         "parallel.zero_stage", "software", "software.fused", "software.op_library", "memory", "memory.pool_gib",
         "network", "network.compression", "run", "run.checkpoint", "economics", "limits.days", "search",
         "search.tensor", "search.offload", "serving", "input_pipeline", "name", "schema", "extends"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(PATHS), JUNK, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_value_under_any_key(changes: dict[str, object]) -> None:
    plan = load(VALID)
    assert isinstance(plan, LoadedPlan)
    try:
        result: LoadedPlan | SpecError = plan.override(changes)
    except SpecError as error:
        result = error
    check(result)


@given(st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=150, deadline=None)
def test_any_override_text(path: str, value: str) -> None:
    try:
        result: LoadedPlan | SpecError = load_plan("llama-2-7b", overrides=[f"{path}={value}", path])
    except SpecError as error:
        result = error
    check(result)


@given(st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_name_of_a_plan_or_cluster(name: str) -> None:
    for source, cluster in ((name or "x", None), ("llama-2-7b", name)):
        try:
            result: LoadedPlan | SpecError = load_plan(source, cluster=cluster)
        except SpecError as error:
            result = error
        check(result)

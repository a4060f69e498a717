"""Activation bytes per layer against Korthikanti et al., arXiv 2205.05198, equations 1, 2, 4 and 6 and section 5."""

import numpy as np
import pytest

from cann_plan.cost.recompute import FULL, NONE, SELECTIVE, Policy
from cann_plan.workload.architecture import Attention, DenseFfn, LayerKind
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.rows import LayerRows, LayerSettings

GIB = 2.0**30

# name: hidden, heads, layers, sequence, micro-batch, tensor, pipeline, virtual (arXiv 2205.05198 table 3)
MODELS = {
    "megatron-22B": (6144, 64, 48, 2048, 4, 8, 1, 1),
    "gpt3-175B": (12288, 96, 96, 2048, 1, 8, 8, 3),
    "turing-530B": (20480, 128, 105, 2048, 1, 8, 35, 3),
    "megatron-1T": (25600, 160, 128, 2048, 1, 8, 64, 1),
}


def kept_bytes(
    hidden: int, heads: int, sequence: int, micro: int, tensor: int, policy: Policy, *, sequence_parallel: bool
) -> float:
    kind = LayerKind(Attention(heads, heads, hidden // heads), DenseFfn(4 * hidden, gated=False))
    settings = LayerSettings(
        sequence_length=sequence,
        hidden=hidden,
        flash=False,
        dropout=True,
        fused=frozenset({"softmax", "bias_gelu", "dropout_add"}),
        norm="layernorm",
        position="learned",
    )
    one = np.ones(1)
    rows = LayerRows(
        one * tensor, one, np.zeros(1, np.int64), one, one, one, one * micro, one * float(sequence_parallel)
    )
    return float(
        sum(
            saved.size.item()
            for operator in layer_operators(kind, rows, settings)
            for saved in operator.saved
            if not policy.drops(saved)
        )
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_bytes_per_layer_equal_the_papers_formulas(model: str, tensor: int) -> None:
    h, a, _, s, b, *_ = MODELS[model]
    sbh, scores, t = s * b * h, 5 * a * b * s * s, tensor  # scores: 5 a s / h x sbh

    def ours(policy: Policy, sequence_parallel: bool) -> float:
        return kept_bytes(h, a, s, b, t, policy, sequence_parallel=sequence_parallel)

    assert ours(NONE, False) == 10 * sbh + (24 * sbh + scores) / t  # equation 2
    assert ours(NONE, True) == (34 * sbh + scores) / t  # equation 4
    assert ours(SELECTIVE, False) == 10 * sbh + 24 * sbh / t  # section 5, table 2
    assert ours(SELECTIVE, True) == 34 * sbh / t  # equation 6
    assert ours(FULL, False) == sbh * 2  # table 2
    assert ours(FULL, True) == sbh * 2 / t


@pytest.mark.parametrize(
    ("model", "none", "selective_with_sequence_parallel"),
    [
        ("megatron-22B", 59.25, 9.5625),
        ("gpt3-175B", 66.84375, 12.3515625),
        ("turing-530B", 114.0234375, 23.076171875),
        ("megatron-1T", 131.25, 26.5625),
    ],
)
def test_first_stage_activations_of_figure_1(model: str, none: float, selective_with_sequence_parallel: float) -> None:
    """Figure 1, GiB per device: layers / p x in-flight p, times (1 + (p - 1)/(p v)) for interleaving (section 4.2.3).

    Turing-530B and Megatron-1T use the paper's table 3; the no-recompute bar has tensor parallelism only.
    """
    h, a, layers, s, b, t, p, v = MODELS[model]
    held = layers * (1 + (p - 1) / (p * v) if v > 1 else 1)
    assert kept_bytes(h, a, s, b, t, NONE, sequence_parallel=False) * held / GIB == pytest.approx(none, rel=1e-12)
    ours = kept_bytes(h, a, s, b, t, SELECTIVE, sequence_parallel=True) * held / GIB
    assert ours == pytest.approx(selective_with_sequence_parallel, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "sequence", "selective", "both", "full"),
    [
        ("megatron-22B", 66.84, 49.42, 16.18, 7.64),
        ("gpt3-175B", 62.04, 56.53, 18.49, 8.71),
        ("turing-530B", 58.31, 62.04, 20.27, 9.42),
        ("megatron-1T", 58.31, 62.04, 20.27, 9.42),
    ],
)
def test_percent_of_tensor_parallel_baseline_of_figure_7(
    model: str, sequence: float, selective: float, both: float, full: float
) -> None:
    """Figure 7: percent of the tensor-parallel baseline, within 0.15 points."""
    h, a, _, s, b, t, *_ = MODELS[model]

    def share(policy: Policy, sequence_parallel: bool) -> float:
        return 100 * kept_bytes(h, a, s, b, t, policy, sequence_parallel=sequence_parallel) / base

    base = kept_bytes(h, a, s, b, t, NONE, sequence_parallel=False)
    assert share(NONE, True) == pytest.approx(sequence, abs=0.15)
    assert share(SELECTIVE, False) == pytest.approx(selective, abs=0.15)
    assert share(SELECTIVE, True) == pytest.approx(both, abs=0.15)
    assert share(FULL, False) == pytest.approx(full, abs=0.15)

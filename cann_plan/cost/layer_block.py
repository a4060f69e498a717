"""The layer table of a block of strategies: distinct rows, their layer costs, and the local parameter counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cann_plan.arrays import distinct, distinct_places
from cann_plan.cost.groups import layer_groups, message_seconds
from cann_plan.cost.layer_table import Hiding, LayerCost, layer_cost, unique_rows
from cann_plan.cost.memory_weights import WeightShapes, weight_shapes
from cann_plan.cost.problem import Problem
from cann_plan.cost.strategies import Strategies
from cann_plan.records import dataclass
from cann_plan.workload.operators.common import linear
from cann_plan.workload.operators.edges import embedding_operators, head_operators
from cann_plan.workload.operators.layer import layer_operators
from cann_plan.workload.operators.operator import Array, Gemm, GroupedGemm, Message, Operator
from cann_plan.workload.operators.rows import CONTEXT_KINDS, LayerRows
from cann_plan.workload.parameters import padded_vocabulary

Ints = NDArray[np.int64]

LAYER_AXES = (
    "tensor", "context", "context_kind", "ulysses", "expert", "expert_tensor", "micro_batch_size", "sequence_parallel",
)  # fmt: skip
"""Axes that change what one layer does on one device."""


@dataclass(frozen=True, slots=True)
class LayerBlock:
    """Costs of K layer kinds, then the embedding, the head, and multi-token-prediction modules if any; R rows.

    `row` (N,) picks the row of each strategy. `dense` and `expert` (one (R,) array per entry of `costs`): parameters of
    one layer on one device, dense part and routed experts.
    """

    row: Ints
    costs: tuple[LayerCost, ...]
    dense: tuple[Array, ...]
    expert: tuple[Array, ...]
    tokens: Array  # (R,) tokens of a micro-batch per tensor-parallel group
    boundary_elements: Array  # (R,) elements of a micro-batch's hidden state on one device
    shapes: WeightShapes


class LayerIndex:
    """The layer table of many strategies, and the row of any strategy that has a combination of axes found there."""

    def __init__(self, problem: Problem, strategies: Strategies) -> None:
        """`strategies` hold every combination that will be asked for."""
        self.block = layer_block(problem, strategies)
        self._values = [distinct(getattr(strategies, name)) for name in LAYER_AXES]
        first, _ = distinct_places(self._codes(strategies))
        self._known = self._codes(strategies.take(first))
        self._rows = self.block.row[first]

    def rows(self, strategies: Strategies) -> Ints:
        """Row of the layer table of each strategy, (N,). Raises KeyError for a combination that is not there."""
        codes = self._codes(strategies)
        place = np.minimum(np.searchsorted(self._known, codes), self._known.shape[0] - 1)
        if (self._known[place] != codes).any():
            raise KeyError("a combination of layer axes is not in the table")
        found: Ints = self._rows[place]
        return found

    def _codes(self, strategies: Strategies) -> Ints:
        """Combination of layer axes as one integer, (N,): places among the known values in mixed radix."""
        codes = np.zeros(len(strategies), np.int64)
        for name, values in zip(LAYER_AXES, self._values, strict=True):
            codes = codes * values.shape[0] + np.searchsorted(values, getattr(strategies, name))
        return codes


def layer_block(problem: Problem, strategies: Strategies) -> LayerBlock:
    """Walk every layer kind once for the distinct rows of a block."""
    first, row = unique_rows([getattr(strategies, name) for name in LAYER_AXES])
    picked = strategies.take(first)
    rows = LayerRows(
        picked.tensor.astype(np.float64), picked.context.astype(np.float64), picked.context_kind,
        picked.ulysses.astype(np.float64), picked.expert.astype(np.float64), picked.expert_tensor.astype(np.float64),
        picked.micro_batch_size.astype(np.float64), picked.sequence_parallel.astype(np.float64),
    )  # fmt: skip
    count = first.shape[0]
    kind = picked.context_kind
    hybrid = np.where(kind == CONTEXT_KINDS.index("hybrid"), picked.ulysses, 1)
    ulysses = np.where(kind == CONTEXT_KINDS.index("ulysses"), picked.context, hybrid)
    groups = layer_groups(
        picked.tensor, picked.context, ulysses, picked.expert, picked.expert_tensor, nested=problem.nested_experts
    )

    def communicate(axis: str, message: Message) -> Array:
        return message_seconds(problem.communication, groups, axis, message)

    hiding = _hiding(problem, rows)
    architecture = problem.architecture
    settings = problem.settings
    lists = [layer_operators(kind, rows, settings) for kind in architecture.kinds]
    vocabulary = padded_vocabulary(architecture.vocabulary, picked.tensor, problem.vocabulary_multiple)
    padded = np.asarray(vocabulary, dtype=np.float64)
    lists.append(embedding_operators(rows, settings))
    lists.append(
        head_operators(
            rows, settings, padded, final_norm=architecture.final_norm, fused_loss=problem.fused_loss
        )
    )  # fmt: skip
    if architecture.mtp_layers:
        lists.append(_prediction_operators(problem, rows, lists[-1]))
    costs = tuple(layer_cost(ops, count, problem.compute, communicate, hiding, problem.policies) for ops in lists)
    dense, expert = _local_parameters(problem, lists, rows, padded)
    tokens = settings.tokens(rows)
    shapes = weight_shapes(lists, len(architecture.kinds), count, padded / rows.tensor * settings.hidden)
    boundary = tokens * settings.hidden / rows.sequence_shards
    return LayerBlock(row, costs, dense, expert, tokens, boundary, shapes)


def _hiding(problem: Problem, rows: LayerRows) -> Hiding:
    """Shares hidden by overlap switches; matmul-fused kernels need sequence parallelism."""
    stack, overlap = problem.compute.stack, problem.overlap
    share = {"mc2": stack.mc2_hidden, "coc": stack.mc2_hidden, "bulk": stack.bulk_hidden}.get(overlap.tensor, 0.0)
    tensor = np.where(rows.sequence_parallel > 0.0, share, 0.0)
    expert = np.full(1, stack.expert_hidden if overlap.expert else 0.0)
    return Hiding(tensor, expert)


def _local_parameters(
    problem: Problem, lists: list[list[Operator]], rows: LayerRows, padded: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Parameters of each kind on one device: trained matrices by their local sizes, vectors whole on every rank."""
    kinds = len(problem.architecture.kinds)
    count = rows.tensor.shape[0]
    hidden = float(problem.architecture.hidden)
    table = padded / rows.tensor * hidden
    position = problem.architecture.position_table * hidden
    zero = np.zeros(count)
    held = [_held(operators, count) for operators in lists[:kinds]]
    dense = [matrices + vectors for (matrices, _), vectors in zip(held, problem.vector_parameters, strict=True)]
    expert = [routed for _, routed in held]
    dense += [table + position, table + hidden]
    expert += [zero, zero]
    for operators in lists[kinds + 2 :]:
        matrices, routed = _held(operators, count)
        # the head's product inside a prediction module uses the model's own head weights
        dense.append(matrices - problem.architecture.mtp_layers * table)
        expert.append(routed)
    return tuple(dense), tuple(expert)


def _held(operators: list[Operator], count: int) -> tuple[Array, Array]:
    """Elements of dense and of routed weight matrices of a list of operators on one device, (R,) each."""
    matrices, routed = np.zeros(count), np.zeros(count)
    for operator in operators:
        work = operator.work
        if isinstance(work, Gemm) and work.weight and "_lora_" not in operator.name:
            matrices = matrices + work.n * work.k * work.batch
        elif isinstance(work, GroupedGemm):
            routed = routed + work.experts * work.n * work.k
    return matrices, routed


def _prediction_operators(problem: Problem, rows: LayerRows, head: list[Operator]) -> list[Operator]:
    """Multi-token-prediction modules on the last stage: a projection of two hidden widths, a layer like the last, a
    head pass each (DeepSeek-V3, arXiv 2412.19437 section 2.2).
    """
    architecture, settings = problem.architecture, problem.settings
    tokens = settings.tokens(rows) / rows.sequence_shards
    hidden = np.full_like(tokens, float(architecture.hidden))
    joined = linear("prediction_projection", ("prediction",), settings, tokens, hidden, 2.0 * hidden)
    layer = layer_operators(architecture.kinds[architecture.last_kind], rows, settings)
    return [joined, *layer, *head] * architecture.mtp_layers


def edges(problem: Problem, chunks: int) -> list[tuple[int, int]]:
    """(index in `LayerBlock.costs`, chunk) of what sits at the ends of the model besides layers."""
    kinds = len(problem.architecture.kinds)
    ends = [(kinds, 0), (kinds + 1, chunks - 1)]
    return [*ends, (kinds + 2, chunks - 1)] if problem.architecture.mtp_layers else ends

"""Weight matrices of a rank as the allocator sees them: the largest tensor, and one buffer per distinct shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cann_plan.records import dataclass
from cann_plan.workload.operators.operator import Array, Gemm, GroupedGemm, Operator

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WeightShape:
    """A matrix: its sides on one device (R,) and the indices of the operator lists that hold it."""

    n: Array
    k: Array
    held_by: frozenset[int]


@dataclass(frozen=True, slots=True)
class WeightShapes:
    """`shapes`: matrices of layers, one entry for those alike in every row (others may be alike in some rows).

    `largest`: per operator list, elements of its largest tensor (R,).
    """

    shapes: tuple[WeightShape, ...]
    largest: tuple[Array, ...]


def weight_shapes(lists: Sequence[Sequence[Operator]], layers: int, rows: int, table: Array) -> WeightShapes:
    """Shapes of the first `layers` lists and of what follows the head; the embedding and the head hold `table`.

    The experts of a layer count as one tensor in `largest` and as one of their number in `shapes`.
    """
    found: dict[tuple[bytes, bytes], tuple[Array, Array, set[int]]] = {}
    largest = []
    for index, operators in enumerate(lists):
        most = table if layers <= index < layers + 2 else np.zeros(rows)
        for operator in operators:
            work = operator.work
            if isinstance(work, Gemm) and work.weight:
                number: Array | float = 1.0
            elif isinstance(work, GroupedGemm):
                number = work.experts
            else:
                continue
            n, k = work.n + np.zeros(rows), work.k + np.zeros(rows)
            most = np.maximum(most, n * k * number)
            if operator.name != "head":
                found.setdefault((n.tobytes(), k.tobytes()), (n, k, set()))[2].add(index)
        largest.append(most)
    shapes = tuple(WeightShape(n, k, frozenset(held)) for n, k, held in found.values())
    return WeightShapes(shapes, tuple(largest))


def held_lists(counts: Ints, first: NDArray[np.bool_], last: NDArray[np.bool_], lists: int) -> NDArray[np.bool_]:
    """Whether a candidate rank holds a list, (lists, J). `counts` (K, J): layers of each kind on the rank; `first`,
    `last` (J,): whether it holds the first and the last chunk.
    """
    kinds = counts.shape[0]
    present = np.zeros((lists, counts.shape[1]), np.bool_)
    present[:kinds] = counts > 0
    present[kinds] = first
    present[kinds + 1 :] = last
    return present


def one_of_each(shapes: WeightShapes, row: Ints, present: NDArray[np.bool_]) -> Array:
    """Elements of one matrix of every distinct shape a rank holds, (n, J)."""
    width = present.shape[1]
    total = np.zeros((shapes.largest[0].shape[0], width))
    earlier: list[tuple[WeightShape, NDArray[np.bool_]]] = []
    for shape in shapes.shapes:
        held = np.zeros(width, np.bool_)
        for index in sorted(shape.held_by):
            held = held | present[index]
        new = np.broadcast_to(held[None, :], total.shape)
        for other, also in earlier:
            alike = (other.n == shape.n) & (other.k == shape.k)
            if alike.any():
                new = new & ~(alike[:, None] & also[None, :])
        total = total + np.where(new, (shape.n * shape.k)[:, None], 0.0)
        earlier.append((shape, held))
    return total[row]


def largest_tensor(shapes: WeightShapes, row: Ints, present: NDArray[np.bool_]) -> Array:
    """Elements of the largest weight tensor of a rank, (n, J)."""
    most = np.zeros((shapes.largest[0].shape[0], present.shape[1]))
    for index, elements in enumerate(shapes.largest):
        most = np.maximum(most, np.where(present[index][None, :], elements[:, None], 0.0))
    return most[row]

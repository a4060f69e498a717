"""Keys of different sections, or of one layout, that contradict each other; needs no cost model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cann_plan.spec.plan import PlanSpec


class Contradiction(NamedTuple):
    """The key at fault, what is wrong with it, and what would be right."""

    path: str
    message: str
    allowed: str | None = None


def contradictions(plan: PlanSpec) -> Iterator[Contradiction]:
    """Every contradiction among the keys `plan` states."""
    yield from _context(plan)
    yield from _sharding(plan)
    yield from _experts(plan)
    training, serving = plan.training, plan.serving
    document, sequence = training.mean_document_length, training.sequence_length
    if document is not None and sequence is not None and document > sequence:
        message = f"documents of {document} tokens do not fit a sequence of {sequence}"
        yield Contradiction("training.mean_document_length", message, f"at most {sequence}")
    if serving.request_rate is not None and serving.concurrency is not None:
        yield Contradiction("serving.concurrency", "request_rate already states the load", "one of them")


def _context(plan: PlanSpec) -> Iterator[Contradiction]:
    layout = plan.parallel
    degree, context = layout.ulysses_degree, layout.context
    if degree is None:
        return
    if layout.context_kind not in (None, "hybrid"):
        yield Contradiction(
            "parallel.ulysses_degree", f"does not go with context_kind: {layout.context_kind}", "context_kind: hybrid"
        )
    elif context is not None and context % degree:
        divisors = ", ".join(str(d) for d in range(1, min(context, 4096) + 1) if context % d == 0)
        yield Contradiction("parallel.ulysses_degree", f"{degree} does not divide context {context}", divisors)


def _sharding(plan: PlanSpec) -> Iterator[Contradiction]:
    layout = plan.parallel
    if layout.shard_group is not None and layout.shard_group > 1 and layout.zero_stage == 0:
        yield Contradiction("parallel.shard_group", "does not go with zero_stage: 0", "zero_stage: 1, 2 or 3")
    per_stage, pipeline = layout.recompute.per_stage, layout.pipeline
    if per_stage is not None and pipeline is not None and len(per_stage) != pipeline:
        yield Contradiction(
            "parallel.recompute.per_stage",
            f"{len(per_stage)} entries for {pipeline} pipeline stages",
            f"a list of {pipeline} numbers",
        )
    offload = layout.offload
    if offload.optimizer_step is not None and not offload.optimizer:
        yield Contradiction("parallel.offload.optimizer_step", "needs optimizer states off the device", "optimizer: 1")


def _experts(plan: PlanSpec) -> Iterator[Contradiction]:
    if plan.model is None or plan.model.moe is not None:
        return
    for name in ("expert", "expert_tensor"):
        if (getattr(plan.parallel, name) or 1) > 1:
            yield Contradiction(f"parallel.{name}", f"{plan.model.name} has no experts", "1")

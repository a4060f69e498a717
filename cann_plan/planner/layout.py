"""The `parallel:` section to a strategy, its recompute policy and layer split."""

from __future__ import annotations

from typing import Any

from cann_plan.cost.recompute import FULL, NONE, SELECTIVE, Policy
from cann_plan.cost.strategies import SCHEDULES, Strategies
from cann_plan.planner.assumptions import Assumptions, PlanError
from cann_plan.records import dataclass
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.parallel import ParallelSpec, RecomputeSpec
from cann_plan.workload.architecture import Architecture, MoeFfn
from cann_plan.workload.operators.rows import CONTEXT_KINDS

DEGREES = ("tensor", "pipeline", "data", "context", "expert", "expert_tensor", "virtual_pipeline")
V_SHAPED = ("zb-v", "dualpipe-v")  # schedules with two chunks per stage
MODULE_NAMES = {"shared_experts": "mlp"}


@dataclass(frozen=True, slots=True)
class Layout:
    """`strategies` is a block of one, or None where no degree is stated.

    `unit`: what the global batch must be a multiple of.
    """

    strategies: Strategies | None
    policies: tuple[Policy, ...]
    splits: tuple[tuple[int, ...] | None, ...]
    recompute_lists: tuple[tuple[int, ...], ...]
    recompute_scope: str
    rank_order: int
    unit: int


def stated_layout(
    parallel: ParallelSpec, cluster: Cluster, architecture: Architecture, batch: int | None, assumptions: Assumptions
) -> Layout:
    """Resolve the stated layout; degrees left out are 1, data parallelism takes the remaining devices.

    Raises:
        PlanError: the degrees do not multiply to the number of devices, or keys contradict each other.
    """
    policies, index, layers, lists = _recompute(parallel.recompute)
    scope = parallel.recompute.scope or "chunk"
    order = rank_order(parallel)
    if all(getattr(parallel, name) is None for name in DEGREES):
        if not parallel.layer_split.even:
            raise PlanError("parallel.layer_split", "needs a stated layout: its stages are those of parallel.pipeline")
        return Layout(None, policies, (None,), lists, scope, order, 1)
    tensor, pipeline = parallel.tensor or 1, parallel.pipeline or 1
    context, expert = parallel.context or 1, parallel.expert or 1
    virtual = parallel.virtual_pipeline or (2 if parallel.schedule in V_SHAPED else 1)
    ranks = tensor * pipeline * context
    if cluster.devices % ranks:
        raise PlanError(
            "parallel", f"tensor x pipeline x context = {ranks} does not divide {cluster.devices} devices",
            f"a divisor of {cluster.devices}",
        )  # fmt: skip
    data = assumptions.take(
        "parallel.data", parallel.data, cluster.devices // ranks, "devices / (tensor x pipeline x context)"
    )
    if ranks * data != cluster.devices:
        raise PlanError(
            "parallel.data", f"tensor x pipeline x context x data = {ranks * data}, the cluster has {cluster.devices} "
            "devices", str(cluster.devices // ranks),
        )  # fmt: skip
    experts = any(isinstance(kind.ffn, MoeFfn) for kind in architecture.kinds)
    if expert > 1 and not experts:
        raise PlanError("parallel.expert", f"{architecture.name} has no experts", "1")
    etp = parallel.expert_tensor
    if experts and etp is None:
        fits = (tensor * context * data) % (expert * tensor) == 0
        etp = assumptions.take("parallel.expert_tensor", None, tensor if fits else 1, "tensor degree (Megatron-Core)")
    micro = assumptions.take("parallel.micro_batch_size", parallel.micro_batch_size, 1, "default")
    sequence = parallel.sequence_parallel
    if sequence is None and tensor > 1:
        sequence = assumptions.take("parallel.sequence_parallel", None, True, "usual with tensor parallelism")
    zero = parallel.zero_stage
    if zero is None:
        zero = 0
        if data * context > 1:
            zero = assumptions.take("parallel.zero_stage", None, 1, "distributed optimizer is usual with data parallel")
    if parallel.recompute.policy is None:
        assumptions.add("parallel.recompute.policy", "none", "default")
    schedule = parallel.schedule or ("interleaved" if virtual > 1 else "1f1b")
    kind = parallel.context_kind or "ring"
    if context > 1 and parallel.context_kind is None:
        assumptions.add("parallel.context_kind", "ring", "default")
    split = layer_split(parallel, architecture.layers, pipeline, virtual)
    strategies = Strategies.of(
        tensor=tensor, pipeline=pipeline, data=data, context=context, context_kind=CONTEXT_KINDS.index(kind),
        ulysses=parallel.ulysses_degree or 1, expert=expert, expert_tensor=etp or 1, virtual=virtual,
        schedule=SCHEDULES.index(schedule), micro_batch_size=micro, sequence_parallel=int(bool(sequence)),
        zero_stage=zero, shard_group=parallel.shard_group or 0, policy=index, recompute_layers=layers,
        rank_order=order,
    )  # fmt: skip
    unit = data * micro * (pipeline if virtual > 1 and schedule == "interleaved" else 1)
    if batch is not None and batch % (data * micro):
        raise PlanError(
            "training.global_batch_size",
            f"{batch} sequences do not divide into data {data} x micro-batch {micro}",
            f"a multiple of {data * micro}",
        )
    return Layout(strategies, policies, (split,), lists, scope, order, unit)


def fixed_axes(parallel: ParallelSpec) -> dict[str, int]:
    """Axes stated beside an automatic layout."""
    values: dict[str, Any] = {
        "micro_batch_size": parallel.micro_batch_size,
        "sequence_parallel": parallel.sequence_parallel,
        "zero_stage": parallel.zero_stage,
        "shard_group": parallel.shard_group,
        "schedule": SCHEDULES.index(parallel.schedule) if parallel.schedule else None,
        "rank_order": rank_order(parallel) if parallel.rank_order else None,
    }
    if parallel.recompute.policy is not None:
        _, index, layers, _ = _recompute(parallel.recompute)
        values |= {"policy": index, "recompute_layers": layers}
    return {name: int(value) for name, value in values.items() if value is not None}


def _recompute(spec: RecomputeSpec) -> tuple[tuple[Policy, ...], int, int, tuple[tuple[int, ...], ...]]:
    """Policies of the problem, the stated one's index, layers (-1 all), and a per-stage list if stated.

    The uniform method groups layers: every group's first input is kept and the whole layer replayed, so all layers
    are recomputed whatever the group size.
    """
    policies: tuple[Policy, ...] = (NONE, SELECTIVE, FULL)
    index = {None: 0, "none": 0, "selective": 1, "full": 2}[spec.policy]
    if spec.modules:
        named = frozenset(MODULE_NAMES.get(name, name) for name in spec.modules)
        if named != SELECTIVE.modules:
            policies = (*policies, Policy("+".join(spec.modules), named))
            index = len(policies) - 1
    lists: tuple[tuple[int, ...], ...] = ()
    layers = -1
    if spec.per_stage is not None:
        lists, layers = (tuple(spec.per_stage),), -2
        index = index or 2
    elif spec.layers is not None and spec.method != "uniform":
        layers = spec.layers
        index = index or 2
    return policies, index, layers, lists


def rank_order(parallel: ParallelSpec) -> int:
    """Index into `RANK_ORDERS` of the stated order.

    Raises:
        PlanError: an order no model answers.
    """
    order = parallel.rank_order
    if order is None:
        return 0
    axes = [axis for axis in order if axis != "expert"]
    known = {("tensor", "context", "data", "pipeline"): 0, ("tensor", "context", "pipeline", "data"): 1,
             ("tensor", "data", "pipeline"): 0, ("tensor", "pipeline", "data"): 1}  # fmt: skip
    if tuple(axes) not in known:
        raise PlanError(
            "parallel.rank_order", f"not supported yet: {'-'.join(order)}", "tp-cp-ep-dp-pp or tp-cp-ep-pp-dp"
        )
    return known[tuple(axes)]


def layer_split(parallel: ParallelSpec, layers: int, pipeline: int, virtual: int) -> tuple[int, ...] | None:
    """Layers per stage or chunk, None for an even split.

    Raises:
        PlanError: the list does not add up or has the wrong length.
    """
    spec = parallel.layer_split
    if spec.even:
        return None
    if spec.layers is not None:
        stages = tuple(spec.layers)
        if len(stages) not in (pipeline, pipeline * virtual):
            raise PlanError("parallel.layer_split", f"{len(stages)} entries for {pipeline} stages", str(pipeline))
        if sum(stages) != layers:
            raise PlanError("parallel.layer_split", f"stages hold {sum(stages)} layers, the model has {layers}")
        return stages
    first, last = spec.first, spec.last
    middle = pipeline - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if rest < 0 or (middle <= 0 and rest):
        raise PlanError("parallel.layer_split", f"first and last hold more or fewer than {layers} layers")
    base, extra = divmod(rest, middle) if middle else (0, 0)
    inner = [base + (index < extra) for index in range(middle)]
    return (*([first] if first is not None else []), *inner, *([last] if last is not None else []))

"""What a search may vary: values an axis may take, fixed, listed or bounded by the plan, else usual or all values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from cann_plan.cost.problem import Problem
from cann_plan.cost.recompute import FULL, NONE, SELECTIVE, Policy
from cann_plan.cost.strategies import SCHEDULES
from cann_plan.records import dataclass
from cann_plan.workload.architecture import LatentAttention, MoeFfn

MICRO_BATCHES = (1, 2, 4, 8, 16)
LARGEST_MICRO_BATCH = 32
"""A whole search tries every size up to this that divides a rank's share of the batch."""
VIRTUAL = (1, 2, 3, 4, 5, 6, 8, 10, 12)
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of a stage's layers that full recomputation is tried on."""
USUAL_SCHEDULES = ("1f1b", "interleaved")
SPLITS = ("even", "first_lighter", "last_lighter", "both_lighter")
"""Layers per stage: the first and last stage may leave one layer to the others for their embedding and head."""


@dataclass(frozen=True, slots=True)
class Range:
    """Values allowed: the listed ones, or those of the candidates between two bounds."""

    values: tuple[int, ...] | None = None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """`ranges`: restrictions by axis of `Strategies`, in its integer codes. `whole`: every value a framework would
    start with, not only the usual ones. `recompute`: (policy, share of a stage's layers; negative: -layers) that may be
    tried, None for the usual.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    whole: bool = False
    recompute: tuple[tuple[int, float], ...] | None = None

    def of(self, axis: str, candidates: Iterable[int]) -> tuple[int, ...]:
        """Values of an axis to try, ascending: the listed ones as they are, else the candidates within the bounds."""
        limit = self.ranges.get(axis)
        if limit is not None and limit.values is not None:
            return tuple(sorted(set(limit.values)))
        low = limit.least if limit is not None else None
        high = limit.most if limit is not None else None
        return tuple(sorted({v for v in candidates if (low is None or v >= low) and (high is None or v <= high)}))

    def listed(self, axis: str) -> bool:
        """Whether the plan lists the values of an axis, so that they are tried even where a constraint refuses them."""
        limit = self.ranges.get(axis)
        return limit is not None and limit.values is not None

    def micro_batches(self, share: int) -> tuple[int, ...]:
        """Micro-batch sizes to try for a rank's share of the global batch."""
        sizes = range(1, min(share, LARGEST_MICRO_BATCH) + 1) if self.whole else MICRO_BATCHES
        return self.of("micro_batch_size", [size for size in sizes if share and share % size == 0])

    def schedules(self) -> tuple[int, ...]:
        """Codes of the pipeline schedules to try."""
        names = SCHEDULES if self.whole else USUAL_SCHEDULES
        return self.of("schedule", [SCHEDULES.index(name) for name in names])

    def splits(self) -> tuple[str, ...]:
        """Kinds of layer splits to try."""
        kinds = range(len(SPLITS)) if self.whole else (0,)
        return tuple(SPLITS[code] for code in self.of("layer_split", kinds))

    def recomputations(self, problem: Problem) -> tuple[tuple[int, float], ...]:
        """(policy, share of layers) to try, nothing recomputed first."""
        if self.recompute is not None:
            return self.recompute
        full = problem.policies.index(FULL)
        partial = [(index, 1.0) for index, policy in enumerate(problem.policies) if policy not in (NONE, FULL)]
        if problem.settings.flash:
            partial = [item for item in partial if problem.policies[item[0]] != SELECTIVE]
        return ((0, 0.0), *partial, *((full, share) for share in SHARES))


USUAL = Choices()
"""The layouts people start with: 1F1B or interleaved, even stages, sequence parallelism where tensors are split."""


def fixed(values: Mapping[str, int]) -> Choices:
    """The usual choices with some axes held; `recompute_layers` goes with `policy`."""
    ranges = {name: Range((value,)) for name, value in values.items() if name not in ("policy", "recompute_layers")}
    recompute = None
    if "policy" in values:
        layers = values.get("recompute_layers", -1)
        recompute = ((values["policy"], 1.0 if layers == -1 else -float(layers)),)
    return Choices(ranges, recompute=recompute)


def search_policies(problem: Problem) -> tuple[Policy, ...]:
    """Recompute policies a whole search tries: the problem's, and selective ones with the modules of the model.

    Modules as in Megatron-Core's and MindSpeed's recompute options: what is cheap to run again and large to keep.
    """
    cheap, heavy = ["activation", "norm"], "mlp"
    for kind in problem.architecture.kinds:
        if isinstance(kind.ffn, MoeFfn):
            cheap, heavy = [name for name in cheap if name != "activation"] + ["moe_activation"], "moe"
        if isinstance(kind.mixer, LatentAttention):
            cheap = [*cheap, "mla_up_proj"]
    sets: Sequence[Sequence[str]] = (cheap, [heavy], [heavy, *cheap])
    found = list(problem.policies)
    for modules in sets:
        policy = Policy("+".join(dict.fromkeys(modules)), frozenset(modules))
        if all(policy.modules != known.modules for known in found):
            found.append(policy)
    return tuple(found)

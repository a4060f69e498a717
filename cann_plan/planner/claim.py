"""One claim of the source document: what it says, what the planner computes from which shipped plan, the verdict.

A case is a shipped plan with its variants; a variant is a set of overrides, so that every figure can be computed again
with `cann-plan estimate PLAN --set path=value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal, cast

from cann_plan.planner.choose import Choice, choose
from cann_plan.planner.contract_claims import ClaimEntry, ClaimFigure
from cann_plan.planner.contract_estimate import EstimateDocument
from cann_plan.planner.estimate import estimate_document
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan, load_plan

ClaimVerdict = Literal["reached", "reached_if", "not_reachable"]
Changes = dict[str, Any]

GIB: Final = 2.0**30
COMMUNICATION: Final = ("tensor_comm", "context_comm", "expert_comm", "pipeline_comm", "data_comm")
COMPUTE: Final = ("forward", "backward", "recompute")
NO_CHANGES: Final[Changes] = {}


class Case:
    """A shipped plan and its variants; each variant is evaluated once."""

    def __init__(self, plan: str) -> None:
        self.plan = plan
        self.loaded = load_plan(plan)
        self._choices: dict[str, Choice] = {}
        self._documents: dict[str, EstimateDocument] = {}

    def variant(self, changes: Changes) -> LoadedPlan:
        """The plan with the values at dotted paths replaced."""
        return self.loaded.override(changes) if changes else self.loaded

    def choice(self, changes: Changes = NO_CHANGES) -> Choice:
        """Job and strategy of a variant."""
        key = _key(changes)
        if key not in self._choices:
            self._choices[key] = choose(self.variant(changes))
        return self._choices[key]

    def estimate(self, changes: Changes = NO_CHANGES) -> EstimateDocument:
        """The estimate of a variant, without recommendations."""
        key = _key(changes)
        if key not in self._documents:
            chosen = self.choice(changes)
            self._documents[key] = estimate_document(chosen.job, chosen.strategies, [])
        return self._documents[key]


def _key(changes: Changes) -> str:
    return json.dumps(dict(changes), sort_keys=True)


def figure(name: str, value: float | None, unit: str, changes: Changes = NO_CHANGES) -> ClaimFigure:
    """One computed number and the overrides of the plan it belongs to."""
    return {"name": name, "value": value, "unit": unit, "overrides": dict(changes)}


@dataclass(frozen=True, slots=True)
class Claim:
    """`claimed`: the document's figure, in `unit` where it is a number; `computed`: ours, of the same thing."""

    id: str
    claimed: float | str | None
    computed: float | None
    unit: str
    verdict: ClaimVerdict
    why: str
    plan: str
    assumptions: tuple[str, ...] = ()
    figures: tuple[ClaimFigure, ...] = field(default=())

    def entry(self) -> ClaimEntry:
        """The claim as the contract has it."""
        return {
            "id": self.id,
            "claimed": self.claimed,
            "computed": self.computed,
            "unit": self.unit,
            "verdict": self.verdict,
            "why": self.why,
            "assumptions": list(self.assumptions),
            "plan": self.plan,
            "figures": list(self.figures),
        }


def part_seconds(document: EstimateDocument, parts: tuple[str, ...]) -> float:
    """Seconds of a step in the named parts of its breakdown."""
    breakdown = cast(Mapping[str, float], document["time"]["breakdown_s"])
    return sum(breakdown[name] for name in parts)


def communication_share(document: EstimateDocument) -> float:
    """Exposed communication over the step."""
    return part_seconds(document, COMMUNICATION) / document["time"]["step_s"]


def all_devices_bytes(document: EstimateDocument, part: str) -> float:
    """Bytes of a part of the memory over all devices of the job."""
    stages = cast(list[Mapping[str, float]], document["memory"]["stages"])
    return sum(stage[f"{part}_gib"] * stage["ranks"] for stage in stages) * GIB


def replica_bytes(document: EstimateDocument, part: str) -> float:
    """Bytes of a part of the memory over the devices that hold one copy of the model."""
    parallel = document["parallel"]
    return all_devices_bytes(document, part) / float(parallel["data"] * parallel["context"])

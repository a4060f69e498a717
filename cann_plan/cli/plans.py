"""Loading plans for commands. Imports of the planner happen here, inside functions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_plan.spec.resolve import LoadedPlan


def load(source: str, cluster: str | None, devices: int | None, overrides: Sequence[str] | None) -> "LoadedPlan":
    """The plan in `source` (file, preset name or `-`) with the command line's overrides.

    Raises:
        SpecError: the plan or an override is wrong.
    """
    from cann_plan.spec.resolve import load_plan

    return load_plan(source, cluster=cluster, devices=devices, overrides=tuple(overrides or ()))


def estimate_document(plan: "LoadedPlan", *, explain: bool = False) -> dict[str, Any]:
    """The estimate of `plan`, with the `explain` list on request."""
    from cann_plan.planner.estimate import estimate

    document: dict[str, Any] = dict(estimate(plan))
    if explain:
        from cann_plan.planner.explain import explain as explain_terms

        document["explain"] = explain_terms(plan)["terms"]
    return document

"""Loading plans for commands. Imports of the planner happen here, inside functions."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cann_plan.spec.resolve import LoadedPlan


def load(source: str, cluster: str | None, devices: int | None, overrides: Sequence[str] | None) -> "LoadedPlan":
    """The plan in `source` (file, preset name or `-`) with the command line's overrides.

    Raises:
        SpecError: the plan or an override is wrong.
    """
    from cann_plan.spec.resolve import load_plan

    return load_plan(
        source,
        cluster=cluster,
        devices=devices,
        overrides=tuple(overrides or ()),
        model_readers=(read_hugging_face,),
    )


def read_hugging_face(data: dict[str, Any], name: str) -> Mapping[str, Any] | None:
    """The model in a Hugging Face config.json from file `name`, None for another kind of document."""
    from cann_plan.importers.hf import hf_fields, is_hf_config

    if not is_hf_config(data):
        return None
    file = Path(name)
    if "_name_or_path" not in data and file.suffix == ".json":
        data = {**data, "_name_or_path": file.parent.name if file.name == "config.json" else file.stem}
    return hf_fields(data)


def estimate_document(
    plan: "LoadedPlan", *, explain: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """The estimate of `plan`, with the `explain` list on request."""
    from cann_plan.planner.estimate import estimate

    document: dict[str, Any] = dict(estimate(plan, on_progress))
    if explain:
        from cann_plan.planner.explain import explain as explain_terms

        document["explain"] = explain_terms(plan)["terms"]
    return document

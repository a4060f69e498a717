"""A plan with every degree, count and length stated, as `estimate` resolves it."""

from __future__ import annotations

from cann_plan.planner.estimate import estimate
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.plan import PlanSpec
from cann_plan.spec.resolve import LoadedPlan

KEYS = ("training.sequence_length", "training.global_batch_size", "training.precision")


def resolved_plan(loaded: LoadedPlan) -> tuple[PlanSpec, Cluster]:
    """(plan with its layout, batch and length stated, cluster with its nodes). Raises SpecError."""
    document = estimate(loaded)
    plan = document["plan"]
    parallel = dict(plan["parallel"])
    if not parallel.get("zero_stage"):
        parallel.pop("shard_group", None)  # says nothing where nothing is sharded
    changes = {"parallel": parallel, "cluster.devices": document["parallel"]["devices"]}
    for path in KEYS:
        section, key = path.split(".")
        if plan[section].get(key) is not None:
            changes[path] = plan[section][key]
    done = loaded.override(changes)
    return done.spec, done.hardware

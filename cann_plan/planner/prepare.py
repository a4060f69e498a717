"""A loaded plan to a `Job`: profile lookup, number of nodes, planner errors located in the plan file."""

from __future__ import annotations

from dataclasses import replace

from cann_plan.planner.assumptions import PlanError
from cann_plan.planner.build import build_job
from cann_plan.planner.job import Job
from cann_plan.planner.offload_auto import automatic_shares, least_share
from cann_plan.planner.stack import DEFAULT_PROFILE
from cann_plan.spec import presets
from cann_plan.spec.cluster import Cluster
from cann_plan.spec.errors import SpecError, closest
from cann_plan.spec.parallel import ParallelSpec
from cann_plan.spec.profile import ProfileSpec
from cann_plan.spec.references import Resolver, is_path
from cann_plan.spec.resolve import LoadedPlan
from cann_plan.spec.validation import validate


def prepare(loaded: LoadedPlan, cluster: Cluster | None = None, *, timed: bool = True) -> Job:
    """The job of a loaded plan, on `cluster` instead of its own when given; not `timed`: for its memory alone.

    Raises:
        SpecError: located problems of values that do not go together.
    """
    target = cluster or loaded.hardware
    profile = load_profile(loaded, target)
    try:
        job = build_job(loaded.spec, loaded.model, target, profile, timed=timed)
    except PlanError as error:
        loaded.fail(error.path, error.message, error.allowed, error.suggestion)
    if job.strategies is not None and automatic_shares(loaded):
        return least_share(loaded, job, job.strategies, lambda changed: prepare(changed, target, timed=timed))
    if loaded.cluster_assumed:
        job.assumptions.add("cluster", target.name, "the plan names no cluster")
    return job


def load_profile(loaded: LoadedPlan, cluster: Cluster) -> ProfileSpec:
    """The profile (a preset or a file) the plan or its cluster names, else the usual one of its collective library.

    Raises:
        SpecError: no profile of that name, or a file that holds none.
    """
    path = "software.stack" if loaded.spec.software.stack is not None else "cluster.profile"
    stated = loaded.spec.software.stack or loaded.cluster.profile
    if stated is not None and is_path(stated):
        return _profile_file(loaded, path)
    name = stated or DEFAULT_PROFILE[cluster.library]
    preset = presets.find("profiles", name)
    if preset is None:
        names = presets.names("profiles")
        loaded.fail(path, f"no profile {name!r}", f"{', '.join(names)}, or a path", closest(name, names))
    return ProfileSpec.model_validate(preset.node().plain())


def _profile_file(loaded: LoadedPlan, path: str) -> ProfileSpec:
    """The profile of a file that the plan names at `path`; it may extend a preset."""
    section, key = path.split(".")
    node = loaded.root.get(section)
    node = node.get(key) if node is not None else None
    assert node is not None  # the plan states it
    resolver = Resolver()
    document = resolver.resolve("profiles", node, (section, key))
    profile, problems = (None, []) if document is None else validate(ProfileSpec, document)
    if profile is None:
        raise SpecError([*resolver.problems, *problems])
    return profile


def least_nodes(parallel: ParallelSpec, devices_per_node: int) -> int | None:
    """Nodes a fully stated layout needs, None where degrees leave it open."""
    degrees = (parallel.tensor, parallel.pipeline, parallel.data, parallel.context)
    if parallel.data is None:
        return None
    ranks = 1
    for degree in degrees:
        ranks *= degree or 1
    return max(1, -(-ranks // devices_per_node))


def without_assumptions(job: Job) -> Job:
    """The job with its own copies of the recorded assumptions and warnings (for searches over node counts)."""
    return replace(
        job,
        assumptions=type(job.assumptions)(list(job.assumptions.items)),
        warnings=type(job.warnings)(list(job.warnings.items)),
    )

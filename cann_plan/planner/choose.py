"""Which strategy an estimate is made of: the stated layout, or the best one found, on as many nodes as needed."""

from __future__ import annotations

from dataclasses import replace

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.constraints import EXPLAIN, REASONS, broken_constraint
from cann_plan.planner.evaluate import score
from cann_plan.planner.job import Job
from cann_plan.planner.layout import fixed_axes
from cann_plan.planner.objective import Objective
from cann_plan.planner.offload_auto import SEARCHED, at_share, automatic_shares, note
from cann_plan.planner.pairs import pairs_of
from cann_plan.planner.prepare import least_nodes, prepare
from cann_plan.planner.search import Found, Progress, search
from cann_plan.planner.search_choices import choices_of
from cann_plan.planner.space import strategy_space
from cann_plan.records import dataclass
from cann_plan.spec.resolve import LoadedPlan

MOST_NODES = 4096
"""Largest number of nodes tried when a plan leaves it open."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A job with its strategy; `found` tells of the search when there was one. `fits` is the search's verdict."""

    job: Job
    strategies: Strategies
    found: Found | None


def choose(loaded: LoadedPlan, on_progress: Progress | None = None, *, timed: bool = True) -> Choice:
    """The stated layout on the stated cluster; with `parallel: auto` the fastest that fits; without a number of
    nodes the fewest that fit. Not `timed`: by memory alone, for devices whose rates nobody states.

    Raises:
        SpecError: the stated layout breaks a constraint, or no layout exists at all.
    """
    cluster = loaded.hardware
    if not cluster.nodes_stated:
        needed = least_nodes(loaded.spec.parallel, cluster.devices_per_node)
        if needed is None:
            return _fewest_nodes(loaded, on_progress, timed=timed)
        cluster = cluster.with_nodes(needed)
    job = prepare(loaded, cluster, timed=timed)
    if not loaded.hardware.nodes_stated:
        job.assumptions.add("cluster.nodes", cluster.nodes, "what the stated layout needs")
    if job.strategies is not None:
        require_valid(loaded, job)
        return Choice(job, job.strategies, None)
    job, found = best_layout(job, loaded, on_progress=on_progress, timed=timed)
    strategies = found.best[0] if found.best else found.closest
    if strategies is None:
        loaded.fail("parallel", f"no layout exists on {cluster.devices} devices ({reasons(found)})")
    note = f"fastest of {found.feasible} layouts that fit, {found.evaluated} tried"
    if not found.best:
        note = f"none of {found.evaluated} layouts fits: the one that needs least memory"
    job.assumptions.add("parallel", "auto", note)
    return Choice(job, strategies, found)


def best_layout(
    job: Job, loaded: LoadedPlan, top: int = 1, on_progress: Progress | None = None, *, timed: bool = True
) -> tuple[Job, Found]:
    """Search the usual layouts of a job whose plan leaves them open; the job returned knows their layer splits.

    Where the plan leaves a share off the device open too, growing shares are tried until a layout fits.
    """
    done, found = _searched(job, loaded, top, on_progress)
    if not automatic_shares(loaded):
        return done, found
    share = 0.0
    for tried in SEARCHED:
        if found.best:
            break
        share = tried
        candidate = prepare(at_share(loaded, share), job.cluster, timed=timed)
        known = candidate.assumptions.items
        known.extend(item for item in job.assumptions.items if item not in known)
        done, found = _searched(candidate, loaded, top, on_progress)
    chosen = found.best[0] if found.best else found.closest
    if chosen is not None:
        without = replace(job, problem=replace(done.problem, offload=job.problem.offload))
        note(done, loaded, share, without, chosen)
    return done, found


def _searched(job: Job, loaded: LoadedPlan, top: int, on_progress: Progress | None) -> tuple[Job, Found]:
    problem = within_limits(loaded, job).problem
    choices = choices_of(loaded.spec.search, fixed_axes(loaded.spec.parallel), problem, whole=False)
    space = strategy_space(problem, choices)
    found = search(space, top, on_progress, objectives=(Objective(loaded.spec.search.objective or "time"),))
    return replace(job, problem=space.problem), found


def within_limits(loaded: LoadedPlan, job: Job) -> Job:
    """The job whose layouts may take the share of memory that the plan's limits leave them."""
    share = loaded.spec.limits.memory_fraction
    if share is None:
        return job
    return replace(job, problem=replace(job.problem, memory=replace(job.problem.memory, limit=float(share))))


def reasons(found: Found) -> str:
    """Why layouts failed, most frequent first."""
    items = sorted(found.infeasible.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} x {EXPLAIN.get(name, name)}" for name, count in items[:4]) or "none to try"


def node_counts(most: int) -> list[int]:
    """Node counts a search over sizes tries: powers of two and one and a half times them, up to `most`."""
    counts = {1 << power for power in range(most.bit_length()) if 1 << power <= most}
    counts |= {3 * (1 << power) for power in range(most.bit_length()) if 3 * (1 << power) <= most}
    return sorted(counts)


def most_nodes(loaded: LoadedPlan) -> int:
    """Largest number of nodes to try: the cluster's, the plan's limit, or `MOST_NODES`."""
    limit = loaded.hardware.most_nodes or MOST_NODES
    stated = loaded.spec.limits.max_devices
    if stated is not None:
        limit = min(limit, max(1, stated // loaded.hardware.devices_per_node))
    return min(limit, MOST_NODES)


def _fewest_nodes(loaded: LoadedPlan, on_progress: Progress | None, *, timed: bool = True) -> Choice:
    last: Choice | None = None
    for nodes in node_counts(most_nodes(loaded)):
        cluster = loaded.hardware.with_nodes(nodes)
        if not _possible(loaded, cluster.devices):
            continue
        job = prepare(loaded, cluster, timed=timed)
        if job.strategies is not None:
            code = int(broken_constraint(job.problem, job.strategies)[0])
            if code:
                continue
            found = judged(job, job.strategies)
            strategies: Strategies | None = job.strategies
        else:
            job, found = best_layout(job, loaded, on_progress=on_progress, timed=timed)
            strategies = found.best[0] if found.best else found.closest
        if strategies is None:
            continue
        last = Choice(job, strategies, found)
        if found.best:
            job.assumptions.add("cluster.nodes", nodes, "the fewest nodes that fit")
            if job.strategies is None:
                note = f"fastest of {found.feasible} layouts that fit, {found.evaluated} tried"
                job.assumptions.add("parallel", "auto", note)
            return last
    if last is None:
        loaded.fail("cluster.nodes", "no number of nodes allows a layout of this plan")
    last.job.assumptions.add("cluster.nodes", last.job.cluster.nodes, "the most tried; nothing fits")
    return last


def _possible(loaded: LoadedPlan, devices: int) -> bool:
    parallel = loaded.spec.parallel
    ranks = (parallel.tensor or 1) * (parallel.pipeline or 1) * (parallel.context or 1)
    return devices % ranks == 0


def judged(job: Job, strategies: Strategies) -> Found:
    """The stated strategy as the outcome of a search among one."""
    scores = score(job.problem, pairs_of(strategies))
    fits = bool(scores.feasible[0])
    found = Found(evaluated=1, feasible=int(fits))
    if fits:
        found.best, found.index, found.steps = [strategies], [0], [float(scores.step[0])]
    else:
        found.infeasible = {REASONS[int(scores.reason[0])]: 1}
        found.closest, found.closest_bytes = strategies, float(scores.device_bytes[0])
    return found


def require_valid(loaded: LoadedPlan, job: Job) -> None:
    """Raise SpecError where the stated layout breaks a structural constraint."""
    assert job.strategies is not None
    code = int(broken_constraint(job.problem, job.strategies)[0])
    if code:
        name = REASONS[code]
        loaded.fail(CONSTRAINT_PATHS.get(name, "parallel"), EXPLAIN[name])


CONSTRAINT_PATHS = {
    "tensor_heads": "parallel.tensor", "tensor_ffn": "parallel.tensor", "context_length": "parallel.context",
    "ulysses_heads": "parallel.context", "pipeline_layers": "parallel.pipeline",
    "dualpipe_stages": "parallel.pipeline", "dualpipe_micro_batches": "training.global_batch_size",
    "batch_divisibility": "training.global_batch_size", "interleaving_micro_batches": "training.global_batch_size",
    "expert_count": "parallel.expert", "expert_data": "parallel.expert", "expert_tensor": "parallel.expert_tensor",
    "virtual_schedule": "parallel.schedule", "shard_group": "parallel.shard_group",
}  # fmt: skip


def with_strategies(choice: Choice, strategies: Strategies) -> Choice:
    """The same job with another strategy."""
    return replace(choice, strategies=strategies)

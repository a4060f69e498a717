"""`estimate`: one plan, one strategy, the whole answer as the JSON contract says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cann_plan import __version__
from cann_plan.cost.memory import PARTS, PHASES
from cann_plan.cost.problem import Problem
from cann_plan.cost.step import BREAKDOWN, OVERLAPPED
from cann_plan.cost.strategies import RANK_ORDERS, SCHEDULES, Strategies
from cann_plan.planner.choose import choose
from cann_plan.planner.evaluate import Evaluation, evaluate, micro_batches, stage_memory
from cann_plan.planner.job import Job
from cann_plan.planner.recommend import recommendations
from cann_plan.planner.search import Progress
from cann_plan.planner.whole_run import DAY, cost_of, elapsed_seconds, energy_of, evaluation_share, goodput_of
from cann_plan.spec.base import stated_values
from cann_plan.spec.resolve import LoadedPlan
from cann_plan.workload.architecture import MoeFfn
from cann_plan.workload.flops import model_flops_per_token
from cann_plan.workload.operators.rows import CONTEXT_KINDS

if TYPE_CHECKING:
    from cann_plan.planner.contract_estimate import EstimateDocument

GIB = 2.0**30
CONVENTION = "model: matrix products of forward x 3; causal attention counted half; recompute not counted"


def estimate_document(
    job: Job, strategies: Strategies, recommendations: list[dict[str, Any]], evaluation: Evaluation | None = None
) -> EstimateDocument:
    """The document of `strategies` (a block of one) on `job`; `evaluation` holds its results in row 0 where known.

    Raises:
        ValueError: the strategy breaks a structural constraint (callers check first).
    """
    result = evaluate(job.problem, strategies) if evaluation is None else evaluation
    if not np.isfinite(result.step[0]):
        raise ValueError("the strategy cannot be evaluated")
    memory = memory_section(job, strategies, result)
    body: dict[str, Any] = {
        "schema": "cann-plan/estimate/1",
        "tool": {"version": __version__, "profile": job.profile.name},
        "plan": {},
        "parallel": parallel_section(job, strategies),
        "flops": flops_section(job, result),
        "time": time_section(job, result),
        "memory": memory,
        "parameters": {
            "total": job.counts.total, "active": job.counts.active, "embedding": job.counts.embedding,
        },
    }  # fmt: skip
    elapsed = body["time"]["goodput_days"]
    seconds = elapsed * DAY if elapsed is not None else None
    body["cost"] = cost_of(job, seconds)
    body["energy"] = energy_of(job, seconds)
    body["plan"] = resolved_plan(job, body["parallel"])
    body["assumptions"] = list(job.assumptions.items)
    body["warnings"] = list(job.warnings.items)
    body["recommendations"] = recommendations
    return cast("EstimateDocument", body)


def parallel_section(job: Job, strategies: Strategies) -> dict[str, Any]:
    """Every axis of the strategy by its plan key, with the derived degrees."""
    s, problem = strategies, job.problem
    policy = problem.policies[int(s.policy[0])]
    layers = int(s.recompute_layers[0])
    recompute: dict[str, Any] = {"policy": policy.name if policy.name in ("none", "selective", "full") else "selective"}
    if policy.name not in ("none", "full"):
        recompute["modules"] = sorted(policy.modules)
    if layers >= 0:
        recompute |= {"method": "block", "layers": layers, "scope": problem.recompute_scope}
    elif layers < -1:
        recompute["per_stage"] = list(problem.recompute_lists[-layers - 2])
    split = problem.splits[int(s.split[0])]
    return {
        "tensor": int(s.tensor[0]),
        "pipeline": int(s.pipeline[0]),
        "data": int(s.data[0]),
        "context": int(s.context[0]),
        "context_kind": CONTEXT_KINDS[int(s.context_kind[0])],
        "ulysses_degree": int(s.ulysses[0]),
        "expert": int(s.expert[0]),
        "expert_tensor": int(s.expert_tensor[0]),
        "virtual_pipeline": int(s.virtual[0]),
        "schedule": SCHEDULES[int(s.schedule[0])],
        "layer_split": list(split) if split is not None else "even",
        "micro_batch_size": int(s.micro_batch_size[0]),
        "sequence_parallel": bool(s.sequence_parallel[0]),
        "zero_stage": int(s.zero_stage[0]),
        "shard_group": int(s.shard_group[0]) or int(s.data[0] * s.context[0]),
        "recompute": recompute,
        "offload": offload_section(problem),
        "overlap": {
            "grad_reduce": problem.overlap.grad_reduce, "param_gather": problem.overlap.param_gather,
            "tensor": problem.overlap.tensor, "p2p": problem.overlap.p2p, "expert": problem.overlap.expert,
        },
        "rank_order": RANK_ORDERS[int(s.rank_order[0])],
        "group_generator": "nested" if problem.nested_experts else "folded",
        "devices": job.cluster.devices,
        "expert_data": int(s.data[0] * s.context[0] * s.tensor[0] // (s.expert[0] * s.expert_tensor[0])),
        "micro_batches": int(micro_batches(problem, s)[0]),
    }  # fmt: skip


def offload_section(problem: Problem) -> dict[str, Any]:
    """Shares kept in host memory, empty where nothing is."""
    offload = problem.offload
    if not offload.active:
        return {}
    names = ("optimizer", "gradients", "activations", "parameters")
    shares: dict[str, Any] = {name: getattr(offload, name) for name in names if getattr(offload, name) > 0.0}
    if offload.optimizer > 0.0:
        shares["optimizer_step"] = "host" if offload.update_on_host else "device"
    return shares


def flops_section(job: Job, result: Evaluation) -> dict[str, Any]:
    """Model and hardware FLOPs with the convention named."""
    per_token = float(np.atleast_1d(model_flops_per_token(job.architecture, job.sequence_length))[0])
    per_step = per_token * job.sequence_length * job.global_batch_size
    return {
        "convention": CONVENTION,
        "model_per_token": per_token,
        "model_per_step": per_step,
        "hardware_per_step": float(result.hardware_flops[0]),
        "peak_tflops_per_device": job.peak / 1e12,
        "peak_source": f"{job.cluster.device.name} dense {job.precision}: {job.peak_source}",
    }


def time_section(job: Job, result: Evaluation) -> dict[str, Any]:
    """Step, parts, run length, throughput and the interval."""
    step = float(result.step[0])
    devices = job.cluster.devices
    tokens_per_step = float(job.sequence_length) * job.global_batch_size
    ideal = job.tokens / tokens_per_step * step
    passes = sum(float(result.breakdown[name][0]) for name in ("forward", "backward", "recompute"))
    forward_share = float(result.breakdown["forward"][0]) / passes if passes else 0.0
    share = goodput_of(job) / (1.0 + evaluation_share(job, forward_share))
    warmup = job.plan.run.warmup_s or 0.0
    elapsed = elapsed_seconds(ideal, share, float(warmup))
    flops = flops_section(job, result)
    tokens_per_s = tokens_per_step / step
    return {
        "step_s": step,
        "critical_stage": int(result.critical_stage[0]),
        "breakdown_s": {name: float(result.breakdown[name][0]) for name in BREAKDOWN},
        "overlapped_s": {name: float(result.overlapped[name][0]) for name in OVERLAPPED},
        "ideal_s": ideal,
        "total_days": ideal / DAY,
        "goodput": ideal / elapsed if elapsed else 0.0,
        "goodput_days": elapsed / DAY if elapsed is not None else None,
        "interval": _interval(job, step),
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_device": tokens_per_s / devices,
        "samples_per_s": job.global_batch_size / step,
        "model_tflops_per_device": flops["model_per_step"] / step / devices / 1e12,
        "hardware_tflops_per_device": flops["hardware_per_step"] / step / devices / 1e12,
        "mfu": flops["model_per_step"] / step / devices / job.peak,
        "hfu": flops["hardware_per_step"] / step / devices / job.peak,
    }  # fmt: skip


def memory_section(job: Job, strategies: Strategies, result: Evaluation) -> dict[str, Any]:
    """Every pipeline rank's memory; the peak is the evaluation's own."""
    options = job.problem.memory
    detail = stage_memory(job.problem, strategies)
    table, parts = detail.table, detail.memory
    device = parts.device[0]
    sizes = table.per_rank(table.sizes)
    per_stage = job.cluster.devices // table.pipeline
    stages = []
    for stage in range(table.pipeline):
        entry: dict[str, Any] = {
            "stage": stage,
            "ranks": per_stage,
            "layers": int(sizes[stage]),
            "in_flight": float(parts.in_flight[0, stage]),
        }
        entry |= {f"{name}_gib": float(getattr(parts, name)[0, stage]) / GIB for name in PARTS}
        entry |= {
            "allocated_gib": float(parts.allocated[0, stage]) / GIB,
            "reserved_gib": float(parts.reserved[0, stage]) / GIB,
            "device_gib": float(device[stage]) / GIB,
            "peak_phase": PHASES[int(parts.phase[0, stage])],
        }
        stages.append(entry)
    peak, worst = float(result.device_bytes[0]), int(result.peak_stage[0])
    usable = float(result.usable_bytes[0])
    headroom = options.visible - peak
    host_used = float(result.host_bytes[0])
    host_fits = host_used <= job.problem.offload.capacity
    verdict = "fits" if headroom > options.borderline * usable else "borderline" if headroom >= 0 else "does_not_fit"
    host = job.cluster.host.memory.value
    return {
        "capacity_gib": options.capacity / GIB,
        "visible_gib": options.visible / GIB,
        "usable_gib": usable / GIB,
        "peak_gib": peak / GIB,
        "peak_stage": worst,
        "peak_phase": stages[worst]["peak_phase"],
        "headroom_gib": headroom / GIB,
        "fits": headroom >= 0 and host_fits,
        "verdict": verdict if host_fits else "does_not_fit",
        "stages": stages,
        "host_per_node_gib": host_used / GIB if job.problem.offload.active else None,
        "host_capacity_gib": host / GIB if host is not None else None,
    }


def _stated_unknown(node: Any) -> Any:
    """Figures nobody states, written so that they load again as unknown."""
    if isinstance(node, dict):
        children = {name: _stated_unknown(child) for name, child in node.items()}
        bare = set(children) <= {"source", "note"} and children
        return {"value": "unknown", **children} if bare else children
    if isinstance(node, list):
        return [_stated_unknown(child) for child in node]
    return node


def _interval(job: Job, step: float) -> dict[str, Any]:
    """The profile's spread of predictions, at the confidence the plan asks for (log-normal scaling)."""
    _, spread, _ = job.profile.on(job.cluster.device.name, job.cluster.device.family)
    wanted = job.plan.limits.confidence or spread.confidence
    level = min(float(wanted), 0.999)
    scale = 1.0
    if level != spread.confidence:
        from statistics import NormalDist

        normal = NormalDist()
        scale = normal.inv_cdf(0.5 + level / 2.0) / normal.inv_cdf(0.5 + spread.confidence / 2.0)
    return {
        "confidence": level, "low_s": step * spread.low**scale, "high_s": step * spread.high**scale,
        "basis": spread.basis, "n": spread.n,
    }  # fmt: skip


def resolved_plan(job: Job, parallel: dict[str, Any]) -> dict[str, Any]:
    """The plan with every key the estimate used filled in; a plan file again."""
    plan = stated_values(job.plan)
    plan["model"] = stated_values(job.model)
    plan["cluster"] = _stated_unknown(plan.get("cluster", {}))
    plan["parallel"] = resolved_parallel(job, parallel)
    plan["training"] = plan.get("training", {}) | {
        "sequence_length": job.sequence_length,
        "global_batch_size": job.global_batch_size,
        "precision": job.precision,
    }
    plan["software"] = plan.get("software", {}) | {"stack": job.profile.name}
    return plan


def resolved_parallel(job: Job, parallel: dict[str, Any]) -> dict[str, Any]:
    """The `parallel` section without what follows from it: plan keys again."""
    derived = ["devices", "expert_data", "micro_batches"]
    if parallel["context_kind"] != "hybrid":
        derived.append("ulysses_degree")
    if parallel["zero_stage"] == 0:
        derived.append("shard_group")
    if not any(isinstance(kind.ffn, MoeFfn) for kind in job.architecture.kinds):
        derived += ["expert", "expert_tensor"]
    return {name: value for name, value in parallel.items() if name not in derived}


def estimate(loaded: LoadedPlan, on_progress: Progress | None = None) -> EstimateDocument:
    """The estimate of a loaded plan.

    Raises:
        SpecError: located problems of the plan.
    """
    choice = choose(loaded, on_progress)
    helpful, evaluation = recommendations(choice.job, choice.strategies)
    return estimate_document(choice.job, choice.strategies, helpful, evaluation)

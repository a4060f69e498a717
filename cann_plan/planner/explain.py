"""Where each number of an estimate comes from: formula, inputs, source."""

from __future__ import annotations

from typing import Any, cast

from cann_plan.planner.choose import choose
from cann_plan.planner.contract_estimate import ExplainDocument
from cann_plan.planner.estimate import estimate_document
from cann_plan.planner.job import Job
from cann_plan.spec.resolve import LoadedPlan

GIB = 2.0**30


def explain(loaded: LoadedPlan, term: str | None = None) -> ExplainDocument:
    """Every number of the plan's estimate with its formula; `term` keeps those whose name starts with it.

    Raises:
        SpecError: located problems of the plan.
    """
    choice = choose(loaded)
    document = cast(dict[str, Any], estimate_document(choice.job, choice.strategies, []))
    terms = [
        *_time_terms(choice.job, document),
        *_memory_terms(choice.job, document),
        *_run_terms(choice.job, document),
    ]
    if term is not None:
        terms = [item for item in terms if item["term"].startswith(term)]
    return cast(ExplainDocument, {"schema": "cann-plan/explain/1", "terms": terms})


def _term(name: str, value: Any, unit: str | None, formula: str, inputs: dict[str, Any], source: str) -> dict[str, Any]:
    return {"term": name, "value": value, "unit": unit, "formula": formula, "inputs": inputs, "source": source}


def _time_terms(job: Job, document: dict[str, Any]) -> list[dict[str, Any]]:
    time, parallel, flops = document["time"], document["parallel"], document["flops"]
    parts, stack = time["breakdown_s"], job.problem.compute.stack
    slots = parallel["micro_batches"]
    family = job.problem.compute.device.operators.family
    operators = f"operator constants {family}, profile {stack.name}"
    links = f"{job.cluster.library.upper()} on {job.cluster.name}"
    per_slot = {"micro_batches": slots, "critical_stage": time["critical_stage"]}
    shares = {"compute_time": stack.compute_time, "attention_rate": stack.attention_rate}
    states = job.problem.states
    return [
        _term("time.step_s", time["step_s"], "s", "sum of breakdown_s along the busiest pipeline stage", dict(parts),
              "pipeline closed form, proved against the schedule simulator"),
        _term("time.breakdown_s.forward", parts["forward"], "s",
              "micro_batches x layers of the stage x sum over operators of t0 + max(FLOPs / (peak x efficiency), "
              "bytes / (bandwidth x efficiency))", per_slot | shares, operators),
        _term("time.breakdown_s.backward", parts["backward"], "s",
              "as forward; input and weight gradient of each product, attention backward 2.5 x forward FLOPs",
              per_slot | {"gradient_bytes": states.gradient}, operators),
        _term("time.breakdown_s.recompute", parts["recompute"], "s", "forward time of the replayed operators",
              per_slot | {"policy": parallel["recompute"]}, operators),
        _term("time.breakdown_s.tensor_comm", parts["tensor_comm"], "s",
              "micro_batches x layers x exposed all-gather, reduce-scatter or all-reduce of micro_batch x sequence x "
              "hidden x bytes over the tensor group",
              per_slot | {"tensor": parallel["tensor"], "sequence_parallel": parallel["sequence_parallel"],
                          "overlap": parallel["overlap"]["tensor"]}, links),
        _term("time.breakdown_s.context_comm", parts["context_comm"], "s",
              "ring sends beyond the attention they hide behind, or all-to-all / all-gather in full",
              {"context": parallel["context"], "context_kind": parallel["context_kind"]}, links),
        _term("time.breakdown_s.expert_comm", parts["expert_comm"], "s",
              "all-to-all of tokens x top_k x hidden x bytes there and back, forward and backward",
              {"expert": parallel["expert"], "expert_tensor": parallel["expert_tensor"]}, links),
        _term("time.breakdown_s.pipeline_comm", parts["pipeline_comm"], "s",
              "blocking sends of boundary tensors on the critical stage", {"p2p_overlap": parallel["overlap"]["p2p"]},
              links),
        _term("time.breakdown_s.pipeline_bubble", parts["pipeline_bubble"], "s", "step - everything else",
              {"pipeline": parallel["pipeline"], "virtual_pipeline": parallel["virtual_pipeline"],
               "micro_batches": slots, "schedule": parallel["schedule"]}, "schedule closed form"),
        _term("time.breakdown_s.data_comm", parts["data_comm"], "s",
              "gradient reduce-scatter and parameter all-gather (or all-reduce) not hidden behind backward or the "
              "drain of earlier stages",
              {"data": parallel["data"], "zero_stage": parallel["zero_stage"], "reduce_bytes": states.reduce,
               "gather_bytes": states.gather}, links),
        _term("time.breakdown_s.optimizer", parts["optimizer"], "s",
              "local parameters x bytes read and written / (bandwidth x efficiency)",
              {"bytes_per_parameter": states.optimizer_traffic}, operators),
        _term("time.tokens_per_s", time["tokens_per_s"], "tokens/s", "global_batch_size x sequence_length / step_s",
              {"global_batch_size": job.global_batch_size, "sequence_length": job.sequence_length}, "definition"),
        _term("time.mfu", time["mfu"], "fraction", "model_per_step / (step_s x devices x peak)",
              {"model_per_step": flops["model_per_step"], "devices": parallel["devices"],
               "peak_tflops_per_device": flops["peak_tflops_per_device"]}, flops["peak_source"]),
        _term("time.hfu", time["hfu"], "fraction", "hardware_per_step / (step_s x devices x peak)",
              {"hardware_per_step": flops["hardware_per_step"]}, flops["peak_source"]),
    ]  # fmt: skip


def _memory_terms(job: Job, document: dict[str, Any]) -> list[dict[str, Any]]:
    memory, parallel, options = document["memory"], document["parallel"], job.problem.memory
    stage = memory["stages"][memory["peak_stage"]]
    states = job.problem.states
    shard = {"data": parallel["data"], "context": parallel["context"], "zero_stage": parallel["zero_stage"]}
    at = f"stage {stage['stage']}"
    return [
        _term("memory.peak_gib", memory["peak_gib"], "GiB", "largest device_gib over pipeline stages", {"stage": at},
              "sum of its parts"),
        _term("memory.weights_gib", stage["weights_gib"], "GiB", "parameters of the stage x bytes (/ shards at ZeRO 3)",
              shard | {"bytes": states.weight, "tensor": parallel["tensor"]}, job.profile.defaults.source),
        _term("memory.gradients_gib", stage["gradients_gib"], "GiB", "parameters x gradient bytes (/ shards at ZeRO 2)",
              shard | {"bytes": states.gradient}, job.profile.defaults.source),
        _term("memory.optimizer_gib", stage["optimizer_gib"], "GiB", "parameters x state bytes (/ shards at ZeRO 1)",
              shard | {"bytes": states.optimizer}, job.profile.defaults.source),
        _term("memory.activations_gib", stage["activations_gib"], "GiB",
              "micro-batches in flight x layers x kept bytes of the operator walk",
              {"in_flight": stage["in_flight"], "layers": stage["layers"], "recompute": parallel["recompute"]},
              "arXiv 2205.05198 section 4 for GPT layers"),
        _term("memory.temporaries_gib", stage["temporaries_gib"], "GiB",
              "worst operator of backward: its temporaries and what recompute has rebuilt", {}, "operator walk"),
        _term("memory.logits_gib", stage["logits_gib"], "GiB", "logits kept and their gradient on the last stage",
              {"fused_loss": job.problem.fused_loss}, "arXiv 2205.05198 section 4.3"),
        _term("memory.communicators_gib", stage["communicators_gib"], "GiB", "groups in use x buffer bytes",
              {"bytes_per_group": options.communicator_bytes}, job.cluster.library.upper()),
        _term("memory.runtime_gib", stage["runtime_gib"], "GiB", "context and runtime outside the allocator", {},
              f"device preset {job.cluster.device.name}"),
        _term("memory.fragmentation_gib", stage["fragmentation_gib"], "GiB", "allocated x share",
              {"share": options.fragmentation}, job.profile.defaults.source),
        _term("memory.visible_gib", memory["visible_gib"], "GiB", "capacity a framework sees",
              {"capacity_gib": memory["capacity_gib"]}, f"device preset {job.cluster.device.name}"),
    ]  # fmt: skip


def _run_terms(job: Job, document: dict[str, Any]) -> list[dict[str, Any]]:
    time, cost, energy = document["time"], document["cost"], document["energy"]
    return [
        _term("time.total_days", time["total_days"], "days", "tokens / (tokens_per_s) / 86400", {"tokens": job.tokens},
              "definition"),
        _term("time.goodput", time["goodput"], "fraction",
              "(1 - (restart + lost work) / MTBF) / (1 + checkpoint / interval)", {"nodes": job.cluster.nodes},
              "Young 1974, Daly 2006"),
        _term("time.interval", time["interval"], "s", "step x spread of predictions on runs", {},
              (time["interval"] or {}).get("basis", "")),
        _term("cost.amount", cost["amount"], cost["currency"], "device_hours x price",
              {"device_hours": cost["device_hours"]},
              cost["reason"] or "plan or preset"),
        _term("energy.kwh", energy["kwh"], "kWh", "devices x power x elapsed time x PUE", {},
              energy["reason"] or "plan or preset"),
    ]  # fmt: skip

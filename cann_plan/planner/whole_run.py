"""From step time to the whole run: ideal time, goodput, money, energy."""

from __future__ import annotations

from typing import Any

import numpy as np

from cann_plan.cost.energy import CARBON_G_PER_KWH, PUE, energy_kwh
from cann_plan.cost.reliability import (
    CHECKPOINT_WRITE_S,
    NODE_FAILURES_PER_1000_DAYS,
    RESTART_S,
    goodput,
    job_mtbf_s,
    young_daly_interval_s,
)
from cann_plan.planner.job import Job

DAY = 86400.0


def goodput_of(job: Job) -> float:
    """Useful share of elapsed time, from the `run:` section and stated failure statistics."""
    run, note = job.plan.run, job.assumptions
    mtbf = run.mtbf_s
    if mtbf is None:
        rate = run.failures_per_1000_node_days
        if rate is None:
            rate = note.take(
                "run.failures_per_1000_node_days", None, NODE_FAILURES_PER_1000_DAYS,
                "419 unexpected stops in 54 days on 16,384 H100 (arXiv 2407.21783)",
            )  # fmt: skip
        mtbf = float(job_mtbf_s(job.cluster.nodes, rate)[0])
    restart = note.take("run.restart_s", run.restart_s, RESTART_S, "10 minutes, Daly 2006")
    states = job.problem.states
    size = job.counts.total * (states.weight + states.optimizer)
    write = CHECKPOINT_WRITE_S
    if run.checkpoint.bandwidth is not None:
        write = size / float(run.checkpoint.bandwidth)
    else:
        note.add("run.checkpoint.bandwidth", f"{size / write / 1e9:.1f} GB/s", "a checkpoint in one minute")
    blocking = 0.0 if run.checkpoint.asynchronous else write
    stated = run.checkpoint.interval
    interval = (
        float(young_daly_interval_s(write, mtbf)[0]) if stated is None or isinstance(stated, str) else float(stated)
    )
    if stated is None:
        note.add("run.checkpoint.interval", f"{interval / 60:.0f} min", "Young 1974: sqrt(2 x write time x MTBF)")
    share = float(goodput(interval, blocking, write if blocking == 0.0 else 0.0, mtbf, restart)[0])
    return share * (1.0 - (run.stall_fraction or 0.0))


def evaluation_share(job: Job, forward_share: float) -> float:
    """Time evaluation adds, as a share of training time: forward passes at the training batch size."""
    evaluation = job.plan.run.evaluation
    if evaluation.interval_steps is None or evaluation.steps is None:
        return 0.0
    return evaluation.steps * forward_share / evaluation.interval_steps


def cost_of(job: Job, elapsed_s: float | None) -> dict[str, Any]:
    """Device-hours and money of the elapsed time."""
    economics = job.plan.economics
    if elapsed_s is None:
        return {"device_hours": None, "amount": None, "currency": None, "reason": "the run never finishes"}
    hours = job.cluster.devices * elapsed_s / 3600.0
    price, currency = economics.price_per_device_hour, economics.currency
    if price is None and job.cluster.price_per_hour is not None:
        stated = job.cluster.price_per_hour
        price, currency = stated.value, stated.currency
        job.assumptions.add("economics.price_per_device_hour", f"{price} {currency}", stated.source or "preset")
    if price is None:
        reason = f"no price per device-hour is known for {job.cluster.device.name}: set economics.price_per_device_hour"
        return {"device_hours": hours, "amount": None, "currency": None, "reason": reason}
    return {"device_hours": hours, "amount": hours * float(price), "currency": currency or "USD", "reason": None}


def energy_of(job: Job, elapsed_s: float | None) -> dict[str, Any]:
    """Energy at the meter and carbon of the elapsed time."""
    economics, cluster = job.plan.economics, job.cluster
    if elapsed_s is None:
        return {"kwh": None, "kg_co2e": None, "reason": "the run never finishes"}
    watts = economics.power_w
    if watts is None:
        training, rated = cluster.power.training.value, cluster.power.rated.value
        server = training if training is not None else rated
        if server is not None:
            watts = server / cluster.server.devices_per_node
            word = "mean while training" if training is not None else "rated"
            job.assumptions.add("economics.power_w", f"{watts:.0f} W", f"{word} server power over its devices")
    if watts is None:
        reason = f"no source states the power of {cluster.server.name}: set economics.power_w"
        return {"kwh": None, "kg_co2e": None, "reason": reason}
    stated_pue = economics.pue if economics.pue is not None else cluster.spec.pue.value
    pue = job.assumptions.take("economics.pue", stated_pue, PUE, "average of large data centres in China")
    kwh = float(energy_kwh(float(watts) * cluster.devices, elapsed_s, pue)[0])
    intensity = economics.carbon_intensity
    if intensity is None and economics.region is not None:
        intensity = CARBON_G_PER_KWH.get(economics.region.lower())
    if intensity is None:
        return {"kwh": kwh, "kg_co2e": None, "reason": "carbon needs economics.region or carbon_intensity"}
    return {"kwh": kwh, "kg_co2e": kwh * float(intensity) / 1000.0, "reason": None}


def elapsed_seconds(ideal_s: float, share: float, warmup_s: float) -> float | None:
    """Elapsed time with warm-up, None where failures come faster than progress."""
    return ideal_s / share + warmup_s if share > 0.0 and np.isfinite(ideal_s) else None

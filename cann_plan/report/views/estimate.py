"""`cann-plan estimate`: the verdict, where time and memory go, what was assumed and what would help."""

from collections.abc import Mapping, Sequence
from typing import Any

from cann_plan.report import flat, numbers
from cann_plan.report.blocks import Bar, Bars, Block, Detail, Notes, Tone, Verdict, View
from cann_plan.report.plan_title import layout, title
from cann_plan.report.views import explain

# Part of `breakdown_s` -> label, tone, the part of `overlapped_s` that hides more of the same.
_TIME_PARTS: dict[str, tuple[str, Tone, str | None]] = {
    "forward": ("forward", "compute", None),
    "backward": ("backward", "compute", None),
    "recompute": ("recompute", "compute", None),
    "tensor_comm": ("tensor comm.", "communication", "tensor"),
    "context_comm": ("context comm.", "communication", "context"),
    "expert_comm": ("expert comm.", "communication", "expert"),
    "pipeline_comm": ("pipeline comm.", "communication", "pipeline"),
    "pipeline_bubble": ("pipeline bubble", "idle", None),
    "data_comm": ("data comm.", "communication", "data"),
    "optimizer": ("optimizer", "compute", None),
    "offload": ("offload", "communication", "offload"),
    "input_stall": ("input stall", "idle", "input"),
    "host_overhead": ("host overhead", "idle", None),
}
_MEMORY_PARTS = {
    "weights_gib": "weights",
    "gradients_gib": "gradients",
    "optimizer_gib": "optimizer",
    "activations_gib": "activations",
    "temporaries_gib": "temporaries",
    "logits_gib": "logits",
    "communicators_gib": "communicators",
    "runtime_gib": "runtime",
    "fragmentation_gib": "fragmentation",
}
_SMALL_TIME = 0.01  # parts below this share of the step are shown together
_SMALL_MEMORY = 0.02  # of the usable memory
_SHOWN_ASSUMPTIONS = 4
_SHOWN_WARNINGS = 3
_SHOWN_RECOMMENDATIONS = 3
_SECTIONS = ("cluster", "device", "model", "parallel", "training", "software")
_RECORDED = ("parallel", "flops", "time", "memory", "cost", "energy", "parameters")


def view(document: Mapping[str, Any], detail: Detail) -> View:
    """The one-screen answer; `detail.explain` appends the formulas, `detail.brief` keeps the verdict only."""
    blocks: list[Block] = [verdict(document)]
    if not detail.brief:
        blocks += [time_bars(document["time"]), memory_bars(document["memory"])]
        blocks += _lists(document, detail)
    if detail.explain and document.get("explain"):
        blocks.append(explain.notes(document["explain"]))
    records = flat.table({key: document[key] for key in _RECORDED})
    if detail.explain and document.get("explain"):
        records = explain.records(document["explain"])
    return View(blocks, records)


def verdict(document: Mapping[str, Any]) -> Verdict:
    """The box at the top: does it fit, how long, how fast, what it costs, in which layout."""
    memory, time = document["memory"], document["time"]
    tone: Tone = {"fits": "good", "borderline": "warn"}.get(memory["verdict"], "bad")  # type: ignore[assignment]
    lines = [_run(time), _speed(time, document["flops"]), _money(document["cost"], document["energy"])]
    lines.append(layout(document["parallel"]))
    plan = document.get("plan", {})
    return Verdict(title(plan, document["parallel"]), tone, headline(memory), [line for line in lines if line])


def headline(memory: Mapping[str, Any]) -> str:
    """Whether the plan fits, by how much, where and when the peak is."""
    capacity, word = capacity_of(memory)
    phase = f" ({_words(memory['peak_phase'])})" if memory["peak_phase"] else ""
    where = f"stage {memory['peak_stage']}{phase}"
    needs = f"{where} needs {numbers.gib_number(memory['peak_gib'])} of {numbers.gib(capacity)} {word}"
    margin = numbers.gib(abs(memory["headroom_gib"]))
    if memory["verdict"] == "does_not_fit":
        return f"DOES NOT FIT by {margin}: {needs}"
    side = "free" if memory["headroom_gib"] >= 0 else "over"
    return f"{'FITS' if memory['verdict'] == 'fits' else 'BORDERLINE'} with {margin} {side}: {needs}"


def capacity_of(memory: Mapping[str, Any]) -> tuple[float, str]:
    """The capacity that the verdict is judged by, in GiB, and whether it is the visible or the usable one."""
    capacity = memory["peak_gib"] + memory["headroom_gib"]
    visible, usable = memory["visible_gib"], memory["usable_gib"]
    return (visible, "visible") if abs(capacity - visible) <= abs(capacity - usable) else (usable, "usable")


def _run(time: Mapping[str, Any]) -> str:
    if time["total_days"] is None:
        return ""
    ideal, real = time["total_days"], time["goodput_days"]
    text = f"{numbers.days(ideal)} without stops"
    if real is not None:
        text = f"{numbers.days(real)} (goodput {numbers.percent(time['goodput'])}; {text})"
    interval = time["interval"]
    if interval is not None and time["step_s"] > 0:
        base = (real if real is not None else ideal) / time["step_s"]
        low, high = numbers.days(interval["low_s"] * base), numbers.days(interval["high_s"] * base)
        low_number, _, low_unit = low.rpartition(" ")
        low = low_number if low_unit == high.rpartition(" ")[2] else low
        text += f", {interval['confidence'] * 100:.0f} % interval {low}–{high}"
    return text


def _speed(time: Mapping[str, Any], flops: Mapping[str, Any]) -> str:
    return (
        f"{numbers.seconds(time['step_s'])} per step · "
        f"{numbers.plain(float(time['tokens_per_s_per_device']))} tokens/s/device · "
        f"MFU {numbers.percent(time['mfu'])} · HFU {numbers.percent(time['hfu'])} "
        f"of {numbers.plain(float(flops['peak_tflops_per_device']))} TFLOP/s"
    )


def _money(cost: Mapping[str, Any], energy: Mapping[str, Any]) -> str:
    parts = []
    if cost["device_hours"] is not None:
        parts.append(f"{numbers.count(cost['device_hours'])} device-hours")
    if cost["amount"] is not None:
        parts.append(numbers.money(cost["amount"], cost["currency"]))
    if energy["kwh"] is not None:
        parts.append(numbers.energy(energy["kwh"]))
    if energy["kg_co2e"] is not None:
        parts.append(numbers.carbon(energy["kg_co2e"]))
    unknown = [name for name, _ in _unknown(cost, energy)]
    if unknown:
        parts.append(f"{' and '.join(unknown)} unknown")
    return " · ".join(parts)


def _unknown(cost: Mapping[str, Any], energy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What has no figure, and why."""
    known = (("cost", cost, cost["amount"]), ("energy", energy, energy["kwh"]))
    return [(name, part["reason"]) for name, part, amount in known if amount is None and part["reason"]]


def time_bars(time: Mapping[str, Any]) -> Bars:
    """Exposed time by part, longest first; hidden time as a note or, where nothing is exposed, below."""
    step, hidden = time["step_s"], dict(time["overlapped_s"])
    rows: list[tuple[float, Bar]] = []
    rest = 0.0
    for key, amount in sorted(time["breakdown_s"].items(), key=lambda item: -item[1]):
        label, tone, twin = _TIME_PARTS.get(key, (_words(key), "plain", None))
        share = amount / step if step else 0.0
        if abs(share) < _SMALL_TIME:
            rest += amount
            continue
        covered = hidden.pop(twin, 0.0) if twin else 0.0
        note = f"+ {numbers.seconds(covered)} hidden" if covered >= _SMALL_TIME * step else ""
        rows.append((amount, Bar(label, numbers.seconds(amount), share, note, tone)))
    bars = [bar for _, bar in rows]
    if rest > 0:
        bars.append(Bar("other", numbers.seconds(rest), rest / step, tone="dim"))
    footnotes = []
    behind = [f"{key} {numbers.seconds(amount)}" for key, amount in hidden.items() if amount >= _SMALL_TIME * step]
    if behind:
        footnotes.append("Hidden behind computation, not in the step: " + ", ".join(behind))
    heading = f"Where the time goes: {numbers.seconds(step)} per step on pipeline stage {time['critical_stage']}"
    longest = max((bar.share for bar in bars), default=1.0)
    return Bars(heading, "step", bars, footnotes, full=longest)


def memory_bars(memory: Mapping[str, Any]) -> Bars:
    """Memory of the peak stage by part, largest first, as shares of the capacity that counts."""
    stages = memory["stages"]
    capacity, word = capacity_of(memory)
    peak = next((stage for stage in stages if stage["stage"] == memory["peak_stage"]), stages[0])
    parts = sorted(((peak[key], label) for key, label in _MEMORY_PARTS.items()), key=lambda part: -part[0])
    shown = [(amount, label) for amount, label in parts if amount >= _SMALL_MEMORY * capacity]
    rest = sum(amount for amount, _ in parts) - sum(amount for amount, _ in shown)
    tone: Tone = "plain" if memory["fits"] else "bad"
    bars = [_memory_bar("total", peak["device_gib"], capacity, tone)]
    bars += [_memory_bar(label, amount, capacity, "memory") for amount, label in shown]
    if rest > 0:
        bars.append(_memory_bar("other", rest, capacity, "dim"))
    heading = (
        f"Where the memory goes: stage {peak['stage']}, "
        f"{numbers.gib_number(peak['device_gib'])} of {numbers.gib(capacity)} {word}"
    )
    return Bars(heading, f"{word} memory", bars, _memory_footnotes(memory), full=max(1.0, bars[0].share))


def _memory_bar(label: str, amount: float, capacity: float, tone: Tone) -> Bar:
    return Bar(label, f"{numbers.gib_number(amount)} GiB", amount / capacity, tone=tone)


def _memory_footnotes(memory: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{numbers.gib(memory['capacity_gib'])} nominal, {numbers.gib(memory['visible_gib'])} visible "
        f"to the framework, {numbers.gib(memory['usable_gib'])} usable"
    ]
    peaks = [numbers.gib_number(stage["device_gib"]) for stage in memory["stages"]]
    if len(peaks) > 8:
        peaks = [*peaks[:4], "…", *peaks[-3:]]
    if len(peaks) > 1:
        lines.append(f"Peak by stage, first to last: {'  '.join(peaks)} GiB")
    if memory["host_per_node_gib"] is not None:
        of = f" of {numbers.gib(memory['host_capacity_gib'])}" if memory["host_capacity_gib"] is not None else ""
        lines.append(f"Host memory per node: {numbers.gib(memory['host_per_node_gib'])}{of}")
    return lines


def _lists(document: Mapping[str, Any], detail: Detail) -> list[Block]:
    assumptions = sorted(document["assumptions"], key=_importance)
    unknown = [f"{name}: {reason}" for name, reason in _unknown(document["cost"], document["energy"])]
    lists: list[tuple[str, Tone, Sequence[str], int]] = [
        ("Assumptions", "plain", [assumption_text(item) for item in assumptions], _SHOWN_ASSUMPTIONS),
        ("Unknown", "plain", unknown, len(unknown)),
        ("Warnings", "warn", [warning_text(item) for item in document["warnings"]], _SHOWN_WARNINGS),
        (
            "What would help",
            "plain",
            [recommendation_text(item) for item in document["recommendations"]],
            _SHOWN_RECOMMENDATIONS,
        ),
    ]
    blocks: list[Block] = []
    for heading, tone, items, limit in lists:
        shown = list(items) if detail.full or detail.explain else list(items[:limit])
        if len(items) > len(shown):
            shown.append(f"{len(items) - len(shown)} more: --explain or --format json lists all")
        if shown:
            blocks.append(Notes(heading, shown, tone))
    return blocks


def _importance(item: Mapping[str, Any]) -> int:
    """What changes an answer most comes first: device and cluster, then model and layout; hosts last."""
    section = str(item["path"]).split(".")[0]
    return _SECTIONS.index(section) if section in _SECTIONS else len(_SECTIONS) + (section == "server")


def assumption_text(item: Mapping[str, Any]) -> str:
    """`path = value (source)`."""
    source = f" ({item['source']})" if item["source"] else ""
    return f"{item['path']} = {numbers.value_text(item['value'])}{source}"


def warning_text(item: Mapping[str, Any]) -> str:
    """`path: message`."""
    return f"{item['path']}: {item['message']}" if item["path"] else str(item["message"])


def recommendation_text(item: Mapping[str, Any]) -> str:
    """`path=value: what it changes; why`."""
    change = " ".join(f"{path}={numbers.argument_text(value)}" for path, value in item["set"].items())
    effects = []
    if item["delta_gib"] is not None:
        effects.append(numbers.signed(numbers.gib, item["delta_gib"]))
    if item["delta_step_s"] is not None:
        effects.append(f"{numbers.signed(numbers.seconds, item['delta_step_s'])} per step")
    return f"{change}: {', '.join(effects)}" + (f" ({item['why']})" if effects and item["why"] else item["why"] or "")


def _words(text: str) -> str:
    return text.replace("_", " ")

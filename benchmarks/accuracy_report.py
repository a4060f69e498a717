"""docs/accuracy.md: what the calibration is worth, by device, stack and model class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.accuracy_fit import DRAWS, SHARE_KEPT, Ranking, Result
from benchmarks.accuracy_plots import FILES, TITLES
from benchmarks.accuracy_statistics import words
from benchmarks.accuracy_workers import Sample
from cann_plan.planner.calibrate_hierarchy import MODEL_ERROR, MOST_ACTIVE, NOISE, SHARES
from cann_plan.planner.calibrate_model import NAMES

Array = NDArray[np.float64]
WORST = 25
INTRODUCTION = """
{runs} runs of {groups} (source, model) groups are fitted: tier A (full configuration) and B (recomputation not stated).
Error is predicted / measured - 1 of the step time; bias is the median signed error. The operator and link tables are
fixed before; the runs of a device and stack move at most {active} of its parameters. All pairs are fitted at once: log
parameters are a common mean plus deviations by kinship (standard deviations over the parameter's own: {shares}).
Repeats of one run differ by {noise}; runs of one model and source share an error of {error}, so that a model with many
rows does not outvote the others. The loss is soft-L1. "Left out" means refitted without:
predictions of runs the fit has not seen.
"""
RANKING = """
## Ranking of layouts

One model on one number of devices at one batch in several layouts, predicted with the model left out of the fit. tau is
Kendall's; regret is what choosing the layout predicted fastest would have cost. Letters: t tensor, p pipeline,
c context, e expert, v virtual, b micro-batch.

"""
TRUST = """
## How far to trust the left-out figures

Refits use the derivatives at the full optimum. The largest groups refitted from scratch, MAPE of the runs left out:

{refits}

Stability: fitting a random {kept} of the groups ({draws} draws) moves predictions of the other runs by {median} in the
median, {p90} in the 90th percentile.
"""
MEGATRON = ("megatron", "nemo", "megatron-bridge", "megatron-deepspeed", "bigscience")
SOURCES = {
    "korthikanti22-t5": "Korthikanti et al. 2022, table 5",
    "narayanan21-t1": "Narayanan et al. 2021, table 1",
    "foundry": "llm-foundry's MPT table",
}
REMARKS = Path(__file__).with_name("accuracy_remarks.yaml")
HEAD = "MAPE / median / p90 / bias"
MODES = (
    ("prior", "nothing fitted"),
    ("in", "fitted on all"),
    ("group", "its model and source left out"),
    ("pair", "its device and stack left out"),
    ("stack", "its stack left out on every device"),
    ("constant", "one MFU per device and stack, fitted on all"),
    ("constant_group", "one MFU per device and stack, model and source left out"),
)
# Errors of other analytical tools on runs of the same devices with their default efficiencies, and the share of the
# runs they can express; one MFU per device and stack is ours, above.
PEERS = (
    ("A100-80G", "a GPT-only analytical model (calculon)", "28%", "70%"),
    ("A100-80G", "an analytical model with default efficiencies (llm-analysis)", "24%", "97%"),
    ("A100-80G", "an operator-level simulator with measured tables (SimuMax)", "15%", "62%"),
    ("H100-80G", "a GPT-only analytical model (calculon)", "20%", "20%"),
    ("H100-80G", "an analytical model with default efficiencies (llm-analysis)", "28%", "58%"),
    ("910B", "a GPT-only analytical model (calculon)", "43%", ""),
    ("910B", "an analytical model with default efficiencies (llm-analysis)", "24%", ""),
)


@dataclass(frozen=True, slots=True)
class Studies:
    """What is computed beside the fit itself."""

    refits: list[tuple[str, int, float, float]]
    stability: Array
    rankings: list[Ranking]
    unfitted: dict[str, tuple[list[Sample], Array]]


def table(result: Result) -> str:
    """Plain text for the terminal: pairs, then everything by mode."""
    lines = []
    for (device, stack), members in sorted(_pairs(result).items()):
        groups = len({result.samples[i].observation.group for i in members})
        figures = "  ".join(f"{mode} {words(result.errors[mode][members]):26}" for mode in ("in", "group", "pair"))
        lines.append(f"{device:17}{stack:19}{len(members):4d}{groups:3d}  {figures}  {_moved(result, members[0])}")
    lines += [f"{mode:15} {words(result.errors[mode][result.fitted])}" for mode in (*dict(MODES), "shipped")]
    lines += [f"{name:15} {words(result.errors['in'][index])}" for name, index in _unfitted(result)]
    return "\n".join(lines)


def summary(result: Result, studies: Studies) -> str:
    """The README's tables: everything by how it was fitted, then by family of devices and stacks."""
    every = [int(i) for i in result.fitted]
    families: dict[str, list[int]] = defaultdict(list)
    for i in every:
        families[_family(result.samples[i])].append(i)
    rows = [
        [name, str(len(members)), words(result.errors["in"][members]), words(result.errors["group"][members])]
        for name, members in sorted(families.items(), key=lambda item: -len(item[1]))
    ]
    header = ["devices and stacks", "runs", "fitted on all", "model and source left out"]
    modes = [[text, words(result.errors[mode][every])] for mode, text in MODES]
    tau, regret = _mean_ranking(studies.rankings)
    return (
        f"Step time of {len(every)} published training runs (Ascend 910A and 910B, V100 to GB300; tiers A and B), "
        f"predicted / measured - 1:\n\n{_markdown(['parameters', HEAD + ', %'], modes)}\n\n"
        f"{_markdown(header, rows)}\n\n"
        f"Layouts of one model are ranked with a Kendall's tau of {tau:.2f}; the one predicted fastest is on average "
        f"{regret:.1%} slower than the fastest measured."
    )


def report(result: Result, studies: Studies) -> str:
    samples, fitted = result.samples, list(result.fitted)
    groups = {samples[i].observation.group for i in fitted}
    sections = [
        "# Accuracy\n\nWritten by `make accuracy` from the runs in `tests/data/measured`; do not edit.",
        _introduction(len(fitted), len(groups)),
        "## All runs\n\n" + _markdown(["parameters", HEAD + ", %"],
                                      [[text, words(result.errors[mode][fitted])] for mode, text in MODES]),
        _unfitted_text(result),
        "## By device, stack and model class\n\n" + _classes(result),
        "".join(f"![{TITLES[kind]}](img/{name})\n" for kind, name in FILES.items()),
        "## Other tools\n\nMean error in step time and share of the runs the tool can express, defaults, same runs:\n\n"
        + _markdown(["device", "tool", "MAPE", "runs"], [list(row) for row in PEERS]),
        _without(studies),
        _ranking(studies),
        _trust(studies),
        "## Parameters\n\nFitted values with their 80% intervals; those not shown come from kindred pairs.\n\n"
        + _parameters(result),
        "## Worst runs\n\nPredicted with their model and source left out; * odd or tier C, never fitted.\n\n"
        + _worst(result),
    ]  # fmt: skip
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _introduction(runs: int, groups: int) -> str:
    shares = ", ".join(f"{name} {value:g}" for name, value in SHARES.items())
    return INTRODUCTION.format(
        runs=runs, groups=groups, active=MOST_ACTIVE, shares=shares, noise=f"{NOISE:.0%}", error=f"{MODEL_ERROR:.0%}"
    )


def _unfitted(result: Result) -> list[tuple[str, list[int]]]:
    odd = [i for i, s in enumerate(result.samples) if s.odd]
    third = [i for i, s in enumerate(result.samples) if s.tier == "C" and not s.odd]
    vtrain = [i for i in third if result.samples[i].id.startswith("vtrain")]
    rest = [i for i in third if i not in vtrain]
    return [("odd", odd), ("vTrain", vtrain), ("tier C", rest)]


def _unfitted_text(result: Result) -> str:
    rows = [[name, str(len(index)), words(result.errors["in"][index])] for name, index in _unfitted(result)]
    return (
        "## Runs that are never fitted\n\nOdd rows contradict themselves or a twin; tier C rows lack something that "
        "matters (recomputation and kernels for vTrain, batch or layout for others).\n\n"
        + _markdown(["runs", "n", HEAD + ", %"], rows)
    )


def _classes(result: Result) -> str:
    cells: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for (device, stack), members in _pairs(result).items():
        kinds = {result.samples[i].model_class for i in members}
        for i in members:
            if len(kinds) > 1:
                cells[device, stack, result.samples[i].model_class].append(i)
            cells[device, stack, "all"].append(i)
    rows = []
    for (device, stack, kind), members in sorted(cells.items(), key=lambda item: (item[0][:2], item[0][2] != "all")):
        groups = len({result.samples[i].observation.group for i in members})
        rows.append([
            device, stack, kind, str(len(members)), str(groups),
            *(words(result.errors[mode][members]) for mode in ("in", "group")),
        ])  # fmt: skip
    return _markdown(["device", "stack", "class", "n", "groups", "fitted on all", "left out"], rows)


def _without(studies: Studies) -> str:
    parts = ["## Sources predicted with nothing fitted on them"]
    for word, (samples, errors) in studies.unfitted.items():
        parts.append(f"**{SOURCES[word]}** ({len(samples)} runs): {words(errors)}")
        if len(samples) <= 12:
            rows = [
                [
                    s.id,
                    f"{s.observation.measured:.2f}",
                    f"{s.observation.measured * np.exp(e):.2f}",
                    f"{np.expm1(e):+.1%}",
                ]
                for s, e in zip(samples, errors, strict=True)
            ]
            parts.append(_markdown(["run", "measured, s", "predicted, s", "error"], rows))
    return "\n\n".join(parts)


def _ranking(studies: Studies) -> str:
    rows = [
        [f"{r.model}", r.stack, str(r.devices), str(r.batch), str(r.layouts), f"{r.tau:.2f}", f"{r.regret:.1%}",
         r.chosen, r.best]
        for r in studies.rankings
    ]  # fmt: skip
    text = RANKING
    header = ["layers x hidden", "stack", "devices", "batch", "layouts", "tau", "regret", "chosen", "fastest"]
    if not studies.rankings:
        return text
    tau, regret = _mean_ranking(studies.rankings)
    return text + _markdown(header, rows) + f"\n\nMean tau {tau:.2f}, mean regret {regret:.1%}."


def _mean_ranking(rankings: Sequence[Ranking]) -> tuple[float, float]:
    """Kendall's tau weighted by layouts, and the mean regret."""
    weights = np.array([r.layouts for r in rankings], dtype=np.float64)
    return float(np.average([r.tau for r in rankings], weights=weights)), float(np.mean([r.regret for r in rankings]))


def _trust(studies: Studies) -> str:
    rows = [[name, str(n), f"{one:.1%}", f"{full:.1%}"] for name, n, one, full in studies.refits]
    moved = studies.stability
    return TRUST.format(
        refits=_markdown(["group", "n", "refit by derivatives", "full refit"], rows),
        kept=f"{SHARE_KEPT:.0%}", draws=DRAWS, median=f"{np.median(moved):.1%}", p90=f"{np.quantile(moved, 0.9):.1%}",
    )  # fmt: skip


def _parameters(result: Result) -> str:
    rows = []
    for (device, stack), members in sorted(_pairs(result).items()):
        rows.append([device, stack, _moved(result, members[0], intervals=True)])
    return _markdown(["device", "stack", "parameters"], rows)


def _moved(result: Result, member: int, *, intervals: bool = False) -> str:
    place, field = result.samples[member].place, result.joint.posterior
    theta, spread = field.theta(place), field.spread(place)
    chosen = result.joint.active[int(np.flatnonzero(result.fitted == member)[0])]
    parts = []
    for k, name in enumerate(NAMES):
        if chosen[k]:
            low, high = np.exp(theta[k] - 1.28 * spread[k]), np.exp(theta[k] + 1.28 * spread[k])
            parts.append(f"{name} {np.exp(theta[k]):.3g}" + (f" ({low:.3g} to {high:.3g})" if intervals else ""))
    return ", ".join(parts)


def _worst(result: Result) -> str:
    remarks = yaml.safe_load(REMARKS.read_text(encoding="utf-8"))
    errors = np.where(
        np.isin(np.arange(len(result.samples)), result.fitted), result.errors["group"], result.errors["in"]
    )
    order = np.argsort(-np.abs(errors))
    seen: dict[str, int] = defaultdict(int)
    rows = []
    for i in order:
        sample = result.samples[i]
        key = sample.observation.group
        seen[key] += 1
        if seen[key] > 2 or len(rows) >= WORST:
            continue
        mark = "" if sample.fitted else "*"
        rows.append(
            [sample.id + mark, str(sample.place.device), f"{np.expm1(errors[i]):+.0%}", _remark(remarks, sample.id)]
        )
    return _markdown(["run", "device", "error", "what is known"], rows)


def _remark(remarks: dict[str, str], name: str) -> str:
    found = [prefix for prefix in remarks if name.startswith(prefix)]
    return str(remarks[max(found, key=len)]) if found else "not explained"


def _pairs(result: Result) -> dict[tuple[str, str], list[int]]:
    pairs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in result.fitted:
        place = result.samples[i].place
        pairs[str(place.device), str(place.stack)].append(int(i))
    return pairs


def _family(sample: Sample) -> str:
    device, stack = str(sample.place.device), str(sample.place.stack)
    if device.startswith("ascend"):
        return (
            f"Ascend {'910A' if '910a' in device else '910B'}, {'MindSpore' if 'mindformers' in stack else 'PyTorch'}"
        )
    generation = {"volta": "V100", "ampere": "A100", "hopper": "H100, H200", "blackwell": "Blackwell"}
    kind = "Megatron" if stack in MEGATRON else "FSDP, ZeRO, JAX"
    return f"{generation.get(str(sample.place.family), device)}, {kind}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    write: Callable[[Sequence[str]], str] = lambda cells: "| " + " | ".join(cells) + " |"  # noqa: E731
    return "\n".join([write(header), write(["---"] * len(header)), *map(write, rows)])

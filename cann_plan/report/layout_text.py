"""A layout in words with everything that tells it from another, and as the section of a plan file."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from cann_plan.report.numbers import argument_text
from cann_plan.report.plan_title import layout

# Values a plan need not state: what they are when left out.
_NEUTRAL: Mapping[str, Any] = {
    "context": 1, "context_kind": "ring", "expert": 1, "expert_tensor": 1, "virtual_pipeline": 1, "layer_split": "even",
    "offload": {}, "rank_order": "tensor-context-data-pipeline", "group_generator": "folded",
}  # fmt: skip


def words(parallel: Mapping[str, Any]) -> str:
    """As `plan_title.layout`, with the modules and layers recomputed and what is unusual."""
    parts = [part for part in layout(parallel).split(" · ") if not part.startswith("recompute")]
    parts.append(f"recompute {recompute(parallel.get('recompute') or {})}")
    if (parallel.get("context") or 1) > 1:
        parts.append(f"{str(parallel['context_kind']).replace('_', '-')} attention")
    if (parallel.get("tensor") or 1) > 1 and not parallel.get("sequence_parallel"):
        parts.append("no sequence parallelism")
    shard, ranks = parallel.get("shard_group"), (parallel.get("data") or 1) * (parallel.get("context") or 1)
    if parallel.get("zero_stage") == 3 and shard not in (None, ranks):
        parts.append(f"sharded over {shard}")
    if isinstance(parallel.get("layer_split"), list):
        parts.append(f"layers {runs(parallel['layer_split'])}")
    if parallel.get("rank_order") not in (None, _NEUTRAL["rank_order"]):
        parts.append("pipeline inside data")
    return " · ".join(parts)


def runs(values: Sequence[int]) -> str:
    """Numbers in order, equal neighbours once: `3, 14 x 4, 3`."""
    parts = [(number, len(list(same))) for number, same in groupby(values)]
    return ", ".join(str(number) if times == 1 else f"{times} × {number}" for number, times in parts)


def recompute(section: Mapping[str, Any]) -> str:
    """Policy with its modules or number of layers."""
    if section.get("modules"):
        return "+".join(section["modules"])
    text = str(section.get("policy", "none"))
    if "layers" in section:
        text += f" of {section['layers']} layers per {section.get('scope', 'chunk')}"
    return text


def plan_line(overrides: Mapping[str, Any]) -> str:
    """The `parallel:` section of a plan file on one line, without what a plan need not state."""
    parallel = {path.removeprefix("parallel."): value for path, value in overrides.items()}
    ranks = (parallel.get("data") or 1) * (parallel.get("context") or 1)
    stated = {key: value for key, value in parallel.items() if _NEUTRAL.get(key, ...) != value and key != "overlap"}
    if stated.get("shard_group") == ranks:
        del stated["shard_group"]
    if stated.get("pipeline") == 1:
        stated.pop("schedule", None)
    return "parallel: " + flow(stated)


def flow(value: object) -> str:
    """Plain data in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(child) for child in value) + "]"
    return argument_text(value)


def changes(settings: Mapping[str, Any]) -> str:
    """Plan keys and values in words: `tensor 4, data 8`."""
    return ", ".join(f"{path.removeprefix('parallel.').replace('_', ' ')} {_short(v)}" for path, v in settings.items())


def _short(value: object) -> str:
    if isinstance(value, Mapping) and ("policy" in value or "modules" in value):
        return recompute(value)
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return runs(value)
    return flow(value).strip("'\"")

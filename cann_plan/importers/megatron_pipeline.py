"""Pipeline stages, virtual chunks, uneven splits and layers that do nothing."""

from __future__ import annotations

import re
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.megatron_arguments import MAX_LIST, Arguments
from cann_plan.importers.megatron_mixers import hybrid_split

_REPEAT: Final = re.compile(r"(\([^()]*\)|[A-Za-z|])\*(\d{1,5})")
MAX_LAYOUT: Final = 4000
"""Characters of a --pipeline-model-parallel-layout."""


def pipeline_section(arguments: Arguments, spec: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """`pipeline`, `virtual_pipeline`, `schedule` and `layer_split`; takes layers that do nothing out of `spec`."""
    stages = arguments.whole("pipeline-model-parallel-size") or 1
    total = int(spec["layers"])
    section: dict[str, Any] = {"pipeline": stages}
    chunks, virtual = _chunks(arguments, total, stages, notes)
    folded = _schedule(arguments, section, virtual, notes)
    noops = set(arguments.wholes("noop-layers") or ())
    if noops:
        wrong = sorted(index for index in noops if index >= total)
        if wrong or len(noops) >= total:
            notes.refuse(f"--noop-layers names layer {wrong[0] if wrong else 0} of {total}")
            return section
        if chunks is None:
            chunks = _even(total, stages * (2 if folded else virtual), notes)
        chunks = _without(chunks, noops) if chunks is not None else None
        _take_out(spec, total, noops)
    if virtual > 1:
        section["virtual_pipeline"] = virtual
    if chunks is not None and folded:
        chunks = [chunks[rank] + chunks[-1 - rank] for rank in range(stages)] if len(chunks) > stages else chunks
    if chunks is not None and len(set(chunks)) > 1:
        section["layer_split"] = chunks
    return section


def _schedule(arguments: Arguments, section: dict[str, Any], virtual: int, notes: Notes) -> bool:
    """Set `schedule`; returns whether a rank holds one chunk from the front and one from the back (DualPipeV)."""
    method = (arguments.text("schedules-method") or "").lower()
    if method == "dualpipev":
        section["schedule"] = "dualpipe-v"
        return True
    if method:
        notes.unmodelled("schedules-method", method, "schedule nobody here knows")
    if arguments.has("zero-bubble-v-schedule"):
        section["schedule"] = "zb-v"
        arguments.ask(("enable-zero-bubble",))
        return True
    if arguments.has("enable-zero-bubble"):
        section["schedule"] = "zb-h1"
    elif virtual > 1:
        section["schedule"] = "interleaved"
    return False


def _chunks(arguments: Arguments, total: int, stages: int, notes: Notes) -> tuple[list[int] | None, int]:
    """(layers per chunk in model order or None for an even split, chunks per stage)."""
    virtual = _virtual(arguments, total, stages, notes)
    layout = arguments.text("pipeline-model-parallel-layout")
    pattern = arguments.text("hybrid-layer-pattern", "hybrid-override-pattern")
    parts = None
    if layout is not None:
        parts = parse_layout(layout)
        if parts is None:
            notes.refuse(f"--pipeline-model-parallel-layout {layout[:60]}: not a layout")
            return None, virtual
    elif pattern is not None:
        parts = hybrid_split(pattern)
    if parts is not None:
        if len(parts) % stages or sum(parts) != total:
            text = f"the stated stages hold {sum(parts)} layers in {len(parts)} parts"
            notes.refuse(f"{text}; the model has {total} layers in {stages} stages")
            return None, virtual
        return parts, len(parts) // stages
    if "num-layer-list" in arguments.data:
        listed = arguments.wholes("num-layer-list")
        if listed is None:
            notes.warn("--num-layer-list has no value: stages are taken as even")
        elif len(listed) != stages or sum(listed) != total:
            notes.refuse(f"--num-layer-list: {sum(listed)} layers in {len(listed)} stages, not {total} in {stages}")
        else:
            return listed, virtual
    first = arguments.whole("decoder-first-pipeline-num-layers", minimum=0)
    last = arguments.whole("decoder-last-pipeline-num-layers", minimum=0)
    if first is not None or last is not None:
        return _ends(first, last, total, stages, virtual, notes), virtual
    embedding = arguments.has("account-for-embedding-in-pipeline-split")
    loss = arguments.has("account-for-loss-in-pipeline-split")
    if embedding or loss:
        chunks = _even(total + embedding + loss, stages * virtual, notes)
        if chunks is not None:
            chunks[0] -= embedding
            chunks[-1] -= loss
        return chunks, virtual
    return None, virtual


def _virtual(arguments: Arguments, total: int, stages: int, notes: Notes) -> int:
    """Chunks per stage. `--num-layers-per-virtual-pipeline-stage n` makes layers / (stages x n) of them."""
    stated = arguments.whole("num-virtual-stages-per-pipeline-rank")
    each = arguments.whole("num-layers-per-virtual-pipeline-stage")
    if stages == 1 or (stated is None and each is None):
        return 1
    if stated is not None:
        return stated
    assert each is not None
    counted = total + arguments.has("account-for-embedding-in-pipeline-split")
    counted += arguments.has("account-for-loss-in-pipeline-split")
    if counted % (stages * each):
        text = f"--num-layers-per-virtual-pipeline-stage {each} does not divide {counted} layers in {stages} stages"
        notes.refuse(text)
        return 1
    return counted // (stages * each)


def _ends(first: int | None, last: int | None, total: int, stages: int, virtual: int, notes: Notes) -> list[int] | None:
    middle = stages - (first is not None) - (last is not None)
    rest = total - (first or 0) - (last or 0)
    inner, left = divmod(rest, middle) if middle else (0, rest)
    ranks = [*([first] if first is not None else []), *[inner] * middle, *([last] if last is not None else [])]
    if left or rest < 0 or any(count % virtual for count in ranks):
        notes.refuse(f"first and last stage leave {rest} layers, which {middle} stages cannot share evenly")
        return None
    return [count // virtual for count in ranks] * virtual


def _even(total: int, parts: int, notes: Notes) -> list[int] | None:
    if total % parts:
        notes.refuse(f"{total} layers do not divide into {parts} pipeline parts")
        return None
    return [total // parts] * parts


def _without(chunks: list[int], noops: set[int]) -> list[int]:
    kept, start = [], 0
    for size in chunks:
        kept.append(sum(index not in noops for index in range(start, start + size)))
        start += size
    return kept


def _take_out(spec: dict[str, Any], total: int, noops: set[int]) -> None:
    """Remove layers that hold no weights and do no work from a description of `total` layers."""
    left = [index for index in range(total) if index not in noops]
    moe = spec.get("moe")
    if isinstance(moe, dict) and "feed_forwards" not in spec:
        dense, frequency = moe.pop("leading_dense_layers", 0), moe.pop("layer_frequency", 1)
        if frequency > 1:
            spec["feed_forwards"] = [
                "moe" if index >= dense and index % frequency == 0 else "dense" for index in range(total)
            ]
        elif dense:
            moe["leading_dense_layers"] = sum(index < dense for index in left)
    for key in ("mixers", "feed_forwards"):
        listed = spec.get(key)
        if listed:
            spec[key] = [listed[index % len(listed)] for index in left]
    spec["layers"] = len(left)


def parse_layout(text: str) -> list[int] | None:
    """Decoder layers per part of a Megatron layout such as `Et*3|(tt|)*29mL`; None if it is not one.

    E embedding, t decoder layer, m multi-token prediction, L loss, | next part; x*n and (...)*n repeat.
    """
    flat = text.replace(",", "").replace(" ", "").strip("'\"")
    if len(flat) > MAX_LAYOUT:
        return None
    while (match := _REPEAT.search(flat)) is not None:
        body = match[1].strip("()") * int(match[2])
        if len(flat) + len(body) > MAX_LIST:
            return None
        flat = flat[: match.start()] + body + flat[match.end() :]
    if set(flat) - set("EtmL|"):
        return None
    return [part.count("t") for part in flat.split("|")]

"""Measured memory of small runs to plans: rows of a test suite's baselines, by fields or by launch arguments."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cann_plan.importers.megatron import Options, import_megatron
from cann_plan.importers.rows import MeasuredRow, RowSkippedError, rows_from
from cann_plan.importers.rows_plan import import_row
from cann_plan.spec.document import parse_text
from cann_plan.spec.node import Source

Quantity = Literal["static", "peak"]
GPT2_VOCABULARY: Final = 50257  # GPT-2's byte pairs, which Megatron-LM's tests tokenise with
CORE_012: Final = "2025-09"
"""Month from which MindSpeed-LLM's tests hold 6.1 bytes per logit instead of 10.1: its move to Megatron-Core 0.12."""
CLUSTERS: Final = (("gb200", "gb200-nvl72"), ("h100", "dgx-h100"), ("ascend", "atlas-900-a2"), ("", "dgx-a100"))
SWAPPED = re.compile(r"first (\d+) layers")
SCRIPT = re.compile(r"^ci-|^mindspeed-st-|-\d{4}-\d{2}-\d{2}$")
DATE = re.compile(r"-(\d{4}-\d{2})-\d{2}$")
SHORTER: Final = "peak not judged: samples are shorter than the stated sequence length"
LORA: Final = {"rank": 16, "target_modules": ["all_linear"]}
"""What MindSpeed-LLM's fine-tuning tests train (--lora-r 16, all four linear layers)."""


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes of live tensors in GiB on `rank` (-1: a rank of the last pipeline stage)."""

    quantity: Quantity
    rank: int
    gib: float


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A run as a plan with its readings. `first_step`: maxima are those of the first step, before which no optimizer
    moments exist. `judged`: quantities worth comparing; `remarks`: what was assumed.
    """

    id: str
    plan: dict[str, Any]
    readings: tuple[MemoryReading, ...]
    first_step: bool
    judged: frozenset[str]
    remarks: tuple[str, ...]


def read_memory_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file, plain. Raises SpecError where it is not a list of mappings with an id."""
    file = Path(path)
    listed = parse_text(file.read_text(encoding="utf-8"), Source(str(path), file.parent)).plain()
    return [row for row in listed if isinstance(row, dict) and "id" in row] if isinstance(listed, list) else []


def memory_row(row: dict[str, Any]) -> MemoryRow:
    """The plan and readings of a row.

    Raises:
        RowSkippedError: nothing to compare, or the run cannot be described as a plan.
        SpecError: a value of the wrong type.
    """
    if "args" in row:
        return _by_arguments(row)
    if "model" in row and "rank_mem_mib" in row.get("measured", {}):
        return _by_fields(row)
    raise RowSkippedError("no memory of ranks is measured")


def _by_arguments(row: dict[str, Any]) -> MemoryRow:
    measured, hardware = row["measured"], str(row.get("hardware", "")).lower()
    test = str(row.get("framework", "")).startswith("Megatron-LM")
    cluster = next(name for words, name in CLUSTERS if words in hardware)
    imported = import_megatron(
        {"args": row["args"], "env": row.get("env") or {}},
        Options(
            cluster=cluster,
            devices=row.get("devices"),
            name=str(row["id"]),
            vocabulary=GPT2_VOCABULARY if test else None,
        ),
    )
    if imported.refused:
        raise RowSkippedError("; ".join(imported.refused))
    remarks = [f"{a.path} = {a.value}: {a.source}" for a in imported.assumptions]
    plan = copy.deepcopy(imported.plan)
    if test and "nondeterministic" not in str(row["id"]):
        # ENV_VARS of the tests' model_config.yaml: CUBLAS_WORKSPACE_CONFIG=:4096:8, with --deterministic-mode
        plan.setdefault("software", {})["deterministic"] = True
        remarks.append("software.deterministic = true: Megatron-LM's functional tests run so")
    readings: list[MemoryReading] = []
    for key, quantity in (("last_rank_steady_allocated_gib", "static"), ("last_rank_peak_allocated_gib", "peak")):
        if measured.get(key) is not None:
            readings.append(MemoryReading("static" if quantity == "static" else "peak", -1, float(measured[key])))
    first = "per_rank_max_allocated_mib" in measured
    readings += [
        MemoryReading("peak", int(rank), float(value) / 1024.0)
        for rank, value in (measured.get("per_rank_max_allocated_mib") or {}).items()
    ]
    if str(row.get("since") or CORE_012) < CORE_012 and "ascend" in hardware:
        _old_core(plan, str(row["since"]), remarks)
    judged = set(row.get("valid_for", ("peak",)))
    if row["args"].get("no-pad-to-seq-lengths"):
        judged.discard("peak")
        remarks.append(SHORTER)
    return MemoryRow(str(row["id"]), plan, tuple(readings), first, frozenset(judged), tuple(remarks))


def _by_fields(row: dict[str, Any]) -> MemoryRow:
    source = copy.deepcopy(row)
    parallel, model = source["parallel"], source["model"]
    flags = parallel.pop("extra_flags", None) or {}
    swap, stage = str(parallel.pop("offload", "") or ""), parallel.pop("stage", None)
    scope = parallel.pop("recompute_layers_scope", None)
    for old, new in (("fusions", "fused_operators"), ("overlap", "overlap_flags")):
        text = parallel.pop(old, None)
        if text is not None:
            parallel[new] = [] if text == "none stated" else [part.strip() for part in text.split(",")]
    parallel["cp_algo"] = str(parallel.get("cp_algo") or "").removesuffix(" (default)") or None
    if isinstance(parallel.get("num_layer_list"), bool):
        parallel.pop("num_layer_list")
    _latent_attention(source["model"])
    if "tp-2d" in flags:
        raise RowSkippedError("two-dimensional tensor parallelism")
    source["measured"] = {"peak_memory_gib": max(high for _, high in row["measured"]["rank_mem_mib"].values()) / 1024.0}
    imported = import_row(_measured_row(source))
    plan = imported.plan
    remarks = [f"{r.path} = {r.value}: {r.source}" for r in imported.remarks]
    _model(plan["model"], model)
    if any("rotary" in name for name in parallel.get("fused_operators", ())):
        plan["model"]["position"] = "rotary"
        plan["model"].pop("position_table", None)
    _run(plan, parallel, str(swap), stage, scope)
    month = str(row.get("since") or _month(row))
    if month and month < CORE_012:
        _old_core(plan, month, remarks)
    judged = set(row.get("valid_for", ()))
    padded = "padded/variable sequences" in str(row.get("note")) and not parallel.get("neat_pack")
    if parallel.get("variable_seq_lengths") or padded:
        judged.discard("peak")
        remarks.append(SHORTER)
    readings = []
    for rank, (allocated, maximum) in row["measured"]["rank_mem_mib"].items():
        readings.append(MemoryReading("static", int(rank), float(allocated) / 1024.0))
        readings.append(MemoryReading("peak", int(rank), float(maximum) / 1024.0))
    return MemoryRow(str(row["id"]), plan, tuple(readings), True, frozenset(judged), tuple(remarks))


def _old_core(plan: dict[str, Any], month: str, remarks: list[str]) -> None:
    plan.setdefault("software", {})["stack"] = "mindspeed-core-0.8"
    remarks.append(f"software.stack = mindspeed-core-0.8: the figures are of {month}")


def _latent_attention(model: dict[str, Any]) -> None:
    """Ranks and head sizes of latent attention beside the other fields, as rows of training runs state them.

    Ranks without head sizes are launch arguments of a script whose model does not use them.
    """
    ranks = model.get("attention")
    if not isinstance(ranks, dict):
        return
    latent = ranks.pop("type", None) == "mla" and "qk_rope_head_dim" in ranks
    model["attention"] = "mla" if latent else None
    if latent:
        model |= ranks


def _measured_row(source: dict[str, Any]) -> MeasuredRow:
    (row,) = rows_from([source], str(source["id"]))
    return row


def _model(spec: dict[str, Any], model: dict[str, Any]) -> None:
    """Prediction modules and layers that hold nothing (`noop-layers`)."""
    if model.get("mtp_layers"):
        spec["mtp_layers"] = model["mtp_layers"]
    if model.get("noop_layers") is None:
        return
    empty = {int(part) for part in str(model["noop_layers"]).split(",")}
    dense = (spec.get("moe") or {}).get("leading_dense_layers", 0)
    layers = range(int(model["layers"]))
    spec["mixers"] = ["none" if index in empty else "full" for index in layers]
    block = ["moe" if "moe" in spec and index >= dense else "dense" for index in layers]
    spec["feed_forwards"] = ["none" if index in empty else block[index] for index in layers]


def _run(plan: dict[str, Any], parallel: dict[str, Any], swap: str, stage: str | None, scope: str | None) -> None:
    """Offload, task and scope of recomputation."""
    section = plan["parallel"]
    if swap.startswith("swap-optimizer"):
        section["offload"] = {"optimizer": 1.0, "optimizer_step": "device"}
    elif swap.startswith("swap-attention"):
        section["offload"] = {"activations": 1.0, "activation_modules": ["attention"]}
        found = SWAPPED.search(swap)
        if found:
            section["recompute"] = {
                "policy": "selective", "modules": ["mlp"], "method": "block", "layers": int(found[1]), "scope": "stage",
            }  # fmt: skip
    if scope == "per_pp_rank":
        section["recompute"]["scope"] = "stage"
    if stage == "dpo":
        plan["training"]["task"] = "dpo"
    if parallel.get("finetune") in ("lora", "qlora"):
        plan["training"] |= {"task": parallel["finetune"], "lora": LORA}


def _month(row: dict[str, Any]) -> str:
    found = DATE.search(str(row["id"]))
    return found[1] if found else ""


def _figures(row: dict[str, Any]) -> tuple[str, tuple[float, ...]]:
    """Script and measured maxima of a row: what tells a new measurement from a baseline carried on."""
    measured = row.get("measured", {})
    pairs = measured.get("rank_mem_mib") or {}
    maxima = [high for _, high in pairs.values()] or list((measured.get("per_rank_max_allocated_mib") or {}).values())
    return SCRIPT.sub("", str(row["id"])), tuple(float(value) for value in maxima)


def all_memory_rows(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """The rows of several files in order.

    A test suite carries a baseline on until it is measured again, so rows of one script with the same figures get the
    month of the first of them (`since`).
    """
    rows = [row for path in paths for row in read_memory_rows(path)]
    first: dict[tuple[str, tuple[float, ...]], str] = {}
    for row in rows:
        key = _figures(row)
        month = _month(row)
        if month:
            first[key] = min(first.get(key, month), month)
    for row in rows:
        key = _figures(row)
        if key in first:
            row["since"] = first[key]
    return rows

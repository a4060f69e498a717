"""Memory records of real runs: CANN's memory_record.csv and operator_memory.csv, PyTorch's snapshot written as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cann_plan.spec.errors import Problem, SpecError

GIB = 2.0**30
MIB, KIB = 2.0**20, 2.0**10
MAX_BYTES: Final = 2**30

CLASSES: Final = (
    ("loss", ("cross_entropy", "nll", "logsoftmax", "log_softmax", "loss", "logits", "head")),
    ("attention", ("attention", "flash", "sdpa", "softmax", "rope", "rotary", "qkv", "query", "key_value")),
    ("optimizer", ("adam", "optimizer", "foreach", "lamb", "master", "update")),
    ("communication", ("all_gather", "allgather", "reduce_scatter", "reducescatter", "all_reduce", "allreduce",
                       "alltoall", "all_to_all", "hccl", "nccl", "c10d", "send", "recv", "dispatch", "combine")),
    ("experts", ("expert", "grouped", "gmm", "permute", "router", "topk", "moe")),
    ("normalization", ("norm",)),
    ("embedding", ("embedding", "embed")),
    ("linear", ("linear", "matmul", "addmm", "mm", "gemm", "projection", "mlp_up", "mlp_down", "up_output", "weight")),
    ("activation", ("silu", "swiglu", "gelu", "relu", "activation", "glu")),
)  # fmt: skip
"""Operator classes by words in a name, first match; everything else is `other`."""


def operator_class(name: str) -> str:
    """Class of an operator or tensor by its name."""
    lowered = name.lower()
    for label, words in CLASSES:
        if any(word in lowered for word in words):
            return label
    return "other"


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """Peaks of a run in bytes, None where the record does not say; `by_class`: live bytes when allocated peaked."""

    kind: str
    peak_allocated: float | None
    peak_reserved: float | None
    by_class: Mapping[str, float] = field(default_factory=dict)


def read_record(path: str | Path) -> MemoryRecord:
    """A record by its content. Pickled snapshots are refused: loading one runs code.

    Raises:
        SpecError: unreadable, too large, or none of the formats.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_BYTES:
            raise _problem(file, "more than 1 GiB")
        data = file.read_bytes()
    except OSError as error:
        raise _problem(file, error.strerror or "cannot be read") from None
    if data[:1] == b"\x80" or file.suffix in (".pickle", ".pkl"):
        raise _problem(file, "a pickled snapshot is not read, because loading one runs code", "the snapshot as JSON")
    text = data.decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] in ("{", "["):
        return _snapshot(file, text)
    rows = list(csv.DictReader(io.StringIO(text)))
    columns = {column.strip() for row in rows[:1] for column in row if column}
    if any(column.startswith("Total Allocated") for column in columns):
        return _memory_record(file, rows)
    if any(column.startswith("Size") for column in columns) and any("Allocation Time" in c for c in columns):
        return _operator_memory(file, rows)
    raise _problem(file, "not a memory record", "memory_record.csv, operator_memory.csv or a snapshot as JSON")


def _problem(file: Path, message: str, allowed: str | None = None) -> SpecError:
    return SpecError([Problem(str(file), None, None, None, message, allowed, None)])


def _unit(column: str) -> float:
    for unit, size in (("(GB)", GIB), ("(MB)", MIB), ("(KB)", KIB), ("(B)", 1.0)):
        if unit in column:
            return size
    return 1.0


def _number(row: Mapping[str, Any], prefix: str) -> float | None:
    for column, value in row.items():
        if column and column.strip().startswith(prefix):
            try:
                return float(str(value).strip()) * _unit(column)
            except ValueError:
                return None
    return None


def _largest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _memory_record(file: Path, rows: list[dict[str, str]]) -> MemoryRecord:
    """Totals over time by component: the framework's own if listed, else all."""
    framework = [row for row in rows if str(row.get("Component", "")).strip().upper() in ("PTA", "PTA+GE", "GE", "")]
    chosen = [row for row in framework if str(row.get("Component", "")).strip().upper() == "PTA+GE"] or framework
    chosen = chosen or rows
    return MemoryRecord(
        "CANN memory_record",
        _largest(_number(row, "Total Allocated") for row in chosen),
        _largest(_number(row, "Total Reserved") for row in rows),
    )  # fmt: skip


def _operator_memory(file: Path, rows: list[dict[str, str]]) -> MemoryRecord:
    """Tensors with allocation and release times: live bytes by class at the moment they are most."""
    tensors = []
    for row in rows:
        size, start = _number(row, "Size"), _number(row, "Allocation Time")
        if size is None or start is None or size <= 0.0:
            continue
        end = _number(row, "Release Time")
        tensors.append((start, float("inf") if end is None else end, size, operator_class(str(row.get("Name", "")))))
    if not tensors:
        raise _problem(file, "no tensor with a size and an allocation time")
    changes = sorted(
        [(start, 1, index) for index, (start, *_) in enumerate(tensors)]
        + [(end, 0, index) for index, (_, end, *_) in enumerate(tensors) if end != float("inf")]
    )
    return _peak_of(
        "CANN operator_memory", ((tensors[i][2] if up else -tensors[i][2], tensors[i][3]) for _, up, i in changes),
        _largest(_number(row, "Allocation Total Allocated") for row in rows),
        _largest(_number(row, "Allocation Total Reserved") for row in rows),
    )  # fmt: skip


def _peak_of(
    kind: str, changes: Iterable[tuple[float, str]], allocated: float | None, reserved: float | None
) -> MemoryRecord:
    live: dict[str, float] = {}
    total = best = 0.0
    at_best: dict[str, float] = {}
    for size, label in changes:
        live[label] = live.get(label, 0.0) + size
        total += size
        if total > best:
            best, at_best = total, dict(live)
    shown = {label: size for label, size in sorted(at_best.items(), key=lambda item: -item[1]) if size > 0.0}
    return MemoryRecord(kind, allocated if allocated is not None else best, reserved, shown)


def _snapshot(file: Path, text: str) -> MemoryRecord:
    """PyTorch's `torch.cuda.memory._snapshot()` (or torch_npu's): history where it was recorded, else what is live."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _problem(file, f"not JSON: {error}") from None
    segments = data.get("segments") if isinstance(data, dict) else data
    if not isinstance(segments, list):
        raise _problem(file, "no list of segments", "a PyTorch memory snapshot")
    reserved = float(sum(int(segment.get("total_size", 0)) for segment in segments if isinstance(segment, dict)))
    traces = data.get("device_traces") if isinstance(data, dict) else None
    history = max((trace for trace in traces or [] if isinstance(trace, list)), key=len, default=[])
    if history:
        return _peak_of("PyTorch snapshot", _history(history), None, reserved or None)
    blocks = [block for segment in segments if isinstance(segment, dict) for block in segment.get("blocks", [])]
    live = [(float(block.get("size", 0)), _frames(block)) for block in blocks if "active" in str(block.get("state"))]
    return _peak_of("PyTorch snapshot", live, None, reserved or None)


def _history(trace: list[Any]) -> Iterable[tuple[float, str]]:
    known: dict[Any, tuple[float, str]] = {}
    for event in trace:
        if not isinstance(event, dict):
            continue
        action, address, size = event.get("action"), event.get("addr"), float(event.get("size", 0))
        if action == "alloc":
            known[address] = (size, _frames(event))
            yield known[address]
        elif action in ("free_completed", "free") and address in known:
            freed, label = known.pop(address)
            yield -freed, label


def _frames(entry: Mapping[str, Any]) -> str:
    """Class of an allocation by the innermost call whose name tells one."""
    for frame in entry.get("frames") or []:
        if isinstance(frame, dict):
            label = operator_class(str(frame.get("name", "")))
            if label != "other":
                return label
    return "other"


def compare_record(record: MemoryRecord, rank: Mapping[str, Any], operators: list[dict[str, Any]]) -> dict[str, Any]:
    """The record against a predicted rank (an entry of `ranks`) and its tensors at the peak."""
    predicted: dict[str, float] = {}
    for item in operators:
        label = "states" if item["kept_for"] == "states" else operator_class(f"{item['operator']} {item['tensor']}")
        predicted[label] = predicted.get(label, 0.0) + float(item["gib"])
    measured = {label: size / GIB for label, size in record.by_class.items()}
    labels = sorted({*predicted, *measured}, key=lambda label: -max(predicted.get(label, 0), measured.get(label, 0)))
    allocated = None if record.peak_allocated is None else record.peak_allocated / GIB
    reserved = None if record.peak_reserved is None else record.peak_reserved / GIB
    return {
        "kind": record.kind,
        "measured_allocated_gib": allocated,
        "measured_reserved_gib": reserved,
        "predicted_allocated_gib": rank["allocated_gib"],
        "predicted_reserved_gib": rank["reserved_gib"],
        "error_allocated": rank["allocated_gib"] / allocated - 1.0 if allocated else None,
        "error_reserved": rank["reserved_gib"] / reserved - 1.0 if reserved else None,
        "by_class": [
            {"class": label, "measured_gib": measured.get(label), "predicted_gib": predicted.get(label, 0.0)}
            for label in labels
        ],
    }  # fmt: skip

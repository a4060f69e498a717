"""A measured run to a plan, with everything that had to be assumed, or the reason why it cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from cann_plan.importers.rows import Fields, MeasuredRow, Remark, RowSkippedError
from cann_plan.importers.rows_cluster import cluster_section, stack_name
from cann_plan.importers.rows_model import IRRELEVANT as MODEL_IRRELEVANT
from cann_plan.importers.rows_model import model_section
from cann_plan.importers.rows_parallel import layer_split, layout, virtual_pipeline
from cann_plan.importers.rows_recompute import Recompute, recompute_section
from cann_plan.importers.rows_software import memory_section, offload_section, software_section, training_section
from cann_plan.importers.rows_with_plan import devices_of, is_plan_row, plan_of

MemoryKind = Literal["allocated", "reserved", "device"]
LONG_SEQUENCE: Final = 16384
"""Tokens from which a run counts as long: attention is then a large share of the work."""

PARALLEL_IRRELEVANT: Final = {
    "recompute_slice_activation": "shards a saved input that is small beside a layer's activations",
    "cp": "degree", "note": "remark",
}  # fmt: skip
RATES: Final = frozenset({
    "tflops_per_device", "mfu", "hfu", "scaling_efficiency_vs_128", "cluster_pflops", "tokens_per_s_as_published",
    "run_tokens_per_s", "time_to_train_s", "gpu_hours",
})  # fmt: skip
"""Measured figures that are not compared: FLOP/s by the source's own convention, and figures of whole runs."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured figures of a run; seconds and GiB. `derived_from` names the rate a step time was computed from."""

    step_s: float | None
    derived_from: str | None
    memory_gib: float | None
    memory_kind: MemoryKind


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """A plan document (as a user would write it) and what to do with it."""

    row: MeasuredRow
    plan: dict[str, Any]
    recompute: Recompute
    measured: Measured
    remarks: tuple[Remark, ...]
    device: str
    stack: str
    kind: str


def import_row(row: MeasuredRow) -> ImportedRow:
    """The plan of a run.

    Raises:
        RowSkippedError: nothing to compare, or something a plan needs is missing.
        SpecError: a value of the wrong type, located.
    """
    if is_plan_row(row):
        return _with_plan(row)
    top, model, parallel = Fields(row), Fields(row, "model"), Fields(row, "parallel")
    figures = Fields(row, "measured")
    cluster, remarks = cluster_section(top)
    description, sequence, found = model_section(model, row.id)
    remarks += found
    stack_word, framework = top.text("stack"), top.text("framework") or ""
    profile, found = stack_name(top)
    remarks += found
    if (
        profile in ("megatron", "megatron-deepspeed", "bigscience")
        and description.get("gated") is False
        and "moe" not in description
    ):
        description["dropout"] = True
        remarks.append(
            Remark("model.dropout", True, "Megatron's --hidden-dropout and --attention-dropout default to 0.1")
        )
    devices = int(cluster["devices"])
    step, rate, samples = (figures.number(k) for k in ("step_time_s", "tokens_per_s_per_device", "samples_per_s"))
    tokens = rate * devices * step if rate is not None and step is not None else None
    degrees, section, found = layout(parallel, devices, profile, tokens, sequence)
    remarks += found
    layers = int(description["layers"])
    remarks += virtual_pipeline(parallel, degrees, layers, profile, section)
    remarks += layer_split(parallel, layers, degrees.pipeline, section.get("virtual_pipeline", 1), section)
    recompute, found = recompute_section(parallel, layers, profile or "", f"{stack_word} {framework}")
    remarks += found
    section["recompute"] = recompute.section
    offload, found = offload_section(parallel)
    remarks += found
    if offload:
        section["offload"] = offload
    software, found = software_section(
        parallel, stack_word, profile, section, tensor=degrees.tensor, experts="moe" in description,
        framework=framework,
    )  # fmt: skip
    remarks += found
    device = str(cluster["device"])
    training, found = training_section(parallel, top.text("task"), sequence, degrees.global_batch, device, framework)
    remarks += found
    memory = memory_section(parallel)
    remarks += [*model.unused(MODEL_IRRELEVANT), *parallel.unused(PARALLEL_IRRELEVANT)]
    plan = {
        "name": row.id, "model": description, "cluster": cluster, "training": training, "parallel": section,
        "software": software, **({"memory": memory} if memory else {}),
    }  # fmt: skip
    measured = _measured(figures, step, rate, samples, degrees.global_batch, sequence, devices,
                         top.text("memory_note") or "", str(stack_word))  # fmt: skip
    kind = _kind(description, str(training["task"]), sequence)
    return ImportedRow(row, plan, recompute, measured, tuple(remarks), device, stack_word or "unknown", kind)


def _with_plan(row: MeasuredRow) -> ImportedRow:
    """A row that states its plan."""
    top, figures = Fields(row), Fields(row, "measured")
    plan, recompute, remarks = plan_of(row)
    training = plan["training"]
    step, rate, samples = (figures.number(k) for k in ("step_time_s", "tokens_per_s_per_device", "samples_per_s"))
    stack = top.text("stack") or "unknown"
    batch, sequence = int(training["global_batch_size"]), int(training["sequence_length"])
    measured = _measured(
        figures, step, rate, samples, batch, sequence, devices_of(plan), top.text("memory_note") or "", stack
    )
    model = plan.get("model")
    kind = top.text("kind") or _kind(model if isinstance(model, dict) else {}, str(training.get("task")), sequence)
    device = top.text("device")
    if device is None:
        raise RowSkippedError("device is not stated")
    return ImportedRow(row, plan, recompute, measured, remarks, device, stack, kind)


def _measured(
    figures: Fields, step: float | None, rate: float | None, samples: float | None, batch: int, sequence: int,
    devices: int, note: str, stack: str,
) -> Measured:  # fmt: skip
    origin = None
    if step is None and rate is not None:
        step, origin = batch * sequence / (rate * devices), "tokens_per_s_per_device"
    elif step is None and samples is not None:
        step, origin = batch / samples, "samples_per_s"
    memory, reserved = figures.number("peak_memory_gib"), figures.number("peak_reserved_gib")
    kind = memory_kind(note)
    if memory is None and reserved is not None:
        memory, kind = reserved, "reserved"
    if step is None and memory is None:
        stated = sorted(set(figures.data) & RATES)
        raise RowSkippedError(f"no step time, rate or memory is measured; only {', '.join(stated) or 'nothing'}")
    return Measured(step, origin, memory, kind)


def memory_kind(note: str) -> MemoryKind:
    """Which quantity a peak is: what the device's tool shows, what the allocator reserves, or what tensors take."""
    words = note.lower()
    if "smi" in words:
        return "device"
    return "reserved" if "reserved" in words else "allocated"


def _kind(model: dict[str, Any], task: str, sequence: int) -> str:
    if task in ("lora", "qlora"):
        return "lora"
    if "state_space" in model:
        return "hybrid"
    if "mla" in model:
        return "mla"
    if "moe" in model:
        return "moe"
    return "long" if sequence >= LONG_SEQUENCE else "dense"

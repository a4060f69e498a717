"""Launch arguments of Megatron-LM, MindSpeed-LLM and ModelLink to a plan. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cann_plan.importers.environment import read_environment
from cann_plan.importers.imported import Imported, Notes, Unused
from cann_plan.importers.megatron_arguments import Arguments
from cann_plan.importers.megatron_cluster import cluster_section, stack_of
from cann_plan.importers.megatron_known import UNMODELLED, ignored_because
from cann_plan.importers.megatron_model import MISSING_SIZES, NO_VOCABULARY, model_section
from cann_plan.importers.megatron_parallel import degrees, parallel_section
from cann_plan.importers.megatron_pipeline import pipeline_section
from cann_plan.importers.megatron_recompute import recompute_section
from cann_plan.importers.megatron_software import software_section, training_section
from cann_plan.importers.megatron_source import Launch, read_launch

_LLAMA_PROGRAMS: Final = re.compile(r"pretrain_(llama|baichuan|intern|aquila|qwen|mistral)\w*\.py")
Source = Mapping[str, Any] | Sequence[str] | str | Path


@dataclass(frozen=True, slots=True)
class Options:
    """What the launch does not say, or what shall replace it.

    `model`: preset, path or description that replaces the shape arguments; `variables`: values of script variables
    that its assignments do not change; `context_kind`: kind of context parallelism where --context-parallel-algo is
    absent (its default differs between versions of MindSpeed).
    """

    cluster: str | None = None
    model: str | Mapping[str, Any] | None = None
    devices: int | None = None
    stack: str | None = None
    vocabulary: int | None = None
    name: str | None = None
    variables: Mapping[str, str] | None = None
    context_kind: str | None = None


def import_megatron(source: Source, options: Options | None = None) -> Imported:
    """The plan of a launch: a script or its text, a YAML of arguments, a mapping, or a list of words.

    A mapping holds arguments by name (dashes or underscores, with or without `--`; true and null are set flags), or
    sections `args` and `env`. Raises SpecError for a file that cannot be read.
    """
    notes = Notes()
    chosen = options or Options()
    launch = read_launch(source, notes, chosen.variables)
    return import_launch(launch, notes, chosen)


def import_launch(launch: Launch, notes: Notes, options: Options) -> Imported:
    """The plan of a launch already read."""
    arguments = Arguments({**_implied(launch, notes), **launch.arguments}, notes)
    name = options.name or launch.name
    stack = stack_of(arguments, launch, notes, options.stack)
    spec = model_section(
        arguments, notes, name=name, entry=launch.entry, ascend=stack.ascend, vocabulary=options.vocabulary
    )
    found = degrees(arguments, stack, notes)
    cluster, devices = cluster_section(
        launch, stack, found.ranks, found.unit, notes, cluster=options.cluster, devices=options.devices
    )
    if devices % found.unit:
        notes.refuse(f"{devices} devices are not a multiple of {found.unit}, which the layout needs")
    parallel = parallel_section(arguments, stack, found, devices, notes, options.context_kind)
    if spec is not None:
        parallel |= pipeline_section(arguments, spec, notes)
    parallel["recompute"] = recompute_section(arguments, int(parallel.get("virtual_pipeline", 1)), notes)
    micro = arguments.whole("micro-batch-size")
    if micro is None:
        micro = notes.assume("parallel.micro_batch_size", 1, "not stated")
    parallel["micro_batch_size"] = micro
    software = software_section(arguments, stack, spec, found.tensor, notes)
    training = training_section(
        arguments, max(1, int(parallel["data"])), micro, launch.entry, notes,
        encoder=bool(spec and spec.get("encoder")),
    )  # fmt: skip
    memory, more = read_environment(launch.environment, notes)
    _report_left(arguments, notes)
    model: Any = spec
    if options.model is not None:
        model = options.model if isinstance(options.model, str) else dict(options.model)
        notes.refused = [reason for reason in notes.refused if not reason.startswith((MISSING_SIZES, NO_VOCABULARY))]
    plan: dict[str, Any] = {
        "name": name, "model": model, "cluster": cluster, "training": training, "parallel": parallel,
        "software": {**software, **more}, "memory": memory,
    }  # fmt: skip
    return notes.imported(plan)


def _implied(launch: Launch, notes: Notes) -> dict[str, tuple[str, ...]]:
    """Shape arguments that the program itself stands for: pretrain_llama.py of AscendSpeed and early ModelLink."""
    if _LLAMA_PROGRAMS.search(launch.entry) is None or "swiglu" in launch.arguments:
        return {}
    notes.assume("model", "LLaMA-like", f"{launch.entry} without --swiglu: a program for one architecture")
    names = ("swiglu", "disable-bias-linear", "untie-embeddings-and-output-weights")
    flags: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return {**flags, "normalization": ("RMSNorm",), "position-embedding-type": ("rope",)}


def _report_left(arguments: Arguments, notes: Notes) -> None:
    for name, value in arguments.left():
        why = ignored_because(name)
        if why is not None:
            notes.ignored.append(Unused(name, value, why))
        else:
            notes.unmodelled(name, value, UNMODELLED.get(name, "nobody here knows this argument"))

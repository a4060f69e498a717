"""Degrees, sharding, batch and pipeline split of a measured run to the `parallel:` section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cann_plan.importers.rows import Fields, Remark, RowSkippedError
from cann_plan.importers.rows_cluster import FULLY_SHARDED, RECIPES
from cann_plan.spec.synonyms import VALUES

CONTEXT_KINDS: Final = ("ring", "ulysses", "hybrid", "all_gather")
NEMO_LAYERS_PER_CHUNK: Final = 2
"""Layers of a chunk where a NeMo run does not state its virtual pipeline: NeMo's GPT-3 175B recipe has 96 layers in 8
stages of 6 chunks (nemo/collections/llm/recipes/gpt3_175b.py)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of a run; `micro` None where nothing determines it."""

    tensor: int
    pipeline: int
    context: int
    data: int
    micro: int
    global_batch: int


def layout(parallel: Fields, devices: int, stack: str | None, step_tokens: float | None, sequence: int
           ) -> tuple[Layout, dict[str, Any], list[Remark]]:  # fmt: skip
    """(degrees, `parallel:` section without recompute, remarks). `step_tokens`: tokens of a step where time and rate
    are both measured.

    Raises:
        RowSkippedError: no layout stated, or degrees that contradict the number of devices.
    """
    remarks: list[Remark] = []
    stated = {key: parallel.whole(key) for key in ("tp", "pp", "cp", "dp")}
    fully_sharded = stack in FULLY_SHARDED
    if stated["tp"] is None and stated["pp"] is None:
        if not fully_sharded:
            raise RowSkippedError("the parallel layout is not stated")
        remarks.append(Remark("parallel", "fully sharded", f"the layout is not stated: usual one of {stack}"))
    tensor, pipeline, context = (_degree(stated[key], key, remarks) for key in ("tp", "pp", "cp"))
    ranks = tensor * pipeline * context
    if devices % ranks:
        raise RowSkippedError(f"tp x pp x cp = {ranks} does not divide {devices} devices")
    data = stated["dp"] if stated["dp"] is not None else devices // ranks
    if data * ranks != devices:
        raise RowSkippedError(f"tp x pp x cp x dp = {ranks * data}, but {devices} devices are stated")
    micro, batch = _batch(parallel, data, pipeline, step_tokens, sequence, remarks)
    section: dict[str, Any] = {
        "tensor": tensor, "pipeline": pipeline, "context": context, "data": data, "micro_batch_size": micro,
    }  # fmt: skip
    _context(parallel, context, section)
    _experts(parallel, section)
    _sharding(parallel, data * context, fully_sharded, section, remarks)
    flag = parallel.flag("sequence_parallel")
    if flag is not None:
        section["sequence_parallel"] = flag and tensor > 1
    return Layout(tensor, pipeline, context, data, micro, batch), section, remarks


def _degree(value: int | None, key: str, remarks: list[Remark]) -> int:
    if value is None:
        remarks.append(Remark(f"parallel.{key}", 1, "not stated"))
        return 1
    return value


def _batch(
    parallel: Fields, data: int, pipeline: int, step_tokens: float | None, sequence: int, remarks: list[Remark]
) -> tuple[int, int]:
    """(micro-batch, global batch) from whichever of batch, micro-batch and their number are stated."""
    micro, batch = parallel.whole("micro_batch"), parallel.whole("global_batch")
    slots = parallel.whole("num_microbatches") or parallel.whole("grad_accum")
    parallel.asked.update(("grad_accum", "num_microbatches", "local_batch"))
    if batch is None and step_tokens is not None:
        batch = max(1, round(step_tokens / sequence))
        remarks.append(Remark("training.global_batch_size", batch, "measured tokens per second x step time"))
    if micro is None:
        micro = batch // (data * slots) if batch and slots and batch % (data * slots) == 0 else 1
        remarks.append(Remark("parallel.micro_batch_size", micro, "not stated"))
    if batch is None:
        slots = slots or (1 if pipeline == 1 else 4 * pipeline)
        batch = data * micro * slots
        remarks.append(Remark("training.global_batch_size", batch, f"not stated: {slots} micro-batches per replica"))
    if batch % (data * micro):
        raise RowSkippedError(f"global batch {batch} does not divide into dp {data} x micro-batch {micro}")
    return micro, batch


def _context(parallel: Fields, context: int, section: dict[str, Any]) -> None:
    algorithm = parallel.text("cp_algo")
    if algorithm is None or context == 1:
        return
    kind = VALUES.get(algorithm, algorithm.removesuffix("_cp_algo"))
    if kind not in CONTEXT_KINDS:
        raise RowSkippedError(f"context-parallel algorithm {algorithm} is not known")
    section["context_kind"] = kind


def _experts(parallel: Fields, section: dict[str, Any]) -> None:
    for key, target in (("ep", "expert"), ("etp", "expert_tensor")):
        value = parallel.whole(key)
        if value is not None and (value > 1 or key == "etp"):
            section[target] = value


def _sharding(
    parallel: Fields, replicas: int, fully_sharded: bool, section: dict[str, Any], remarks: list[Remark]
) -> None:
    """ZeRO stage and the ranks states are sharded over."""
    stage = parallel.whole("zero_stage", 0)
    optimizer = parallel.flag("distributed_optimizer")
    fsdp = parallel.whole("fsdp", 0)
    group = parallel.whole("shard_group")
    for key in ("zero1_group", "zero_group"):
        value = parallel.raw(key)
        group = value if isinstance(value, int) and not isinstance(value, bool) else group
    hybrid = (parallel.text("sharding") or "").upper() == "HSDP"
    parallel.asked.update(("optimizer_sharding", "enable_parallel_optimizer"))
    note = parallel.text("zero_note") or ""
    if stage is None and fsdp:
        stage = 3
    if stage is None and optimizer is not None:
        stage = 1 if optimizer else 0
    if stage is None and fully_sharded:
        stage = 3
        remarks.append(Remark("parallel.zero_stage", 3, "not stated: the stack shards everything"))
    if stage == 2 and "accumulated gradients full size" in note:
        stage = 1
        remarks.append(Remark("parallel.zero_stage", 1, "parallel optimizer that accumulates whole gradients"))
    if stage is not None:
        section["zero_stage"] = stage
    if fsdp and group is None:
        group = fsdp
    if hybrid and group is None:
        group = 8
        remarks.append(Remark("parallel.shard_group", 8, "HSDP shards inside a node"))
    if group and group < replicas and replicas % group == 0:
        section["shard_group"] = group


def virtual_pipeline(parallel: Fields, degrees: Layout, layers: int, stack: str | None, section: dict[str, Any]
                     ) -> list[Remark]:  # fmt: skip
    """Chunks per stage: stated, or the recipe's usual one for NeMo, else none."""
    stated = parallel.whole("vpp")
    slots = degrees.global_batch // (degrees.data * degrees.micro)
    if stated is not None:
        if stated > 1 and degrees.pipeline > 1:
            section["virtual_pipeline"] = stated
        return []
    if degrees.pipeline == 1:
        return []
    per_stage = layers // degrees.pipeline
    chunks = per_stage // NEMO_LAYERS_PER_CHUNK
    usual = stack in RECIPES and layers % degrees.pipeline == 0 and slots % degrees.pipeline == 0
    if usual and chunks > 1 and per_stage % NEMO_LAYERS_PER_CHUNK == 0:
        section["virtual_pipeline"] = chunks
        text = f"not stated: {NEMO_LAYERS_PER_CHUNK} layers per chunk as in NeMo's GPT-3 recipe"
        return [Remark("parallel.virtual_pipeline", chunks, text)]
    return [Remark("parallel.virtual_pipeline", 1, "not stated")]


def layer_split(parallel: Fields, layers: int, pipeline: int, virtual: int, section: dict[str, Any]) -> list[Remark]:
    """Layers per stage from a list, or from MindFormers' offsets to an even split.

    Raises:
        RowSkippedError: the list does not fit the model.
    """
    listed = parallel.wholes("num_layer_list")
    offsets = parallel.wholes("stage_layer_offset")
    if listed is None and offsets is None:
        return []
    if listed is None:
        assert offsets is not None
        if len(offsets) != pipeline:
            raise RowSkippedError(f"{len(offsets)} stage offsets for {pipeline} stages")
        base = (layers - sum(offsets)) // pipeline
        listed = [base + offset for offset in offsets]
    if sum(listed) != layers or len(listed) not in (pipeline, pipeline * virtual):
        raise RowSkippedError(f"stages hold {sum(listed)} layers in {len(listed)} parts, the model has {layers}")
    section["layer_split"] = listed
    return []

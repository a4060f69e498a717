"""Environment variables of a launch that change memory or time, to `memory:` and `software:`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cann_plan.importers.imported import Notes
from cann_plan.importers.script_errors import is_unknown, readable

NODES: Final = ("NNODES", "NUM_NODES", "SLURM_NNODES")
PER_NODE: Final = ("NPUS_PER_NODE", "GPUS_PER_NODE", "NPROC_PER_NODE", "DEVICES_PER_NODE")
ALLOCATORS: Final = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

# Variables without an effect on what is planned.
IRRELEVANT: Final = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "order of kernels; needed for overlap, which is taken as working",
    "HCCL_CONNECT_TIMEOUT": "time-out", "HCCL_EXEC_TIMEOUT": "time-out", "HCCL_IF_BASE_PORT": "port",
    "MASTER_ADDR": "address", "MASTER_PORT": "port", "NODE_RANK": "rank", "NPU_ASD_ENABLE": "error detection",
    "STREAMS_PER_DEVICE": "number of streams", "NCCL_DEBUG": "logging", "ASCEND_GLOBAL_LOG_LEVEL": "logging",
    "ASCEND_SLOG_PRINT_TO_STDOUT": "logging", "HF_DATASETS_OFFLINE": "data", "OMP_NUM_THREADS": "host threads",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "allocator detail", "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "default",
}  # fmt: skip
# Variables that could matter and that no model covers.
UNMODELLED: Final = {
    "TASK_QUEUE_ENABLE": "host-side launch queue; the software profile holds its usual setting",
    "CPU_AFFINITY_CONF": "pinning of host threads",
    "HCCL_OP_EXPANSION_MODE": "where collectives run (AIV: on vector cores)",
    "P2P_HCCL_BUFFSIZE": "buffer of point-to-point groups",
    "MULTI_STREAM_MEMORY_REUSE": "memory shared between streams",
    "COMBINED_ENABLE": "operator combination",
    "HCCL_INTRA_ROCE_ENABLE": "RoCE inside a node", "HCCL_ALGO": "collective algorithm by level",
    "NCCL_ALGO": "collective algorithm", "NCCL_PROTO": "collective protocol",
    "NCCL_BUFFSIZE": "buffer of a collective channel", "NVTE_FLASH_ATTN": "attention kernel",
    "NVTE_FUSED_ATTN": "attention kernel",
}  # fmt: skip
_TRUE: Final = ("1", "true", "on", "yes")


def read_environment(variables: Mapping[str, str], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(`memory:` section, `software:` section) that the environment states."""
    memory: dict[str, Any] = {}
    software: dict[str, Any] = {}
    for name, raw in variables.items():
        if name in IRRELEVANT:
            continue
        if is_unknown(raw):
            if name in (*ALLOCATORS, "HCCL_BUFFSIZE") or name in UNMODELLED:
                notes.unmodelled(name, readable(raw), "known only when the script runs")
            continue
        value = raw.strip()
        if name in ALLOCATORS:
            _allocator(name, value, memory, notes)
        elif name == "HCCL_BUFFSIZE":
            if value.isdigit() and 0 < int(value) < 2**20:
                memory["communicator_buffer_mib"] = int(value)
            else:
                notes.unmodelled(name, value, "not a number of MiB")
        elif name in ("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"):
            if value.lower() in _TRUE:
                software["launch_blocking"] = True
        elif name in ("HCCL_DETERMINISTIC", "CLOSE_MATMUL_K_SHIFT"):
            if value.lower() in (*_TRUE, "strict"):
                software["deterministic"] = True
        elif name in UNMODELLED:
            notes.unmodelled(name, value, UNMODELLED[name])
    return memory, software


def _allocator(name: str, value: str, memory: dict[str, Any], notes: Notes) -> None:
    """`expandable_segments:True,max_split_size_mb:128`."""
    for setting in value.split(","):
        key, _, state = setting.partition(":")
        if key.strip() == "expandable_segments":
            memory["expandable_segments"] = state.strip().lower() in _TRUE
        elif key.strip():
            notes.unmodelled(name, setting.strip(), "allocator setting without a model")


def count(variables: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """The first of the variables that holds a positive whole number."""
    for name in names:
        value = variables.get(name, "")
        if re.fullmatch(r"\s*\d{1,7}\s*", value) and int(value) > 0:
            return int(value)
    return None

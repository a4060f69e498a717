"""Read measured operator tables (CSV) into arrays."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ELEMENTWISE = {
    "Add",
    "Sub",
    "Mul",
    "RealDiv",
    "Cast",
    "Exp",
    "FastGelu",
    "Square",
    "SwiGlu",
    "OnesLike",
    "DropOutDoMask",
}
SMALL = ("BatchMatMul", "TransposeBatchMatMul")
KINDS = {
    **dict.fromkeys(ELEMENTWISE, "elementwise"),
    **dict.fromkeys(("RmsNorm", "AddRmsNormBias"), "rms-norm"),
    **dict.fromkeys(("LayerNormV3",), "layer-norm"),
    **dict.fromkeys(("ScaledMaskedSoftmax",), "softmax"),
    **dict.fromkeys(("ReduceSumD", "LpNormReduceV2"), "reduction"),
    **dict.fromkeys(("Transpose", "GatherV2"), "movement"),
    **dict.fromkeys(("_triton_rope",), "rope"),
    **dict.fromkeys(("DynamicQuant", "AscendQuantV2"), "quantize"),
    "ApplyAdamW": "optimizer",
}


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def gemm_tables(folder: Path) -> dict[tuple[str, str, str], Array]:
    """(chip, framework, dtype) -> columns m, n, k, seconds; shapes with n, k of at least 512."""
    groups: dict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    for row in _rows(folder / "gemm.csv"):
        m, n, k = (float(row[name]) for name in ("m", "n", "k"))
        if min(n, k) >= 512:
            groups[row["chip"], row["framework"], row["dtype"]].append([m, n, k, float(row["latency_us"]) * 1e-6])
    return {key: np.array(value) for key, value in groups.items()}


def attention_tables(folder: Path, phase: str) -> dict[tuple[str, str], Array]:
    """(chip, framework) -> columns batch, length, heads, kv_heads, head_dim, seconds."""
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    names = ("batch", "context", "q_heads", "kv_heads", "head_dim")
    for row in _rows(folder / "attn.csv"):
        if row["phase"] == phase:
            values = [float(row[name]) for name in names] + [float(row["latency_us"]) * 1e-6]
            groups[row["chip"], row["framework"]].append(values)
    return {key: np.array(value) for key, value in groups.items()}


def training_attention(folder: Path) -> dict[str, list[float]]:
    """Seconds of FlashAttentionScore (forward) and its gradient on a 20-core 910B (length 4096, batch 2, 4 heads)."""
    times: dict[str, list[float]] = {"forward": [], "backward": [], "matrix_share": []}
    for row in _rows(folder / "attention_ascend_910b_mstt.csv"):
        backward = row["op"].endswith("Grad")
        times["backward" if backward else "forward"].append(float(row["duration_us"]) * 1e-6)
        if not backward:
            times["matrix_share"].append(float(row["aic_mac_ratio"]))
    return times


def training_gemm(folder: Path) -> list[tuple[float, float, float, float, float, float]]:
    """Distinct training products of 910B-family parts: batch, m, n, k, seconds (median), peak FLOP/s."""
    groups: dict[tuple[float, ...], list[float]] = defaultdict(list)
    for row in _rows(folder / "gemm_ascend_910b_mstt.csv"):
        key = tuple(float(row[name]) for name in ("batch", "m", "n", "k", "peak_tflops_derived"))
        groups[key].append(float(row["duration_us"]) * 1e-6)
    return [(b, m, n, k, float(np.median(t)), peak * 1e12) for (b, m, n, k, peak), t in groups.items()]


def serving_gemm(folder: Path, dtype: str) -> Array:
    """Products of serving runs on one die of an Atlas 800 A3: columns m, n, k, seconds."""
    rows = [
        row
        for row in _rows(folder / "gemm_ascend_a3_die.csv")
        if row["dtype"] == dtype and not row["op"].startswith(SMALL)
    ]
    keep = [row for row in rows if min(float(row["n"]), float(row["k"])) >= 512 or dtype == "int8"]
    return np.array([[float(r["m"]), float(r["n"]), float(r["k"]), float(r["mean_us"]) * 1e-6] for r in keep])


def vector_tables(folder: Path) -> dict[str, Array]:
    """Kind -> columns bytes, seconds, from training (910B) and serving (A3) kernel rows."""
    groups: dict[str, list[list[float]]] = defaultdict(list)
    for name, column in (
        ("elementwise_ascend_910b_mstt.csv", "duration_us"),
        ("elementwise_ascend_a3_die.csv", "mean_us"),
    ):
        for row in _rows(folder / name):
            kind = KINDS.get(row["op"])
            try:
                moved = float(row["bytes_in"]) + float(row["bytes_out"])
            except ValueError:
                continue
            if kind and moved > 0.0:
                groups[kind].append([moved, float(row[column]) * 1e-6])
    return {key: np.array(value) for key, value in groups.items()}

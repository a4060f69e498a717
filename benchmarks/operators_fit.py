"""Fit the operator constants of every device family on measured tables and write `presets/operators/*.yaml`.

    python benchmarks/operators_fit.py PATH_TO_TABLES [--check] [--date YYYY-MM-DD]

`--check` prints the fits without writing. PATH_TO_TABLES holds gemm.csv, attn.csv and the Ascend kernel tables.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import operators_forms as forms
import operators_published as published
import operators_tables as tables
import yaml
from operators_tables import Array

from cann_plan.hardware.attention import attention_seconds
from cann_plan.hardware.gemm import gemm_seconds
from cann_plan.hardware.operator_model import AttentionFit, GemmFit, Provenance, Validity, VectorFit
from cann_plan.hardware.operator_presets import operator_preset_directory

AIC = "aiconfigurator operator tables, repository 095f58a51"
NPU = "aiconfigurator-npu (hudingyi688, commit 90d7765): one die of Atlas 800 A3, CANN 8.5, vllm-ascend 0.18"
MSTT = "Ascend mstt profiler test data: training kernels of 910B-family parts"
A3_RUNS = "msModeling performance database: serving kernels of one Atlas 800 A3 die"
A3_CHIP = ("ascend-910c-die(A3)", "vllm-ascend/0.18.0")
# precisions without a table of their own take another's fractions of their own peak
ALIASES = {"fp16": "bf16", "tf32": "bf16", "fp32": "bf16", "fp8": "bf16", "fp4": "fp8"}
L2 = 192.0 * 2**20  # bytes, L2 cache of the 910B and of an A3 die (CANN platform_config)
SECTIONS = ("gemm", "grouped_gemm", "attention", "vector")
HEADER = """# Written by benchmarks/operators_fit.py: operator constants of one device family; do not edit by hand.
# launch_s, cast_launch_s: seconds. *efficiency: fraction of the device's dense peak or nominal bandwidth.
# half_m, half_n, half_k, half_dim: elements; half_keys: keys; half_units: tiles of 128 x 128 results, 128 queries or
# 128 keys. backward_efficiency: backward rate / forward rate. Errors in provenance: |predicted/measured - 1|.
"""
Document = dict[str, Any]


def section(fits: dict[str, Any], **aliases: str) -> Document:
    """Plain values of a mapping of fits; `aliases` name precisions or kernels that share another's constants."""
    return {name: plain(fit) for name, fit in fits.items()} | {name: {"same_as": of} for name, of in aliases.items()}


def plain(fit: Any) -> Document:
    """Plain values of a fit, four significant digits; empty fields are left out."""
    values = asdict(fit)
    where, ranges = values.pop("provenance"), values.pop("validity")["ranges"]
    result: Document = {key: float(f"{value:.4g}") for key, value in values.items()}
    for optional in ("half_units", "cast_launch_s", "cast_efficiency"):
        if result.get(optional) == 0.0:
            del result[optional]
    result["provenance"] = {key: value for key, value in where.items() if value not in (None, "", False)}
    result["validity"] = {key: [float(low), float(high)] for key, (low, high) in ranges.items()}
    return result


def stated(source: str) -> Provenance:
    return Provenance(source)


def join(data: dict[Any, Array], chip: str, frameworks: tuple[str, ...], *dtype: str) -> Array:
    return np.concatenate([data[(chip, framework, *dtype)] for framework in frameworks])


def gpu(
    family: str, chip: str, folder: Path, frameworks: tuple[str, ...], kernels: dict[str, str], fp8: str | None
) -> Document:
    """An NVIDIA family with its own tables; `kernels` maps kernel name to the framework whose table it is."""
    print(family)
    gemm_data, prefill = tables.gemm_tables(folder), tables.attention_tables(folder, "prefill")
    decode = tables.attention_tables(folder, "decode")
    source = f"{AIC}, gemm_perf {' + '.join(frameworks)}"
    gemm = {"bf16": forms.fit_gemm(family, "bf16", join(gemm_data, chip, frameworks, "bfloat16"), source)}
    if fp8:
        launch = gemm["bf16"].launch_s
        where = f"{AIC}, gemm_perf {fp8} fp8 per tensor, with the conversion of the activation"
        gemm["fp8"] = forms.fit_gemm(family, "fp8", gemm_data[chip, fp8, "fp8"], where, launch)
    attention = {}
    for kernel, framework in kernels.items():
        where = f"{AIC}, context_attention_perf {framework}"
        attention[kernel] = forms.fit_attention(family, prefill[chip, framework], where)
    first = next(iter(kernels.values()))
    where = f"{AIC}, generation_attention_perf {first}"
    low, high = published.STREAM[family]
    vector = VectorFit(
        published.VECTOR_LAUNCH_GPU,
        0.5 * (low + high) / forms.REFERENCE[family][1],
        stated(published.STREAM_SOURCE),
        Validity(),
    )
    return {
        "gemm": gemm,
        "attention": attention,
        "default_attention": next(iter(kernels)),
        "decode": forms.fit_decode(family, decode[chip, first], where),
        "vector": {"elementwise": vector},
        "optimizer": replace(vector, provenance=stated("as elementwise: no measured fused optimizer was found")),
        "matrix_unit": {"aligned_elements": 8, "misaligned_slowdown": published.MISALIGNED_SLOWDOWN},
    }


def hopper_kernels(half_units: float) -> dict[str, AttentionFit]:
    """Training kernels of Hopper from published points; the head-count penalty is that of the paged table."""
    result = {}
    for kernel in ("flash-v3", "cudnn", "flash-v2"):
        rows = forms.published_rows(published.H100_ATTENTION, kernel, published.LENGTHS, 16384, 2048)
        result[kernel] = forms.fit_published("h100", kernel, rows, half_units, 0.0, 0.0, published.FLASH3)
    return result


def first_generation(second: AttentionFit) -> AttentionFit:
    """FlashAttention-1 from version 2 by the ratio of their best fractions of the A100's peak."""
    v1, v2 = published.A100_BEST["flash-v1"], published.A100_BEST["flash-v2"]
    return replace(
        second,
        efficiency=second.efficiency * v1[0] / v2[0],
        backward_efficiency=v1[1] / v1[0],
        provenance=stated(f"flash-v2 times the ratio of best fractions of peak, {published.FLASH2}"),
    )


def ascend(folder: Path) -> Document:
    """One die of an Atlas 800 A3; the 910B shares its core architecture."""
    print("ascend-a3-die")
    family = "ascend"
    gemm_data, prefill = tables.gemm_tables(folder), tables.attention_tables(folder, "prefill")
    gemm = {
        "bf16": forms.fit_gemm(family, "bf16", gemm_data[(*A3_CHIP, "bf16")], f"{NPU}, MatMulV2"),
    }
    where = f"{NPU}, QuantBatchMatmulV3 with the dynamic quantisation of the activation"
    gemm["int8"] = forms.fit_gemm(family, "int8", gemm_data[(*A3_CHIP, "w8a8_dynamic")], where, gemm["bf16"].launch_s)
    for dtype in gemm:
        check_gemm(family, dtype, gemm[dtype], tables.serving_gemm(folder, dtype))
    check_training_gemm(gemm["bf16"], folder)
    serving = forms.fit_attention(family, prefill[A3_CHIP], f"{NPU}, FusedInferAttentionScore, causal prefill")
    times = tables.training_attention(folder)
    share = float(np.median(times["matrix_share"]))
    # Only the share of the kernel in which the matrix unit multiplies shrinks with the head dimension.
    serving = replace(serving, half_dim=128.0 * (1.0 - share) / share)
    return {
        "gemm": gemm,
        "attention": {"ascend-fusion": training_attention(serving, times), "ascend-fia": serving},
        "default_attention": "ascend-fusion",
        "decode": forms.fit_decode(family, tables.attention_tables(folder, "decode")[A3_CHIP], f"{NPU}, FIA decode"),
        "vector": ascend_vector(folder),
        "optimizer": ascend_optimizer(folder),
        "grouped_gemm": {"bf16": forms.fit_grouped(family, "ascend", gemm["bf16"], published.MOE_ASCEND)},
        "matrix_unit": {"tile": 16},  # the cube unit multiplies 16 x 16 x 16 blocks (CANN platform_config)
    }


def check_gemm(family: str, dtype: str, fit: GemmFit, rows: Array) -> None:
    """Serving kernel rows were not fitted: they test the table's constants (without a conversion inside the call)."""
    parts = forms.device(family, gemm={dtype: fit}, tile=16)
    predicted = gemm_seconds(parts, dtype, rows[:, 0], rows[:, 1], rows[:, 2], cast=False)
    ratio = predicted / rows[:, 3]
    large = rows[:, 0] >= 256
    for label, chosen in (("m < 256", ~large), ("m >= 256", large)):
        figures = " ".join(f"{100 * x:5.1f}" for x in forms.errors(predicted[chosen], rows[chosen, 3]))
        print(f"    not fitted: serving {dtype} {label}: {figures}, bias {100 * np.median(ratio[chosen] - 1):+.1f}")


def check_training_gemm(fit: GemmFit, folder: Path) -> None:
    """Training products of two 910B parts, scaled by peak, against the die's constants."""
    for batch, m, n, k, seconds, peak in tables.training_gemm(folder):
        parts = replace(forms.device("ascend", gemm={"bf16": fit}, tile=16), peak_flops={"bf16": peak})
        predicted = float(gemm_seconds(parts, "bf16", m, n, k, batch=batch)[0])
        shape = f"{batch:.0f} x {m:.0f} {n:.0f} {k:.0f}"
        print(f"    not fitted: training {shape}: {1e6 * seconds:.0f} us, {100 * (predicted / seconds - 1):+.1f}")


def training_attention(serving: AttentionFit, times: dict[str, list[float]]) -> AttentionFit:
    """FlashAttentionScore and its gradient: the serving curve scaled to the measured training kernel (one shape)."""
    parts = replace(
        forms.device("ascend", attention={"x": serving}, default_attention="x"), peak_flops={"bf16": 294.9e12}
    )
    shape = (2.0, 4.0, 4.0, 4096.0, 4096.0, 128.0)
    forward, backward = (float(np.median(times[phase])) for phase in ("forward", "backward"))

    def ratio(phase: str, measured: float) -> float:
        """Rate that makes the prediction meet `measured` (bisection on its logarithm)."""
        low, high = 0.1, 10.0
        for _ in range(60):
            middle = float(np.sqrt(low * high))
            slow = float(attention_seconds(parts, "x", phase, *shape, rate=middle)[0]) > measured
            low, high = (middle, high) if slow else (low, middle)
        return middle

    efficiency = serving.efficiency * ratio("forward", forward)
    relative = ratio("backward", backward) / ratio("forward", forward)
    print(f"  ascend-fusion: efficiency {efficiency:.3f}, backward {relative:.3f}, half_dim {serving.half_dim:.0f}")
    source = f"{MSTT}: FlashAttentionScore and gradient, length 4096, batch 2, 4 heads; shape dependence of ascend-fia"
    where = Provenance(source, points=len(times["forward"]) + len(times["backward"]))
    validity = Validity({"q_length": (4096.0, 4096.0), "head_dim": (128.0, 128.0), "batch": (1.0, 8.0)})
    return replace(serving, efficiency=efficiency, backward_efficiency=relative, provenance=where, validity=validity)


def ascend_vector(folder: Path) -> dict[str, VectorFit]:
    """Launch floor from rows below 1 MB, bandwidth from rows beyond the L2 cache (192 MiB), else above 20 or 4 MB."""
    result = {}
    for kind, rows in sorted(tables.vector_tables(folder).items()):
        if kind == "optimizer":
            continue
        small = rows[rows[:, 0] < 1e6]
        large = next((part for low in (L2, 20e6, 4e6) if len(part := rows[rows[:, 0] > low])), None)
        if large is None:
            continue
        launch = float(np.median(small[:, 1])) if len(small) else 2e-6
        rate = float(np.median(large[:, 0] / np.maximum(large[:, 1] - launch, 1e-9))) / forms.REFERENCE["ascend"][1]
        efficiency = min(rate, 1.0)
        predicted = launch + rows[:, 0] / (efficiency * forms.REFERENCE["ascend"][1])
        used = rows[:, 0] >= large[:, 0].min()
        inside = forms.errors(predicted[used], rows[used, 1])
        print(
            f"  vector {kind} (n {len(rows)}): {1e6 * launch:.1f} us, {efficiency:.3f}; large rows MAPE {inside[0]:.2f}"
        )
        figures = [round(x, 4) for x in inside]
        where = Provenance(f"{MSTT}; {A3_RUNS}", len(rows), *figures)
        validity = Validity({"bytes": (float(rows[:, 0].min()), float(rows[:, 0].max()))})
        result[kind] = VectorFit(launch, efficiency, where, validity)
    return result


def ascend_optimizer(folder: Path) -> VectorFit:
    """ApplyAdamW: 16 bytes read and 12 written per parameter."""
    rows = tables.vector_tables(folder)["optimizer"]
    launch = float(np.median(rows[rows[:, 0] < 1e6, 1]))
    large = rows[rows[:, 0] > L2]
    efficiency = float(np.median(large[:, 0] / (large[:, 1] - launch))) / forms.REFERENCE["ascend"][1]
    inside = forms.errors(launch + large[:, 0] / (efficiency * forms.REFERENCE["ascend"][1]), large[:, 1])
    print(f"  optimizer (n {len(large)}): {1e6 * launch:.1f} us, {efficiency:.3f}; MAPE {inside[0]:.3f}")
    where = Provenance(f"{MSTT}: ApplyAdamW", len(large), *(round(x, 4) for x in inside))
    return VectorFit(
        launch, efficiency, where, Validity({"bytes": (float(large[:, 0].min()), float(rows[:, 0].max()))})
    )


def blackwell(folder: Path, flash2: AttentionFit) -> Document:
    print("b200")
    family = "b200"
    table = tables.gemm_tables(folder)["b200_sxm", "vllm/0.24.0", "bfloat16"]
    gemm = {"bf16": forms.fit_gemm(family, "bf16", table, f"{AIC}, gemm_perf vllm/0.24.0")}
    attention = {}
    inherited = (flash2.half_units, flash2.half_dim, flash2.half_keys)
    for kernel, points, lengths, tokens, source in (
        ("flash-v2", published.B200_FLASH2, published.LENGTHS, 16384, published.FLASH2_B200),
        ("flash-v4", published.B200_ATTENTION, published.LENGTHS_B200, 32768, published.FLASH4),
        ("cudnn", published.B200_ATTENTION, published.LENGTHS_B200, 32768, published.FLASH4),
    ):
        rows = forms.published_rows(points, kernel, lengths, tokens, 2048)
        attention[kernel] = forms.fit_published(family, kernel, rows, *inherited, source)
        if kernel == "flash-v4":  # cuDNN was published at head dimension 64: the same exponential unit limits both
            inherited = (flash2.half_units, attention[kernel].half_dim, flash2.half_keys)
    forward, backward = published.B200_CAUSAL_BACKWARD["flash-v4"]
    for kernel in ("flash-v4", "cudnn"):
        attention[kernel] = replace(attention[kernel], backward_efficiency=backward / forward)
    return {"gemm": gemm, "attention": attention, "default_attention": "cudnn"}


def documents(folder: Path) -> dict[str, Document]:
    """Family -> document of fits and rules."""
    same = "same fractions of its own peak and bandwidth"
    a100 = gpu(
        "a100", "a100_sxm", folder, ("sglang/0.5.10", "vllm/0.14.0"),
        {"flash-v2": "vllm/0.14.0", "flashinfer": "sglang/0.5.10"}, None,
    )  # fmt: skip
    frameworks = ("vllm/0.24.0", "trtllm/1.3.0rc20")
    paged = {"flash-v3-paged": frameworks[0], "trtllm": frameworks[1]}
    h100 = gpu("h100", "h100_sxm", folder, frameworks, paged, frameworks[1])
    units = h100["attention"]["flash-v3-paged"].half_units
    kernels = hopper_kernels(units)
    h100["attention"] |= kernels
    for kernel in paged:
        h100["attention"][kernel] = replace(
            h100["attention"][kernel],
            half_dim=kernels["flash-v3"].half_dim,
            backward_efficiency=kernels["flash-v3"].backward_efficiency,
        )
    h200 = gpu("h200", "h200_sxm", folder, frameworks, {"flash-v3-paged": frameworks[0]}, frameworks[1])
    h200["attention"]["flash-v3-paged"] = replace(
        h200["attention"]["flash-v3-paged"],
        half_dim=kernels["flash-v3"].half_dim,
        backward_efficiency=kernels["flash-v3"].backward_efficiency,
    )
    h100["default_attention"] = h200["default_attention"] = "cudnn"
    h200["grouped_gemm"] = {"bf16": forms.fit_grouped("h200", "h200", h200["gemm"]["bf16"], f"{published.MOE}, trtllm")}
    forms.fit_grouped("h200", "h200-triton", h200["gemm"]["bf16"], published.MOE)  # printed for comparison
    h100["grouped_gemm"] = {"bf16": replace(h200["grouped_gemm"]["bf16"], launch_s=h100["gemm"]["bf16"].launch_s)}
    flash2 = h100["attention"]["flash-v2"]
    v2 = published.A100_BEST["flash-v2"]
    base = replace(a100["attention"]["flash-v2"], half_dim=flash2.half_dim, backward_efficiency=v2[1] / v2[0])
    a100["attention"]["flash-v2"] = base
    a100["attention"]["flashinfer"] = replace(
        a100["attention"]["flashinfer"], half_dim=flash2.half_dim, backward_efficiency=v2[1] / v2[0]
    )
    a100["attention"]["flash-v1"] = first_generation(base)
    h100["attention"]["flash-v1"] = first_generation(flash2)
    a100["grouped_gemm"] = h100["grouped_gemm"]
    for document in (h100, h200):
        document["grouped_gemm"] = dict(document["grouped_gemm"]) | {"fp8": document["grouped_gemm"]["bf16"]}
    die = ascend(folder)
    die["grouped_gemm"]["int8"] = die["grouped_gemm"]["bf16"]
    b200 = blackwell(folder, kernels["flash-v2"])
    rules = {
        "ascend-910b": ("ascend-a3-die", "the same core architecture (2201)"),
        "ascend-910a": ("ascend-910b", f"{same}; no measured table was found"),
        "gb200": ("b200", same),
        "b300": ("b200", same),
        "gb300": ("b200", same),
        "v100": ("a100", f"{same}; no measured table was found"),
        "generic": ("a100", f"{same}; for devices without a family of their own"),
    }
    result: dict[str, Document] = {"a100": a100, "h100": h100, "h200": h200, "ascend-a3-die": die}
    h200 = {"inherits": {"family": "h100", "rule": "the same die; published attention points are of the H100"}} | h200
    result["h200"] = h200
    result["b200"] = {"inherits": {"family": "h200", "rule": "what was not measured keeps its fraction"}} | b200
    return result | {name: {"inherits": {"family": of, "rule": rule}} for name, (of, rule) in rules.items()}


def text(family: str, document: Document, date: str) -> str:
    """A preset document as YAML."""
    peaks, bandwidth = forms.REFERENCE.get("ascend" if family == "ascend-a3-die" else family, ({}, 0.0))
    known = ", ".join(f"{dtype} {peak / 1e12:g} TFLOP/s" for dtype, peak in peaks.items())
    reference = f"{known}, {bandwidth / 1e12:g} TB/s" if peaks else "the device's own dense peak and nominal bandwidth"
    body: Document = {"family": family, "reference": reference} | ({"date": date} if date else {})
    for key, value in document.items():
        if key in SECTIONS:
            products = key in ("gemm", "grouped_gemm")
            aliases = {name: of for name, of in ALIASES.items() if products and name not in value and of in value}
            kernels = {"sdpa": "flash-v2"} if key == "attention" and family in ("a100", "h100") else {}
            body[key] = section(value, **aliases, **kernels)
        elif key in ("decode", "optimizer"):
            body[key] = plain(value)
        else:
            body[key] = value
    return HEADER + yaml.safe_dump(body, sort_keys=False, width=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder with the measured CSV tables")
    parser.add_argument("--check", action="store_true", help="print the fits, write nothing")
    parser.add_argument("--date", default="", help="date to record in the presets")
    arguments = parser.parse_args()
    print("errors in per cent: mean median p90 in sample | held out; parameters")
    for family, document in documents(arguments.tables).items():
        path = operator_preset_directory() / f"{family}.yaml"
        if not arguments.check:
            path.write_text(text(family, document, arguments.date), encoding="utf-8")
            print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

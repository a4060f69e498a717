"""Fits of the operator forms: least squares of the log error with a soft-L1 loss (scale 0.1).

They call the library's own functions, so that what is fitted is what is used. Held-out errors: shapes are split in two
halves, each is predicted from a fit on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import operators_published as published
from operators_tables import Array
from scipy.optimize import least_squares

from cann_plan.hardware.attention import attention_seconds
from cann_plan.hardware.decode import decode_attention_seconds
from cann_plan.hardware.device import Device
from cann_plan.hardware.gemm import gemm_seconds, grouped_gemm_seconds
from cann_plan.hardware.operator_model import (
    AttentionFit,
    DecodeFit,
    GemmFit,
    GroupedGemmFit,
    OperatorModel,
    Provenance,
    Validity,
    VectorFit,
)

REFERENCE: dict[str, tuple[dict[str, float], float]] = {  # dense peak FLOP/s by precision, nominal bytes/s
    "a100": ({"bf16": 312e12}, 2.039e12),
    "h100": ({"bf16": 989e12, "fp8": 1979e12}, 3.35e12),
    "h200": ({"bf16": 989e12, "fp8": 1979e12}, 4.8e12),
    "b200": ({"bf16": 2250e12, "fp8": 4500e12}, 8.0e12),
    "ascend": ({"bf16": 353.9e12, "int8": 752e12}, 1.6e12),
}
EMPTY = Provenance(source="")
PUBLISHED_LAUNCH = 3e-6  # s; published points are too large to see it, the floor of a GPU kernel is used
ENOUGH = 3  # points of a head dimension from which its influence is read
SMALL, LARGE = 1e-2, 2e4  # bounds of half lengths [elements]
HALVES = ("half_m", "half_n", "half_k", "half_units")
FORMS = {  # free half lengths of each candidate form; cast adds a conversion term
    "constant": (),
    "dims": ("half_m", "half_n", "half_k"),
    "units": ("half_k", "half_units"),
    "cast": ("half_k",),
    "dims + cast": ("half_m", "half_n", "half_k"),
}


def solve(predict: Callable[[Array], Array], measured: Array, low: Sequence[float], high: Sequence[float]) -> Array:
    """Positive parameters that minimise the soft-L1 log error; started at two points of the box."""
    lower, upper = np.log(low), np.log(high)
    best = None
    for share in (0.5, 0.65, 0.8):
        start = lower + share * (upper - lower)
        found = least_squares(
            lambda p: np.log(predict(np.exp(p)) / measured), start, bounds=(lower, upper), loss="soft_l1", f_scale=0.1
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return np.asarray(np.exp(best.x))


def errors(predicted: Array, measured: Array) -> tuple[float, float, float]:
    """Mean, median and 90th percentile of |predicted / measured - 1|."""
    relative = np.abs(predicted / measured - 1.0)
    return float(relative.mean()), float(np.median(relative)), float(np.quantile(relative, 0.9))


def halves(keys: Array) -> Array:
    """Alternate distinct rows of `keys` into two halves: True where a row belongs to the second."""
    distinct = {tuple(row): index for index, row in enumerate(sorted({tuple(row) for row in keys}))}
    return np.array([distinct[tuple(row)] % 2 == 1 for row in keys])


def fit_table(
    predictor: Callable[[Array], Callable[[Array], Array]],
    rows: Array,
    keys: Array,
    low: Sequence[float],
    high: Sequence[float],
) -> tuple[Array, tuple[float, float, float], tuple[float, float, float]]:
    """Parameters on all rows, in-sample errors and held-out errors; `predictor(rows)(parameters)` gives seconds."""
    measured = rows[:, -1]
    parameters = solve(predictor(rows), measured, low, high)
    second = halves(keys)
    outside = np.empty_like(measured)
    for test in (second, ~second):
        found = solve(predictor(rows[~test]), measured[~test], low, high)
        outside[test] = predictor(rows[test])(found)
    return parameters, errors(predictor(rows)(parameters), measured), errors(outside, measured)


def device(family: str, **sections: Any) -> Device:
    """A device of `family` at its reference peak with only the given sections filled."""
    peaks, bandwidth = REFERENCE[family]
    none = VectorFit(0.0, 1.0, EMPTY, Validity())
    blank = OperatorModel(family, "", {}, {}, {}, "", DecodeFit(0.0, 1.0, 0.0, EMPTY, Validity()), {}, none)
    return Device(family, peaks, bandwidth, replace(blank, **sections))


def provenance(source: str, n: int, inside: Sequence[float], outside: Sequence[float]) -> Provenance:
    return Provenance(source, n, *(round(x, 4) for x in inside), *(round(x, 4) for x in outside))


def report(label: str, parameters: Any, inside: Sequence[float], outside: Sequence[float]) -> None:
    figures = " ".join(f"{100 * x:5.1f}" for x in inside) + " | " + " ".join(f"{100 * x:5.1f}" for x in outside)
    print(f"  {label:<34} {figures}   {parameters}")


def gemm_from(parameters: Array, form: str, launch: float | None) -> GemmFit:
    """A `GemmFit` from launch, efficiency, memory efficiency, the free halves and, for `cast`, the conversion."""
    free = FORMS[form]
    half = dict.fromkeys(HALVES, 0.0) | dict(zip(free, (float(x) for x in parameters[3:]), strict=False))
    total = float(parameters[0])
    cast = form.endswith("cast")
    base = min(launch, total) if cast and launch is not None else total
    return GemmFit(
        launch_s=base,
        efficiency=float(parameters[1]),
        memory_efficiency=float(parameters[2]),
        **half,
        cast_launch_s=total - base if cast else 0.0,
        cast_efficiency=float(parameters[-1]) if cast else 0.0,
        provenance=EMPTY,
        validity=Validity(),
    )


def fit_gemm(family: str, dtype: str, rows: Array, source: str, launch: float | None = None) -> GemmFit:
    """The best form by held-out mean error; an earlier form wins unless beaten by half a point.

    A form that separates the conversion also wins where it is no more than half a point worse: software may fuse it.
    """

    def predictor(form: str) -> Callable[[Array], Callable[[Array], Array]]:
        def bind(data: Array) -> Callable[[Array], Array]:
            m, n, k = data[:, 0], data[:, 1], data[:, 2]

            def seconds(p: Array) -> Array:
                fit = gemm_from(p, form, launch)
                return gemm_seconds(device(family, gemm={dtype: fit}), dtype, m, n, k)

            return seconds

        return bind

    best: tuple[float, GemmFit] | None = None
    one_byte = dtype in ("fp8", "int8")
    for form in ("constant", "dims", "units", *(("cast", "dims + cast") if one_byte else ())):
        extra, cast = len(FORMS[form]), form.endswith("cast")
        low = [1e-7, 0.05, 0.05] + [SMALL] * extra + [0.02] * cast
        high = [2e-4, 1.0, 1.0] + [LARGE] * extra + [1.0] * cast
        parameters, inside, outside = fit_table(predictor(form), rows, rows[:, 1:3], low, high)
        fit = gemm_from(parameters, form, launch)
        report(f"gemm {dtype} {form} (n {len(rows)})", np.round(parameters[:3] * [1e6, 1, 1], 3), inside, outside)
        if best is None or outside[0] < best[0] + (0.005 if form.endswith("cast") else -0.005):
            ranges = {name: (float(rows[:, i].min()), float(rows[:, i].max())) for i, name in enumerate("mnk")}
            note = f"{source}; form {form}"
            best = (
                outside[0],
                replace(fit, provenance=provenance(note, len(rows), inside, outside), validity=Validity(ranges)),
            )
    assert best is not None
    return best[1]


def attention_from(p: Array) -> AttentionFit:
    return AttentionFit(float(p[0]), float(p[1]), float(p[2]), float(p[3]), float(p[4]), 0.0, 1.0, EMPTY, Validity())


def fit_attention(family: str, rows: Array, source: str) -> AttentionFit:
    """Forward constants from a causal prefill table at head dimension 128."""

    def bind(data: Array) -> Callable[[Array], Array]:
        batch, length, heads, kv, dim = (data[:, i] for i in range(5))

        def seconds(p: Array) -> Array:
            parts = device(family, attention={"table": attention_from(p)}, default_attention="table")
            return attention_seconds(parts, "table", "forward", batch, heads, kv, length, length, dim)

        return seconds

    low, high = [1e-7, 0.05, 0.05, SMALL, SMALL], [2e-4, 1.0, 1.0, LARGE, LARGE]
    parameters, inside, outside = fit_table(bind, rows, rows[:, :3], low, high)
    long = rows[:, 1] >= 1024
    at_training = errors(bind(rows[long])(parameters), rows[long, -1])
    report(f"attention (n {len(rows)})", np.round(parameters * [1e6, 1, 1, 1, 1], 3), inside, outside)
    print(f"    s >= 1024: {100 * at_training[0]:.1f} / {100 * at_training[1]:.1f} / {100 * at_training[2]:.1f}")
    ranges = {"batch": rows[:, 0], "q_length": rows[:, 1], "heads": rows[:, 2], "head_dim": rows[:, 4]}
    validity = Validity({name: (float(column.min()), float(column.max())) for name, column in ranges.items()})
    return replace(
        attention_from(parameters), provenance=provenance(source, len(rows), inside, outside), validity=validity
    )


Points = dict[tuple[str, str, bool, int], tuple[float, ...]]


def published_rows(points: Points, kernel: str, lengths: Sequence[int], tokens: int, width: int) -> Array:
    """Columns batch, length, heads, head_dim, causal, backward, rate (FLOP/s by the half-square convention)."""
    rows = []
    for (name, phase, causal, dim), rates in points.items():
        for length, rate in zip(lengths, rates, strict=False):
            if name == kernel:
                shape = [tokens / length, length, width / dim, dim, float(causal), float(phase == "backward")]
                rows.append([*shape, rate * 1e12])
    return np.array(rows)


def published_seconds(parts: Device, kernel: str, rows: Array) -> tuple[Array, Array]:
    """Predicted and measured seconds of published points (benchmarks count half of s^2 under a causal mask)."""
    batch, length, heads, dim, causal, backward, rate = (rows[:, i] for i in range(7))
    flops = 4.0 * batch * heads * length * length * dim * np.where(causal > 0, 0.5, 1.0)
    measured = flops * np.where(backward > 0, 2.5, 1.0) / rate
    predicted = np.where(
        backward > 0,
        attention_seconds(parts, kernel, "backward", batch, heads, heads, length, length, dim, causal=causal > 0),
        attention_seconds(parts, kernel, "forward", batch, heads, heads, length, length, dim, causal=causal > 0),
    )
    return predicted, measured


def fit_published(
    family: str, kernel: str, rows: Array, half_units: float, half_dim: float, half_keys: float, source: str
) -> AttentionFit:
    """All constants from published points of one kernel, forward and backward, but `half_units`.

    Fewer than two head dimensions with `ENOUGH` points leave `half_dim` as given, no causal point `half_keys`, no
    backward point the ratio 1.
    """
    backward = bool((rows[:, 5] > 0).any())
    counts = np.unique(rows[:, 3], return_counts=True)[1]
    widths = bool((counts >= ENOUGH).sum() > 1)
    causal = bool((rows[:, 4] > 0).any())

    def make(p: Array) -> AttentionFit:
        keys = float(p[2]) if causal else half_keys
        dim = float(p[3]) if widths else half_dim
        relative = float(p[4]) if backward else 1.0
        return AttentionFit(
            PUBLISHED_LAUNCH, float(p[0]), float(p[1]), keys, half_units, dim, relative, EMPTY, Validity()
        )

    def bind(data: Array) -> Callable[[Array], Array]:
        def ratio(p: Array) -> Array:
            parts = device(family, attention={kernel: make(p)}, default_attention=kernel)
            predicted, measured = published_seconds(parts, kernel, data)
            return predicted / measured

        return ratio

    low, high = [0.05, 0.2, SMALL, SMALL, 0.3], [1.0, 1.0, LARGE, 2e3, 2.0]
    one = np.ones(len(rows))
    found = solve(bind(rows), one, low, high)
    inside = errors(bind(rows)(found), one)
    second = halves(rows[:, [1]])
    other = np.empty(len(rows))
    for test in (second, ~second):
        other[test] = bind(rows[test])(solve(bind(rows[~test]), one[~test], low, high))
    outside = errors(other, one)
    fit = make(found)
    figures = np.round([fit.efficiency, fit.memory_efficiency, fit.half_keys, fit.half_dim, fit.backward_efficiency], 3)
    report(f"{kernel} published (n {len(rows)})", figures, inside, outside)
    residual = bind(rows)(found) - 1.0
    for label, chosen in (
        ("causal", rows[:, 4] > 0), ("full", rows[:, 4] == 0), ("backward", rows[:, 5] > 0),
        ("d 64", rows[:, 3] == 64), ("d 256", rows[:, 3] == 256), ("length >= 2048", rows[:, 1] >= 2048),
    ):  # fmt: skip
        if chosen.any():
            mean, median = 100 * np.abs(residual[chosen]).mean(), 100 * np.median(residual[chosen])
            print(f"    {label}: MAPE {mean:.1f}, bias {median:+.1f}")
    ranges = {
        "q_length": (float(rows[:, 1].min()), float(rows[:, 1].max())),
        "head_dim": (float(rows[:, 3].min()), float(rows[:, 3].max())),
    }
    return replace(fit, provenance=provenance(source, len(rows), inside, outside), validity=Validity(ranges))


def fit_decode(family: str, rows: Array, source: str) -> DecodeFit:
    def bind(data: Array) -> Callable[[Array], Array]:
        batch, context, _, kv, dim = (data[:, i] for i in range(5))

        def seconds(p: Array) -> Array:
            fit = DecodeFit(float(p[0]), float(p[1]), float(p[2]), EMPTY, Validity())
            return decode_attention_seconds(device(family, decode=fit), batch, kv, context, 4.0 * dim)

        return seconds

    parameters, inside, outside = fit_table(bind, rows, rows[:, :3], [1e-6, 0.05, SMALL], [2e-4, 1.0, LARGE])
    report(f"decode attention (n {len(rows)})", np.round(parameters * [1e6, 1, 1], 3), inside, outside)
    ranges = {"batch": (1.0, float(rows[:, 0].max())), "context": (rows[:, 1].min(), rows[:, 1].max())}
    validity = Validity({k: (float(a), float(b)) for k, (a, b) in ranges.items()})
    where = provenance(source, len(rows), inside, outside)
    return DecodeFit(float(parameters[0]), float(parameters[1]), float(parameters[2]), where, validity)


def fit_grouped(family: str, points: str, base: GemmFit, source: str) -> GroupedGemmFit:
    """Efficiency and half rows of grouped products; launch, memory and n, k halves stay those of the single product."""
    rows = np.array(
        [
            [hidden, width, experts, tokens * per_token, us * 1e-6]
            for hidden, width, experts, per_token, times in published.GROUPED[points]
            for tokens, us in times.items()
        ]
    )

    def make(p: Array) -> GroupedGemmFit:
        half = (float(p[1]), base.half_n, base.half_k)
        return GroupedGemmFit(base.launch_s, float(p[0]), float(p[2]), *half, EMPTY, Validity())

    def bind(data: Array) -> Callable[[Array], Array]:
        hidden, width, experts, routed = (data[:, i] for i in range(4))

        def seconds(p: Array) -> Array:
            parts = device(family, grouped_gemm={"bf16": make(p)})
            up = grouped_gemm_seconds(parts, "bf16", experts, routed, 2.0 * width, hidden)
            return up + grouped_gemm_seconds(parts, "bf16", experts, routed, hidden, width)

        return seconds

    parameters, inside, outside = fit_table(bind, rows, rows[:, 3:4], [0.05, SMALL, 0.3], [1.0, 2e3, 1.0])
    report(f"grouped {points} (n {len(rows)})", np.round(parameters, 3), inside, outside)
    where = provenance(source, len(rows), inside, outside)
    per_expert = rows[:, 3] / rows[:, 2]
    validity = Validity({"rows": (float(per_expert.min()), float(per_expert.max()))})
    return replace(make(parameters), provenance=where, validity=validity)

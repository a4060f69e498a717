"""How well the communication table predicts measured collectives, and the fit of its library constants.

    python benchmarks/collectives_accuracy.py CSV [--multi-node YAML] [--fit]

CSV columns: system, library, op, ranks, bytes, bytes_meaning, latency_us. Every second message size of a curve was
used to fit the constants in nccl_constants and hccl_constants; errors of both halves are printed.
Multi-node: only the efficiency of the network level is fitted per curve on one half, but the constants marked [M] in
nccl_constants were read off the 512-device curves, so those are no held-out result. `--multi-node` takes
a YAML file with a list `multi_node_measured` of {id, devices, devices_per_node, op, algorithm, columns, points}.
`--fit` refits the constants on the fitting half and prints them.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cann_plan.network import CommunicationOptions, CommunicationTable, Network, hccl_constants, nccl_constants

US = 1e-6


def nvlink(bandwidth: float, efficiency: float, in_network: bool = True) -> dict[str, Any]:
    return {
        "name": "NVSwitch", "kind": "switch", "size": 8, "bandwidth": bandwidth, "latency": 0.6 * US,
        "efficiency": efficiency, "in_network_reduction": in_network,
    }  # fmt: skip


def adapters(nodes: int, bandwidth: float = 50e9, efficiency: float = 0.85, sharp: bool = False) -> dict[str, Any]:
    return {
        "name": "network", "kind": "switch", "size": nodes, "bandwidth": bandwidth, "latency": 2.7 * US,
        "efficiency": efficiency, "in_network_reduction": sharp,
    }  # fmt: skip


# Links as in the server and cluster presets.
DIE_PAIR = {"kind": "pair", "size": 2, "bandwidth": 224e9, "latency": 0.2 * US, "efficiency": 0.85}
UB_NODE = {"kind": "switch", "size": 8, "bandwidth": 196e9, "latency": 0.5 * US, "efficiency": 0.96}
UB_POD = {"kind": "switch", "size": 48, "bandwidth": 196e9, "latency": 1.5 * US, "efficiency": 0.9}
HCCS_MESH = {"kind": "full-mesh", "size": 8, "bandwidth": 28e9, "latency": 0.5 * US, "efficiency": 0.654}
PCIE = [
    {"kind": "pair", "size": 2, "bandwidth": 31.5e9, "latency": 1.0 * US, "efficiency": 0.635},
    {"kind": "switch", "size": 2, "bandwidth": 31.5e9, "latency": 1.0 * US, "efficiency": 0.162},
    {"kind": "switch", "size": 2, "bandwidth": 31.5e9, "latency": 1.0 * US, "efficiency": 0.048},
]
NETWORKS = {
    "a100_sxm": Network.from_levels([nvlink(300e9, 0.71, False)], "nccl", "ampere"),
    "h100_sxm": Network.from_levels([nvlink(450e9, 0.745)], "nccl", "hopper"),
    "h200_sxm": Network.from_levels([nvlink(450e9, 0.749)], "nccl", "hopper"),
    "b200_sxm": Network.from_levels([nvlink(900e9, 0.683)], "nccl", "blackwell"),
    "l40s": Network.from_levels(PCIE, "nccl", "ampere", node_levels=3),
    "ascend-910b-a2": Network.from_levels([HCCS_MESH], "hccl", "a2"),
    "atlas-800-a3-die": Network.from_levels([DIE_PAIR, UB_NODE, UB_POD], "hccl", "a3", node_levels=2),
}
NETWORKS["atlas-800-a3-unseen"] = NETWORKS["atlas-800-a3-die"]
OPERATIONS = {"alltoall": "all_to_all"}


@dataclass(frozen=True)
class Curve:
    system: str
    operation: str
    ranks: int
    nbytes: np.ndarray
    seconds: np.ndarray

    def half(self, test: bool) -> Curve:
        keep = (np.arange(len(self.nbytes)) % 2 == 1) == test
        return replace(self, nbytes=self.nbytes[keep], seconds=self.seconds[keep])


def read_curves(path: Path) -> list[Curve]:
    """Curves by system, operation and ranks, ascending; per-rank sizes become totals of the byte convention.

    A file with the columns collective and bench_us holds measurements on Atlas A3 dies that no fit has seen.
    """
    points: dict[tuple[str, str, int], list[tuple[float, float]]] = defaultdict(list)
    with path.open() as file:
        for line in csv.DictReader(file):
            ranks, size = int(line["ranks"]), float(line["bytes"])
            unseen = "bench_us" in line
            operation = line["collective"] if unseen else OPERATIONS.get(line["op"], line["op"])
            system = "atlas-800-a3-unseen" if unseen else line["system"]
            per_rank = unseen or "per rank" in line["bytes_meaning"]
            if per_rank and operation in ("all_gather", "reduce_scatter"):
                size *= ranks
            seconds = float(line["bench_us"] if unseen else line["latency_us"]) * US
            points[system, operation, ranks].append((size, seconds))
    curves = []
    for (system, operation, ranks), pairs in points.items():
        array = np.array(sorted(pairs))
        curves.append(Curve(system, operation, ranks, array[:, 0], array[:, 1]))
    return curves


def predict(curve: Curve, network: Network | None = None) -> np.ndarray:
    table = CommunicationTable(network or NETWORKS[curve.system])
    return table.seconds(curve.operation, curve.nbytes, curve.ranks)


def report(curves: Iterable[Curve]) -> None:
    by_system: dict[str, list[Curve]] = defaultdict(list)
    for curve in curves:
        by_system[curve.system].append(curve)
    print("mean |error| from 1 MiB, %: fitted half / other half; then other half by size decade")
    for system, members in by_system.items():
        cells, decades = [], defaultdict(list)
        totals: dict[bool, list[float]] = {False: [], True: []}
        for curve in members:
            values: list[float] = []
            for test in (False, True):
                part = curve.half(test)
                error = np.abs(predict(part) / part.seconds - 1.0) * 100.0
                large = part.nbytes >= 2**20
                totals[test].extend(error[large])
                values.append(error[large].mean() if large.any() else np.nan)
                if test:
                    for size, value in zip(part.nbytes, error, strict=True):
                        decades[int(np.floor(np.log10(size)))].append(value)
            cells.append(f"{curve.operation} x{curve.ranks} {values[0]:.0f}/{values[1]:.0f}")
        both = [np.mean(totals[test]) if totals[test] else np.nan for test in (False, True)]
        print(f"{system}: {both[0]:.1f} / {both[1]:.1f}")
        print("   " + ", ".join(cells))
        print("   decades " + ", ".join(f"1e{d}: {np.mean(v):.0f}" for d, v in sorted(decades.items())))


def report_multi_node(path: Path) -> None:
    """Errors on multi-node tables; efficiency of the network level fitted on every second size of each system."""
    import yaml

    document = yaml.load(path.read_text(), yaml.CSafeLoader)
    algorithms = {"ring": "ring", "nvls": "in_network", "collnet": "in_network"}
    print("mean |error| from 1 MB, %: fitted half / other half, then each size signed")
    for row in document["multi_node_measured"]:
        if "points" not in row or "devices" not in row:
            continue
        sizes, times = _points(row, row["devices"])
        options = CommunicationOptions(algorithms.get(row.get("algorithm"), "library"))
        even = np.arange(len(sizes)) % 2 == 0
        choices = [0.85] if row["devices"] <= 8 else [0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.96]
        errors = []
        for efficiency in choices:
            table = CommunicationTable(_multi_node_network(row, efficiency), options)
            errors.append(table.seconds(row["op"], sizes, row["devices"]) / times - 1.0)
        best = min(range(len(choices)), key=lambda i: float(np.abs(np.log1p(errors[i][even])).mean()))
        signed, large = errors[best] * 100.0, sizes >= 1e6
        halves = [np.abs(signed[large & keep]).mean() for keep in (even, ~even)]
        each = " ".join(f"{e:+.0f}" for e in signed[large])
        print(f"{row['id']} (efficiency {choices[best]}): {halves[0]:.0f} / {halves[1]:.0f}   {each}")


def _multi_node_network(row: dict[str, Any], efficiency: float) -> Network:
    hardware = row["hardware"].split("-")[0]
    node = {"b200": nvlink(900e9, 0.683), "h200": nvlink(450e9, 0.749), "a100": nvlink(300e9, 0.71, False)}[hardware]
    generation = {"b200": "blackwell", "h200": "hopper", "a100": "ampere"}[hardware]
    nodes = row["devices"] // row.get("devices_per_node", 8)
    sharp = row.get("algorithm") == "collnet"
    levels = [node, adapters(nodes, efficiency=efficiency, sharp=sharp)] if nodes > 1 else [node]
    return Network.from_levels(levels, "nccl", generation)


def _points(row: dict[str, Any], devices: int) -> tuple[np.ndarray, np.ndarray]:
    columns = row["columns"]
    sizes, times = [], []
    for point in row["points"]:
        values = dict(zip(columns, point, strict=True))
        size = values["MiB"] * 2**20 if "MiB" in values else _bytes(values["size"])
        if values.get("us") is not None:
            time = values["us"] * US
        else:
            turns = 2.0 if row["op"] == "all_reduce" else 1.0
            time = turns * (devices - 1) / devices * size / (values["busbw_gbs"] * 1e9)
        sizes.append(size)
        times.append(time)
    return np.array(sizes), np.array(times)


def _bytes(text: str) -> float:
    return float(text[:-2]) * {"MB": 2.0**20, "GB": 2.0**30}[text[-2:]]


Parameters = dict[str, float]


def fit_constants(
    start: Parameters, curves: list[Curve], build: Callable[[Parameters], Any], install: Callable[[Any], None]
) -> Parameters:
    """Least squares on the log error of the fitting half, soft-L1, weak pull towards `start`, several starts."""
    from scipy.optimize import least_squares

    names, origin = list(start), np.log(np.array(list(start.values())))
    halves = [curve.half(False) for curve in curves]

    def residual(values: np.ndarray) -> np.ndarray:
        install(build(dict(zip(names, np.exp(values), strict=True))))
        parts = [np.log(predict(curve) / curve.seconds) for curve in halves]
        return np.concatenate([*parts, 0.05 * (values - origin)])

    best = None
    for seed in range(4):
        jitter = 0.0 if seed == 0 else np.random.default_rng(seed).normal(0.0, 0.4, len(origin))
        found = least_squares(residual, origin + jitter, loss="soft_l1", f_scale=0.1)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return dict(zip(names, np.exp(best.x).tolist(), strict=True))


def fit_nccl(curves: list[Curve], generation: str) -> None:
    current = nccl_constants.CONSTANTS[generation]
    start = {"base0": 6.6, "base1": 14.0, "base2": 8.4, "step0": 0.2, "step1": 1.3, "step2": 2.8, "gather0": 0.45,
             "gather1": 0.92, "gather2": 1.05, "reduce": 1.2, "own": 0.3, "nvls": 40.0,
             "nvls_fraction": 1.3}  # fmt: skip

    def build(p: Parameters) -> nccl_constants.NcclConstants:
        return replace(
            current,
            base=(p["base0"] * US, p["base1"] * US, p["base2"] * US),
            step=(p["step0"] * US, p["step1"] * US, p["step2"] * US),
            gather=(p["gather0"], p["gather1"], p["gather2"]),
            reduce_simple=p["reduce"],
            own=p["own"],
            nvls=(p["nvls"] * US, p["nvls_fraction"]) if current.nvls else None,
        )

    def install(constants: Any) -> None:
        nccl_constants.CONSTANTS[generation] = constants

    rings = [curve for curve in curves if curve.operation != "all_to_all"]
    print(generation, {k: round(v, 3) for k, v in fit_constants(start, rings, build, install).items()})
    start = {"base0": 8.0, "peer0": 0.2, "fraction0": 0.2, "base1": 14.0, "peer1": 0.1, "fraction1": 0.9, "own": 0.3}

    def build_exchange(p: Parameters) -> nccl_constants.NcclConstants:
        pairs = tuple((p[f"base{i}"] * US, p[f"peer{i}"] * US, p[f"fraction{i}"]) for i in (0, 1))
        return replace(current, exchange=pairs, exchange_own=p["own"])

    exchanges = [curve for curve in curves if curve.operation == "all_to_all"]
    print("  exchange", {k: round(v, 3) for k, v in fit_constants(start, exchanges, build_exchange, install).items()})
    install(current)


def fit_a3(curves: list[Curve]) -> None:
    current = hccl_constants.A3
    operations = ("all_reduce", "all_gather", "reduce_scatter")
    start = {
        "launch": 60.0,
        "ring": 2.0,
        "crossing_dma": 30.0,
        "pair": 0.6,
        "base": 3.0,
        "rank": 0.5,
        "crossing": 5.0,
        "own": 1.5,
    }
    start |= {f"large_{op}": 1.0 for op in operations} | {f"small_{op}": 0.7 for op in operations}

    def build(p: Parameters) -> hccl_constants.HcclConstants:
        small = replace(
            current.small, base=p["base"] * US, per_rank=p["rank"] * US, crossing=p["crossing"] * US, own=p["own"],
            fraction={op: p[f"small_{op}"] for op in operations},
        )  # fmt: skip
        return replace(
            current, launch=p["launch"] * US, ring_step=p["ring"] * US, crossing=p["crossing_dma"] * US,
            pair_fraction=p["pair"], fraction={op: p[f"large_{op}"] for op in operations}, small=small,
        )  # fmt: skip

    def install(constants: Any) -> None:
        hccl_constants.CONSTANTS["a3"] = constants

    rings = [curve for curve in curves if curve.operation in operations]
    print("a3", {k: round(v, 3) for k, v in fit_constants(start, rings, build, install).items()})
    start = {"base": 5.0, "doubling": 3.0, "fraction": 0.75, "pair": 0.4}

    def build_exchange(p: Parameters) -> hccl_constants.HcclConstants:
        return replace(current, exchange=(p["base"] * US, p["doubling"] * US, p["fraction"], p["pair"]))

    exchanges = [curve for curve in curves if curve.operation == "all_to_all"]
    print("  exchange", {k: round(v, 3) for k, v in fit_constants(start, exchanges, build_exchange, install).items()})
    install(current)


def fit_a2(curves: list[Curve]) -> None:
    current = hccl_constants.A2

    def build(p: Parameters) -> hccl_constants.HcclConstants:
        return replace(current, launch=p["launch"] * US, per_peer=p["peer"] * US)

    def install(constants: Any) -> None:
        hccl_constants.CONSTANTS["a2"] = constants

    print("a2", fit_constants({"launch": 40.0, "peer": 8.0}, curves, build, install))
    install(current)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path)
    parser.add_argument("--multi-node", type=Path)
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    curves = read_curves(arguments.csv)
    if arguments.fit:
        for system, generation in (("a100_sxm", "ampere"), ("h100_sxm", "hopper"), ("b200_sxm", "blackwell")):
            fit_nccl([curve for curve in curves if curve.system == system], generation)
        fit_a3([curve for curve in curves if curve.system == "atlas-800-a3-die"])
        fit_a2([curve for curve in curves if curve.system == "ascend-910b-a2"])
        return
    report(curves)
    if arguments.multi_node:
        report_multi_node(arguments.multi_node)


if __name__ == "__main__":
    main()

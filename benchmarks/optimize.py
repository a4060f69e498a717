"""Searches of whole spaces: strategies, seconds, memory, evaluations per second; the winner estimated again.

    python benchmarks/optimize.py [--workers 1] [--quick] [--large]

Each search runs in a process of its own, so that its peak memory is its own (workers add theirs). `--large` adds a
space of more than 100 million strategies.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from cann_plan.planner.estimate import estimate
from cann_plan.planner.optimize import Wanted, optimize
from cann_plan.spec.resolve import load_plan


def job(model: str, cluster: str, nodes: int, sequence: int, batch: int, **search: Any) -> dict[str, Any]:
    training = {"tokens": 1e12, "sequence_length": sequence, "global_batch_size": batch}
    return {"model": model, "cluster": {"extends": cluster, "nodes": nodes}, "training": training, "search": search}


JOBS = {
    "dense 530B, 2,240 A100": job("turing-530b", "dgx-a100", 280, 2048, 1920),
    "MoE 671B, 2,048 H100": job("deepseek-v3", "dgx-h100", 256, 4096, 8192),
    "MoE 671B, 2,048 910B": job("deepseek-v3", "atlas-900-a2", 256, 4096, 8192),
    "MoE 671B at 32k, 2,048 H100": job("deepseek-v3", "dgx-h100", 256, 32768, 1024),
    "dense 405B at 128k, 8,192 H100": job("llama-3.1-405b", "dgx-h100", 1024, 131072, 512),
}
LARGE = {
    "MoE 671B at 128k, batch sizes 1-48": job(
        "deepseek-v3", "dgx-h100", 256, 131072, 4096, micro_batch_size=list(range(1, 49))
    ),
}


def run(name: str, workers: int | None) -> None:
    """One search, as a line of JSON."""
    loaded = load_plan((JOBS | LARGE)[name])
    document = optimize(loaded, Wanted(top=1, workers=workers))
    same = None
    if document["best"]:
        again = estimate(loaded.override(document["best"][0]["overrides"]))
        same = all(again[key] == document["best"][0]["estimate"][key] for key in ("time", "memory"))  # type: ignore[literal-required]
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    keys = ("evaluated", "feasible", "seconds", "strategies_per_second")
    found = document["best"][0]["estimate"]["time"] if document["best"] else None
    print(
        json.dumps(
            {key: document[key] for key in keys}  # type: ignore[literal-required]
            | {"same": same, "peak_mb": peak / 1024, "step_s": found and found["step_s"], "mfu": found and found["mfu"]}
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help="the first three only")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run(options.one, options.workers)
        return
    names = list(JOBS)[: 3 if options.quick else None] + (list(LARGE) if options.large else [])
    print(f"{'':36}{'evaluated':>12}{'feasible':>11}{'seconds':>9}{'per second':>12}{'peak MB':>9}  winner")
    for name in names:
        command = [sys.executable, __file__, "--one", name]
        command += ["--workers", str(options.workers)] if options.workers else []
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        winner = f"{row['step_s']:.2f} s, MFU {row['mfu']:.1%}" if row["step_s"] else "nothing fits"
        again = {None: "", True: ", same when estimated", False: ", NOT the same when estimated"}[row["same"]]
        print(
            f"{name:36}{row['evaluated']:12,}{row['feasible']:11,}{row['seconds']:9.1f}"
            f"{row['strategies_per_second']:12,.0f}{row['peak_mb']:9.0f}  {winner}{again}"
        )


if __name__ == "__main__":
    main()

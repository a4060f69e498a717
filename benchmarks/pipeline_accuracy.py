"""Error of the pipeline model against the exact execution, and its speed.

    python benchmarks/pipeline_accuracy.py [--cases 2000] [--largest 64] [--schedules 1f1b,interleaved] [--speed]

Cases are those of tests/cost/pipeline_cases.py: uneven stages, 2 to 64 of them, 1 to 8p micro-batches, sends of 0 to
10% of a slot. Errors are predicted / simulated - 1.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from cann_plan.cost.pipeline import step_seconds
from cann_plan.cost.pipeline_orders import Schedule
from cann_plan.cost.pipeline_simulator import simulate
from tests.cost.pipeline_cases import Case, random_cases


def error(case: Case, overlapped: bool) -> float:
    weight = None if case.backward_weight is None else case.backward_weight[None]
    predicted = step_seconds(
        case.schedule,
        case.forward[None],
        case.backward[None],
        np.array([case.send]),
        np.array([case.micro_batches]),
        case.virtual,
        weight,
        overlapped,
    )[0]
    exact = simulate(
        case.schedule,
        case.forward,
        case.backward,
        case.send,
        case.micro_batches,
        case.virtual,
        case.backward_weight,
        overlapped,
    )
    return float(predicted / exact.makespan - 1.0)


def accuracy(schedules: list[Schedule], cases: int, largest: int, seed: int) -> None:
    print(f"{'schedule':12} {'sends':10} {'cases':>5} {'lowest':>8} {'highest':>8} {'mean |e|':>9}  worst case")
    for schedule in schedules:
        for overlapped in (False, True):
            chosen = list(random_cases(schedule, cases, seed, largest))
            values = np.array([error(case, overlapped) for case in chosen])
            worst = chosen[int(np.argmax(np.abs(values)))]
            sends = "overlapped" if overlapped else "blocking"
            print(
                f"{schedule:12} {sends:10} {cases:5d} {values.min():8.2%} {values.max():8.2%} "
                f"{np.abs(values).mean():9.4%}  p={worst.stages} v={worst.virtual} m={worst.micro_batches}",
                flush=True,
            )


def speed(schedules: list[Schedule], rows: int) -> None:
    rng = np.random.default_rng(0)
    print(f"{'schedule':12} {'p':>3} {'v':>2} {'even, rows/s':>13} {'uneven, rows/s':>15}   ({rows} rows)")
    for schedule in schedules:
        virtual = 2 if schedule in (Schedule.INTERLEAVED, Schedule.ZB_V, Schedule.DUALPIPE_V) else 1
        for p in (8, 16, 64):
            rates = []
            for uneven in (False, True):
                forward = rng.uniform(1, 3, (rows, 1)) * np.ones((rows, p * virtual))
                forward[:, -1] *= 1.3
                forward += 0.5 * uneven * rng.integers(0, 2, forward.shape)
                micro_batches = p * rng.choice([2, 4, 8, 16], rows)
                send = 0.03 * forward[:, 1]
                step_seconds(schedule, forward[:64], 2 * forward[:64], send[:64], micro_batches[:64], virtual)
                start = time.perf_counter()
                step_seconds(schedule, forward, 2 * forward, send, micro_batches, virtual)
                rates.append(rows / (time.perf_counter() - start))
            print(f"{schedule:12} {p:3d} {virtual:2d} {rates[0]:13,.0f} {rates[1]:15,.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--largest", type=int, default=64, help="most stages")
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--schedules", default=",".join(Schedule))
    parser.add_argument("--speed", action="store_true", help="measure speed instead of error")
    parser.add_argument("--rows", type=int, default=16384)
    arguments = parser.parse_args()
    schedules = [Schedule(name) for name in arguments.schedules.split(",")]
    if arguments.speed:
        speed(schedules, arguments.rows)
    else:
        accuracy(schedules, arguments.cases, arguments.largest, arguments.seed)


if __name__ == "__main__":
    main()

"""`size`: the fewest devices that fit and keep every limit, each number with its best layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from cann_plan.cost.strategies import Strategies
from cann_plan.planner.candidate import candidate
from cann_plan.planner.check import check_estimate
from cann_plan.planner.choose import best_layout, judged, most_nodes, node_counts
from cann_plan.planner.constraints import broken_constraint
from cann_plan.planner.estimate import estimate_document
from cann_plan.planner.job import Job
from cann_plan.planner.prepare import prepare
from cann_plan.planner.search import Progress
from cann_plan.records import dataclass
from cann_plan.spec.errors import SpecError
from cann_plan.spec.resolve import LoadedPlan

if TYPE_CHECKING:
    from cann_plan.planner.contract import SizeDocument

BEYOND = 4
"""Sizes shown after the first that keeps all limits, so that the returns of more devices are visible."""
BETWEEN = 15
"""Sizes tried between the largest that fails and the first that does not."""
WORTH = 0.9
"""Returns diminish where a device does less than this share of its work at the best size."""


@dataclass(frozen=True, slots=True)
class Size:
    """One number of nodes: its job with the best layout, whether it fits, and the limits it breaks."""

    job: Job
    strategies: Strategies
    fits: bool
    broken: tuple[str, ...]
    document: Mapping[str, Any]

    @property
    def good(self) -> bool:
        """Whether it fits and keeps all limits."""
        return self.fits and not self.broken

    def row(self) -> dict[str, Any]:
        """The size as a row of the table."""
        return {
            "devices": self.job.cluster.devices,
            "days": self.document["time"]["goodput_days"],
            "cost": self.document["cost"]["amount"],
            "fits": self.fits,
            "mfu": self.document["time"]["mfu"],
            "device_hours": self.document["cost"]["device_hours"],
            "tokens_per_s_per_device": self.document["time"]["tokens_per_s_per_device"],
            "broken": list(self.broken),
        }


def size(loaded: LoadedPlan, on_progress: Progress | None = None, clusters: Sequence[str] = ()) -> SizeDocument:
    """The fewest devices of the plan's cluster, or of the cheapest of `clusters`, that keep every limit.

    Raises:
        SpecError: located problems of the plan.
    """
    limits = loaded.spec.limits.model_dump(mode="json", exclude_none=True)
    if not clusters:
        sizes, answer = _sizes(loaded, limits, on_progress)
        return _document(sizes, answer, limits)
    found = []
    for place, name in enumerate(clusters):
        report = _stretch(on_progress, place, len(clusters))
        sizes, answer = _sizes(loaded.override({"cluster": name}), limits, report)
        found.append((name, sizes, answer))
    answers = [(_price(answer), place) for place, (_, _, answer) in enumerate(found) if answer is not None]
    name, sizes, answer = found[min(answers)[1] if answers else 0]
    document: Any = _document(sizes, answer, limits)
    document["cluster"] = name if answer is not None else None
    document["clusters"] = [_cluster_row(*entry) for entry in found]
    return cast("SizeDocument", document)


def _sizes(
    loaded: LoadedPlan, limits: Mapping[str, float], on_progress: Progress | None
) -> tuple[list[Size], Size | None]:
    """Sizes tried, ascending, and the fewest devices that keep all limits.

    Powers of two and one and a half times them first, then what lies between the last that fails and the first that
    does not.
    """
    counts = node_counts(most_nodes(loaded))
    tried: dict[int, Size] = {}
    first: int | None = None
    failed = 0
    for place, nodes in enumerate(counts):
        if on_progress is not None:
            on_progress(place, len(counts))
        found = _try(loaded, nodes, limits)
        if found is None:
            continue
        tried[nodes] = found
        if found.good and first is None:
            first = nodes
        elif first is None:
            failed = nodes
        if first is not None and sum(count >= first for count in tried) > BEYOND:
            break
    if first is not None and first - failed > 1:
        step = max(1, -(-(first - failed) // (BETWEEN + 1)))
        for nodes in range(failed + step, first, step):
            found = _try(loaded, nodes, limits)
            if found is not None and found.good:
                tried[nodes], first = found, nodes
                break
    if on_progress is not None:
        on_progress(len(counts), len(counts))
    return [tried[nodes] for nodes in sorted(tried)], tried[first] if first is not None else None


def _try(loaded: LoadedPlan, nodes: int, limits: Mapping[str, float]) -> Size | None:
    """The best layout on `nodes` nodes; None where none exists."""
    cluster = loaded.hardware.with_nodes(nodes)
    parallel = loaded.spec.parallel
    ranks = (parallel.tensor or 1) * (parallel.pipeline or 1) * (parallel.context or 1)
    if cluster.devices % ranks or (parallel.data is not None and ranks * parallel.data != cluster.devices):
        return None
    try:
        job = prepare(loaded, cluster)
    except SpecError:
        if nodes == 1 or parallel.auto:
            raise
        return None
    if job.strategies is not None:
        if int(broken_constraint(job.problem, job.strategies)[0]):
            return None
        found = judged(job, job.strategies)
    else:
        job, found = best_layout(job, loaded)
    strategies = found.best[0] if found.best else found.closest
    if strategies is None:
        return None
    document = cast("Mapping[str, Any]", estimate_document(job, strategies, []))
    broken = tuple(result["name"] for result in check_estimate(document, limits) if not result["pass"])
    return Size(job, strategies, bool(found.best), broken, document)


def _document(sizes: list[Size], answer: Size | None, limits: Mapping[str, float]) -> SizeDocument:
    table = [size.row() for size in sizes]
    fitting = [row for row in table if row["fits"]]
    most = max((row["tokens_per_s_per_device"] for row in fitting), default=0.0)
    for row in table:
        row["efficiency"] = row["tokens_per_s_per_device"] / most if row["fits"] and most else None
    worth = [row["devices"] for row in fitting if row["efficiency"] >= WORTH]
    fading = [row["devices"] for row in fitting if worth and row["devices"] > worth[-1]]
    good = [size for size in sizes if size.good]
    cheapest = min(good, key=_price, default=None)
    document = {
        "schema": "cann-plan/size/1",
        "devices": answer.job.cluster.devices if answer else None,
        "nodes": answer.job.cluster.nodes if answer else None,
        "best": candidate(answer.job, answer.strategies) if answer else None,
        "table": table,
        "limit_that_binds": _binding(sizes, answer),
        "limits": dict(limits),
        "diminishing_from": min(fading, default=None),
        "cheapest": cheapest.job.cluster.devices if cheapest else None,
        "currency": next((size.document["cost"]["currency"] for size in sizes), None),
    }
    return cast("SizeDocument", document)


def _binding(sizes: list[Size], answer: Size | None) -> str | None:
    """The limit that the largest size below the answer breaks; without an answer, the one the largest size breaks."""
    if answer is None:
        return sizes[-1].broken[0] if sizes and sizes[-1].broken else None
    below = [size for size in sizes if size.job.cluster.devices < answer.job.cluster.devices and size.broken]
    return below[-1].broken[0] if below else None


def _price(answer: Size) -> tuple[bool, float, int]:
    """What sizes and clusters are compared by: money where it is known, else device-hours; then devices."""
    cost = answer.document["cost"]
    amount, hours = cost["amount"], cost["device_hours"]
    return amount is None, float("inf") if hours is None else amount or hours, answer.job.cluster.devices


def _cluster_row(name: str, sizes: list[Size], answer: Size | None) -> dict[str, Any]:
    row = answer.row() if answer is not None else dict.fromkeys(("devices", "days", "cost", "mfu", "device_hours"))
    keys = ("devices", "days", "cost", "mfu", "device_hours")
    reason = None
    if answer is None:
        reason = _binding(sizes, None) or "no layout exists"
    elif row["cost"] is None:
        reason = answer.document["cost"]["reason"]
    nodes = answer.job.cluster.nodes if answer is not None else None
    currency = answer.document["cost"]["currency"] if answer is not None else None
    return {"cluster": name, "nodes": nodes, **{key: row[key] for key in keys}, "currency": currency, "reason": reason}


def _stretch(report: Progress | None, place: int, count: int) -> Callable[[int, int], None] | None:
    """Progress of one cluster of several."""
    if report is None:
        return None
    return lambda done, total: report(place * total + done, count * total)

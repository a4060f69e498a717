"""`cann-plan validate`: predictions against measured training runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cann_plan.importers.rows import MeasuredRow, RowSkippedError, read_rows
from cann_plan.importers.rows_plan import ImportedRow, import_row
from cann_plan.planner.contract import SkippedRow, ValidateDocument, ValidatedRow
from cann_plan.planner.validate_memory import is_memory_file, validated_rows
from cann_plan.planner.validate_rows import Prediction, predict, prepare_row
from cann_plan.planner.validate_statistics import NO_ROWS, by_group, statistics
from cann_plan.spec.errors import Problem, SpecError
from cann_plan.spec.hardware_presets import UnknownPresetError, canonical_name
from cann_plan.spec.profile import ProfileSpec

Progress = Callable[[int, int | None], None]


def validate(
    rows: Iterable[str | Path | MeasuredRow],
    *,
    tier: str | None = None,
    device: str | None = None,
    stack: str | None = None,
    exclude: Mapping[str, str] | None = None,
    profiles: Mapping[str, ProfileSpec] | None = None,
    on_progress: Progress | None = None,
) -> ValidateDocument:
    """Predict step time and memory of measured runs and say how far off they are.

    `rows`: files ("-": standard input) or rows. `tier` ("A", "AB"), `device` and `stack` select rows; rows not
    selected appear nowhere. `exclude`: id -> why it is left out. `profiles` replace shipped ones by name.

    Raises:
        SpecError: a file cannot be read, or values of the wrong type, located.
    """
    sources = list(rows)
    baselines = [source for source in sources if not isinstance(source, MeasuredRow) and is_memory_file(source)]
    runs = [source for source in sources if source not in baselines]
    wanted = [row for row in load_rows(runs) if selected(row, tier, device, stack)]
    done: list[Prediction] = []
    skipped: list[SkippedRow] = []
    problems: list[Problem] = []
    for index, row in enumerate(wanted):
        try:
            if exclude is not None and row.id in exclude:
                raise RowSkippedError(f"excluded: {exclude[row.id]}")
            done.append(predict(prepare_row(import_row(row), profiles)))
        except RowSkippedError as reason:
            skipped.append({"id": row.id, "why": str(reason)})
        except SpecError as error:
            problems += error.problems
        if on_progress is not None:
            on_progress(index + 1, len(wanted))
    if problems:
        raise SpecError(problems)
    return document(done, skipped, baselines)


def load_rows(sources: Iterable[str | Path | MeasuredRow]) -> list[MeasuredRow]:
    """Rows of files and rows given, in order. Raises SpecError for a file that cannot be read."""
    rows: list[MeasuredRow] = []
    for source in sources:
        rows += [source] if isinstance(source, MeasuredRow) else read_rows(source)
    return rows


def selected(row: MeasuredRow, tier: str | None, device: str | None, stack: str | None) -> bool:
    """Whether the row is of one of the tiers (letters), of the device and of the stack."""
    if tier is not None and (row.tier is None or row.tier.upper() not in tier.upper()):
        return False
    if device is not None and _device(str(row.data.get("device"))) != _device(device):
        return False
    return stack is None or str(row.data.get("stack")) == stack


def _device(name: str) -> str:
    try:
        return canonical_name("devices", name)
    except UnknownPresetError:
        return name


def read_exclusions(source: str | Path) -> dict[str, str]:
    """Ids that a file of odd rows marks `excluded_from_clean`, with the reason. Raises SpecError."""
    from cann_plan.spec.document import read

    listed = read(source).plain()
    if not isinstance(listed, list):
        return {}
    return {
        str(item["id"]): str(item.get("reason", "odd")).split(".")[0]
        for item in listed
        if isinstance(item, dict) and "id" in item and item.get("excluded_from_clean", True)
    }


def document(
    predictions: list[Prediction], skipped: list[SkippedRow], baselines: Sequence[str | Path] = ()
) -> ValidateDocument:
    """The JSON document of `cann-plan validate`; `baselines`: files of memory figures by rank."""
    rows = [_row(item) for item in predictions]
    errors = [
        (_groups(item.row), quantity, error)
        for item, row in zip(predictions, rows, strict=True)
        for quantity, error in row["error"].items()
        if error is not None
    ]
    for source in baselines:
        more, found, left = validated_rows(source)
        rows += more
        errors += found
        skipped = [*skipped, *left]
    overall = {
        name: statistics([error for _, quantity, error in errors if quantity == name])
        for name in ("step_time", "memory")
    }
    return {
        "schema": "cann-plan/validate/1",
        "rows": rows,
        "step_time": overall["step_time"],
        "memory": overall["memory"],
        "tpot": NO_ROWS.copy(),
        "ttft": NO_ROWS.copy(),
        "throughput": NO_ROWS.copy(),
        "by_group": by_group(errors, key=_order),
        "skipped": skipped,
    }


def _groups(row: ImportedRow) -> tuple[str, ...]:
    return (
        f"device={row.device}", f"stack={row.stack}", f"device={row.device}, stack={row.stack}", f"model={row.kind}",
    )  # fmt: skip


def _order(group: str) -> str:
    """Devices first, then stacks, their pairs, and classes of models."""
    kind = "2" if "," in group else {"device": "0", "stack": "1"}.get(group.split("=")[0], "3")
    return kind + group


def _row(item: Prediction) -> ValidatedRow:
    row, measured = item.row, item.row.measured
    tokens = item.job.global_batch_size * item.job.sequence_length
    predicted = item.memory_gib[measured.memory_kind]
    return {
        "id": row.row.id,
        "predicted": {
            "step_time": item.step_s,
            "memory": predicted,
            "tokens_per_s_per_device": tokens / item.step_s / item.job.cluster.devices,
            "breakdown_s": dict(item.breakdown_s),
            "memory_gib": dict(item.memory_gib),
            "fits": item.fits,
        },
        "measured": {
            "step_time": measured.step_s,
            "memory": measured.memory_gib,
            "memory_quantity": measured.memory_kind if measured.memory_gib is not None else None,
        },
        "error": {
            "step_time": None if measured.step_s is None else item.step_s / measured.step_s - 1.0,
            "memory": None if measured.memory_gib is None else predicted / measured.memory_gib - 1.0,
        },
        "assumptions": list(item.assumptions),
    }

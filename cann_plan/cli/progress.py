"""A progress bar on stderr, only in a terminal and only for work that lasts longer than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_DELAY_S = 1.0

Report = Callable[[int, int | None], None]


@contextmanager
def progress(description: str, *, quiet: bool = False, unit: str | None = None) -> Iterator[Report]:
    """Yields `report(done, total)`; `total` None means unknown. The bar is gone when the block ends.

    With a `unit` the bar says how many of them pass per second.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    started = time.monotonic()
    shown: list[tuple[Progress, TaskID]] = []

    def report(done: int, total: int | None) -> None:
        if not shown:
            if time.monotonic() - started < _DELAY_S:
                return
            from rich.console import Console
            from rich.progress import Progress, TextColumn

            columns = [*Progress.get_default_columns(), *([TextColumn("{task.fields[rate]}")] if unit else [])]
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            shown.append((bar, bar.add_task(description, total=total, rate="")))
        bar, task = shown[0]
        rate = f"{done / (time.monotonic() - started):,.0f} {unit}/s" if unit else ""
        bar.update(task, completed=done, total=total, rate=rate)

    try:
        yield report
    finally:
        for bar, _task in shown:
            bar.stop()

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
def progress(description: str, *, quiet: bool = False) -> Iterator[Report]:
    """Yields `report(done, total)`; `total` None means unknown. The bar is gone when the block ends."""
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
            from rich.progress import Progress

            bar = Progress(console=Console(stderr=True), transient=True)
            bar.start()
            shown.append((bar, bar.add_task(description, total=total)))
        bar, task = shown[0]
        bar.update(task, completed=done, total=total)

    try:
        yield report
    finally:
        for bar, _task in shown:
            bar.stop()

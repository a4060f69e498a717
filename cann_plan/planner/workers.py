"""The same function on many stretches, on several processes that share the parent's memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

R = TypeVar("R")
Span = tuple[int, int]

_task: Callable[[int, int], Any] | None = None


def cores() -> int:
    """Cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def spread(task: Callable[[int, int], R], spans: Sequence[Span], count: int) -> Iterator[tuple[Span, R]]:
    """`task` of every span, in any order, on `count` processes forked from this one; in turn where none can be.

    What the task reads is shared, not copied; results come back through a pipe.
    """
    if count < 2 or not hasattr(os, "fork") or sys.platform == "darwin":
        for span in spans:
            yield span, task(*span)
        return
    import gc
    from multiprocessing import get_context

    global _task
    _task = task
    gc.freeze()  # children would copy pages by touching the collector's marks
    pool = get_context("fork").Pool(count, initializer=_leave_interrupts)
    try:
        yield from pool.imap_unordered(_run, spans)
        pool.close()  # idle processes leave by themselves
    except BaseException:
        pool.terminate()
        raise
    finally:
        pool.join()
        _task = None
        gc.unfreeze()


def _leave_interrupts() -> None:
    """Ctrl-C is the parent's to handle."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(span: Span) -> tuple[Span, Any]:
    assert _task is not None  # set before the fork
    return span, _task(*span)

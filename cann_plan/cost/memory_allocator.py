"""The framework's caching allocator replayed on a list of allocations: what it reserves beyond what is live.

PyTorch's rules (c10/cuda/CUDACachingAllocator.cpp; torch_npu's follow them): sizes round up to 512 B; requests up to
1 MiB come from 2 MiB segments, up to 10 MiB from 20 MiB segments, larger ones from segments of their size rounded up to
2 MiB; a free block serves a request by best fit; small blocks and blocks that leave over 1 MiB are split; freed
neighbours merge; before asking for more than the capacity, unused segments are given back. With expandable segments
each pool is one segment that grows by pages of 2 MiB (20 MiB for large requests) and shrinks from nowhere.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

KIB, MIB = 2**10, 2**20
ROUND = 512
SMALL = 1 * MIB
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
LARGE_REQUEST = 10 * MIB
PAGE = 2 * MIB


@dataclass(frozen=True, slots=True)
class Event:
    """An allocation of `size` bytes under a name, or its release (size 0)."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Bytes at the allocator's peaks; `failed`: the first allocation beyond the capacity, None if all succeed."""

    peak_allocated: int
    peak_reserved: int
    reserved_at_peak: int  # reserved when allocated peaks
    segments: int
    given_back: int  # times unused segments were returned to make room
    failed: str | None

    @property
    def fragmentation(self) -> float:
        """Reserved over allocated at the peaks, less one."""
        return self.peak_reserved / self.peak_allocated - 1.0 if self.peak_allocated else 0.0


@dataclass(slots=True)
class _Block:
    segment: int
    offset: int
    size: int
    used: bool = False
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True)
class _Pool:
    free: list[tuple[int, int, int]] = field(default_factory=list)  # (size, segment, offset)
    blocks: dict[tuple[int, int], _Block] = field(default_factory=dict)

    def put(self, block: _Block) -> None:
        self.blocks[block.segment, block.offset] = block
        insort(self.free, (block.size, block.segment, block.offset))

    def take(self, block: _Block) -> None:
        del self.free[bisect_left(self.free, (block.size, block.segment, block.offset))]
        del self.blocks[block.segment, block.offset]

    def best(self, size: int) -> _Block | None:
        at = bisect_left(self.free, (size, 0, 0))
        if at == len(self.free):
            return None
        _, segment, offset = self.free[at]
        return self.blocks[segment, offset]


class CachingAllocator:
    """Replays allocations; `capacity` bytes may be reserved in all."""

    def __init__(self, capacity: float = float("inf"), *, expandable: bool = False) -> None:
        self.capacity = capacity
        self.expandable = expandable
        self.allocated = self.reserved = 0
        self.segments: dict[int, int] = {}
        self._pools = {True: _Pool(), False: _Pool()}
        self._live: dict[str, list[tuple[_Block, bool]]] = {}
        self._next = 0
        self._tails: dict[bool, _Block] = {}
        self._freed = 0

    def allocate(self, name: str, size: int) -> bool:
        """Whether the request was served."""
        size = max(-(-size // ROUND) * ROUND, ROUND)
        small = size <= SMALL
        pool = self._pools[small]
        block = pool.best(size)
        if block is None:
            block = self._grow(size, small)
            if block is None:
                return False
        pool.take(block)
        rest = block.size - size
        if rest >= (ROUND if small or self.expandable else SMALL):
            left = _Block(block.segment, block.offset + size, rest, False, block, block.after)
            if block.after is not None:
                block.after.before = left
            block.after, block.size = left, size
            if self._tails.get(small) is block:
                self._tails[small] = left
            pool.put(left)
        block.used = True
        self.allocated += block.size
        self._live.setdefault(name, []).append((block, small))
        return True

    def release(self, name: str) -> None:
        """Free the latest allocation of a name.

        Raises:
            KeyError: nothing of that name is allocated.
        """
        block, small = self._live[name].pop()
        pool = self._pools[small]
        self.allocated -= block.size
        block.used = False
        for neighbour in (block.before, block.after):
            if neighbour is not None and not neighbour.used:
                pool.take(neighbour)
                block = self._merge(block, neighbour, small)
        pool.put(block)

    def _merge(self, block: _Block, neighbour: _Block, small: bool) -> _Block:
        first, second = (neighbour, block) if neighbour.offset < block.offset else (block, neighbour)
        first.size += second.size
        first.after = second.after
        first.used = False
        if second.after is not None:
            second.after.before = first
        if self._tails.get(small) is second:
            self._tails[small] = first
        return first

    def _grow(self, size: int, small: bool) -> _Block | None:
        if self.expandable:
            return self._extend(size, small)
        amount = SMALL_SEGMENT if small else LARGE_SEGMENT if size < LARGE_REQUEST else -(-size // PAGE) * PAGE
        if self.reserved + amount > self.capacity:
            self._give_back()
        if self.reserved + amount > self.capacity:
            return None
        self.reserved += amount
        block = _Block(self._next, 0, amount)
        self.segments[self._next] = amount
        self._next += 1
        self._pools[small].put(block)
        return block

    def _extend(self, size: int, small: bool) -> _Block | None:
        page = PAGE if small else LARGE_SEGMENT
        tail = self._tails.get(small)
        pool = self._pools[small]
        spare = tail.size if tail is not None and not tail.used else 0
        amount = -(-(size - spare) // page) * page
        if self.reserved + amount > self.capacity:
            return None
        self.reserved += amount
        if tail is None:
            tail = _Block(self._next, 0, amount)
            self.segments[self._next] = amount
            self._next += 1
        elif tail.used:
            tail = _Block(tail.segment, tail.offset + tail.size, amount, False, tail, None)
            assert tail.before is not None
            tail.before.after = tail
            self.segments[tail.segment] += amount
        else:
            pool.take(tail)
            tail.size += amount
            self.segments[tail.segment] += amount
        self._tails[small] = tail
        pool.put(tail)
        return tail

    def _give_back(self) -> None:
        self._freed += 1
        for pool in self._pools.values():
            for block in list(pool.blocks.values()):
                if block.size == self.segments[block.segment]:
                    pool.take(block)
                    self.reserved -= self.segments.pop(block.segment)

    @property
    def given_back(self) -> int:
        """Times unused segments were returned."""
        return self._freed


def replay(events: Iterable[Event], capacity: float = float("inf"), *, expandable: bool = False) -> Replay:
    """Run a list of allocations and releases through the allocator; stops at the first that cannot be served."""
    pool = CachingAllocator(capacity, expandable=expandable)
    peak = reserved = at_peak = 0
    failed: str | None = None
    for event in events:
        if event.size == 0:
            pool.release(event.name)
            continue
        if not pool.allocate(event.name, event.size):
            failed = event.name
            break
        reserved = max(reserved, pool.reserved)
        if pool.allocated > peak:
            peak, at_peak = pool.allocated, pool.reserved
    return Replay(peak, reserved, at_peak, len(pool.segments), pool.given_back, failed)

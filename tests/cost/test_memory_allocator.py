"""Caching allocator: rounding, segments, best fit, merging, and what always holds on random allocations."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cann_plan.cost.memory_allocator import CachingAllocator, Event, replay

MIB = 2**20


def test_sizes_and_segments_of_pytorchs_allocator() -> None:
    """PyTorch notes, CUDA memory management: 512 B rounding, 2 MiB and 20 MiB segments, then multiples of 2 MiB."""
    pool = CachingAllocator()
    assert pool.allocate("a", 1)
    assert (pool.allocated, pool.reserved) == (512, 2 * MIB)
    assert pool.allocate("b", 3 * MIB)
    assert (pool.allocated, pool.reserved) == (512 + 3 * MIB, 22 * MIB)
    assert pool.allocate("c", 11 * MIB + 1)
    assert pool.reserved == 22 * MIB + 12 * MIB or pool.reserved == 22 * MIB  # fits the rest of the 20 MiB segment
    assert pool.allocate("d", 100 * MIB - 1)
    assert pool.reserved % (2 * MIB) == 0


def test_a_freed_block_serves_the_next_request_of_its_size() -> None:
    pool = CachingAllocator()
    for _ in range(10):
        assert pool.allocate("x", 64 * MIB)
        pool.release("x")
    assert pool.reserved == 64 * MIB


def test_neighbours_merge_so_that_halves_serve_a_whole() -> None:
    pool = CachingAllocator()
    assert pool.allocate("whole", 64 * MIB)
    pool.release("whole")
    assert pool.allocate("left", 32 * MIB)
    assert pool.allocate("right", 32 * MIB)
    pool.release("left")
    pool.release("right")
    assert pool.allocate("again", 64 * MIB)
    assert pool.reserved == 64 * MIB


def test_growing_tensors_fragment_segments_and_not_expandable_ones() -> None:
    """Each step frees a tensor and asks for a slightly larger one: no old block can serve it."""
    events = [event for step in range(20) for event in (Event("t", (40 + 4 * step) * MIB), Event("t", 0))]
    plain, expandable = replay(events), replay(events, expandable=True)
    assert plain.peak_allocated == expandable.peak_allocated
    assert plain.fragmentation > 5.0
    assert expandable.fragmentation < 0.2


def test_unused_segments_are_given_back_before_failing() -> None:
    events = [Event("a", 60 * MIB), Event("a", 0), Event("b", 80 * MIB)]
    done = replay(events, capacity=100 * MIB)
    assert done.failed is None
    assert done.given_back == 1
    assert replay(events, capacity=70 * MIB).failed == "b"


@st.composite
def traces(draw: st.DrawFn) -> list[Event]:
    live: list[str] = []
    events = []
    for index in range(draw(st.integers(1, 60))):
        if live and draw(st.booleans()):
            events.append(Event(live.pop(draw(st.integers(0, len(live) - 1))), 0))
        else:
            name = f"t{index}"
            live.append(name)
            events.append(Event(name, draw(st.integers(1, 50 * MIB))))
    return events


@settings(max_examples=150, deadline=None)
@given(traces(), st.booleans())
def test_reserved_covers_live_bytes_and_everything_freed_leaves_nothing_allocated(
    events: list[Event], expandable: bool
) -> None:
    pool = CachingAllocator(expandable=expandable)
    live: dict[str, int] = {}
    for event in events:
        if event.size:
            assert pool.allocate(event.name, event.size)
            live[event.name] = event.size
        else:
            pool.release(event.name)
            del live[event.name]
        assert pool.reserved >= pool.allocated >= sum(live.values())
        assert sum(pool.segments.values()) == pool.reserved
    for name in list(live):
        pool.release(name)
    assert pool.allocated == 0


@settings(max_examples=80, deadline=None)
@given(traces())
def test_expandable_segments_waste_at_most_pages_and_holes(events: list[Event]) -> None:
    done = replay(events, expandable=True)
    assert done.peak_reserved >= done.peak_allocated
    assert done.segments <= 2

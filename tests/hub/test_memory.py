"""The memory of a process, and the moment when much of it has become free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.process.memory import FLOOD, FreeMemory, MemoryTrend, note_freed_memory, resident_mb, return_free_memory
from interlock.transports.request_bytes import FLOOD_BYTES, RequestBytes


def test_a_process_holds_something_before_and_after_it_gave_back_what_is_free() -> None:
    return_free_memory()
    held = resident_mb()
    assert held is not None
    assert 1 < held < 10_000


def test_when_half_of_a_flood_has_gone_it_is_noticed_once() -> None:
    memory_trend = MemoryTrend()
    counts = (10, FLOOD, FLOOD // 2, FLOOD // 2, 0)
    assert [memory_trend.has_fallen(count) for count in counts] == [False, False, True, False, False]


def test_free_memory_is_returned_once_and_only_while_nobody_calls() -> None:
    free_memory = FreeMemory()
    free_memory.is_due(FLOOD, quiet=True)
    note_freed_memory()
    assert [free_memory.is_due(FLOOD, quiet=quiet) for quiet in (False, False, True, True)] == [
        False,
        False,
        True,
        False,
    ]
    assert [free_memory.is_due(0, quiet=quiet) for quiet in (False, True, True)] == [False, True, False]


def test_free_memory_is_returned_after_many_bytes_of_requests_were_freed() -> None:
    free_memory, requests = FreeMemory(), RequestBytes()
    free_memory.is_due(0, quiet=True)
    for size in range(0, FLOOD_BYTES + 1, FLOOD_BYTES // 8):
        requests.hold("a", "ann", size)
    assert not free_memory.is_due(0, quiet=True), "a body that grows frees nothing"
    requests.release("a")
    assert [free_memory.is_due(0, quiet=True) for _ in range(2)] == [True, False]


@given(st.lists(st.integers(0, FLOOD - 1)))
def test_few_are_no_flood(counts: list[int]) -> None:
    memory_trend = MemoryTrend()
    assert not any(map(memory_trend.has_fallen, counts))

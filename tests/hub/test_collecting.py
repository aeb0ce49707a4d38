"""The garbage collector between calls: what refers to itself is found, and no look takes in more than a few objects."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from interlock.process.garbage_collection import (
    GROWTH_MB,
    MAX_NEW,
    MIN_NEW,
    QUIET,
    YOUNG,
    Collector,
    hold_collector_back,
)


class ReferenceCycle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


class Memory:
    """The process's memory, as a test sets it."""

    def __init__(self) -> None:
        self.mb = 50.0

    def __call__(self) -> float:
        return self.mb


@pytest.fixture
def memory() -> Iterator[Memory]:
    thresholds = gc.get_threshold()
    hold_collector_back()
    yield Memory()
    gc.set_threshold(*thresholds)
    # As `pytest_collection_finish` left it: the collector need not look at all tests.
    gc.freeze()


def test_a_cycle_is_found_at_the_next_look(memory: Memory) -> None:
    collector = Collector(memory)
    ring = weakref.ref(ReferenceCycle())
    kept = [[] for _ in range(MIN_NEW)]
    assert ring() is not None
    collector.check(calls=1, open_calls=1)
    assert ring() is None
    assert len(kept) == MIN_NEW


def test_an_idle_hub_is_left_alone(memory: Memory) -> None:
    collector = Collector(memory)
    ring = weakref.ref(ReferenceCycle())
    collector.check(calls=0, open_calls=0)
    assert ring() is not None


def test_more_new_objects_than_a_look_may_take_in_are_set_aside(memory: Memory) -> None:
    collector = Collector(memory)
    before = gc.get_freeze_count()
    kept = [[] for _ in range(2 * MAX_NEW)]
    collector.check(calls=1, open_calls=1)
    assert gc.get_freeze_count() - before >= len(kept)
    assert sum(gc.get_count()) < YOUNG


def test_a_cycle_that_was_set_aside_is_found_when_nobody_calls_and_memory_has_grown(memory: Memory) -> None:
    collector = Collector(memory)
    held = ReferenceCycle()
    ring = weakref.ref(held)
    gc.freeze()
    del held
    for _ in range(2 * QUIET):
        collector.check(calls=0, open_calls=0)
    assert ring() is not None
    memory.mb += max(GROWTH_MB, memory.mb) + 1
    for calls in range(1, 2 * QUIET):
        collector.check(calls=calls, open_calls=0)
    assert ring() is not None
    for _ in range(QUIET):
        collector.check(calls=calls, open_calls=0)
    assert ring() is None

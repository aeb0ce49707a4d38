"""The bus against a simple model: who subscribes to what reads it in order, and every lost event lies in a gap."""

from __future__ import annotations

import itertools
from collections import defaultdict

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from example_counts import example_count
from interlock.events import Bus, EventFilter, Gap, Subscription
from interlock.events.types import Event, LogWritten, SessionEnded, SessionOpened

TYPES: tuple[type[Event], ...] = (LogWritten, SessionOpened, SessionEnded)
SOURCES = ("a", "b", "c")
Stream = tuple[type[Event], str]


def made(kind: type[Event], source: str, sequence: int) -> Event:
    if kind is LogWritten:
        return LogWritten(source, sequence, 0, "stderr", "x")
    return (
        SessionOpened(source, sequence, 0, "s", "p")
        if kind is SessionOpened
        else SessionEnded(source, sequence, 0, "s", "p")
    )


class Reader:
    """A subscription, with everything that was published to it and not yet accounted for."""

    def __init__(self, subscription: Subscription, wanted: EventFilter, limit: int) -> None:
        self.subscription = subscription
        self.wanted = wanted
        self.limit = limit
        self.due: dict[Stream, list[Event]] = defaultdict(list)
        self.last: dict[Stream, int] = {}
        self.unread = 0

    def wants(self, event: Event) -> bool:
        sources = self.wanted.sources
        return type(event) in self.wanted.types and (sources is None or event.source in sources)


class BusMachine(RuleBasedStateMachine):
    """Publishes, reads, subscribes and leaves in any order."""

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.bus = Bus()
        self.open: list[Reader] = []
        self.sequences: dict[Stream, int] = defaultdict(int)

    @rule(
        target=readers,
        types=st.frozensets(st.sampled_from(TYPES), min_size=1),
        sources=st.none() | st.frozensets(st.sampled_from(SOURCES), min_size=1),
        limit=st.integers(1, 6),
    )
    def subscribe(self, types: frozenset[type[Event]], sources: frozenset[str] | None, limit: int) -> Reader:
        wanted = EventFilter(types, sources)
        reader = Reader(self.bus.subscribe(wanted, limit), wanted, limit)
        self.open.append(reader)
        return reader

    @rule(
        what=st.lists(
            st.tuples(st.sampled_from(TYPES), st.sampled_from(SOURCES), st.integers(1, 3)), min_size=1, max_size=12
        )
    )
    def publish(self, what: list[tuple[type[Event], str, int]]) -> None:
        for kind, source, step in what:
            self.sequences[kind, source] += step
            event = made(kind, source, self.sequences[kind, source])
            self.bus.publish(event)
            for reader in self.open:
                if reader.wants(event):
                    reader.due[kind, source].append(event)
                    reader.unread += 1

    @rule(reader=readers, most=st.integers(1, 8))
    def take(self, reader: Reader, most: int) -> None:
        if reader.subscription.closed:
            return
        unread, taken = reader.unread, reader.subscription.take(most)
        assert len(taken) <= most
        assert bool(taken) == bool(unread)
        for each in taken:
            self.account(reader, each, may_lose=unread > reader.limit)

    def account(self, reader: Reader, each: Event | Gap, *, may_lose: bool) -> None:
        if isinstance(each, Gap):
            assert may_lose, "a reader within its limit loses nothing"
            stream = (each.type, each.source)
            lost = [event for event in reader.due[stream] if event.sequence <= each.last]
            assert lost
            assert lost[-1].sequence == each.last
            assert reader.last.get(stream, -1) < each.first <= lost[0].sequence
            del reader.due[stream][: len(lost)]
            reader.unread -= len(lost)
            reader.last[stream] = each.last
            return
        stream = (type(each), each.source)
        assert reader.due[stream].pop(0) is each, "in order, complete up to gaps, and only what was asked for"
        reader.unread -= 1
        reader.last[stream] = each.sequence

    @rule(reader=consumes(readers))
    def close(self, reader: Reader) -> None:
        reader.subscription.close()
        if reader in self.open:
            self.open.remove(reader)
        assert reader.subscription.closed

    @invariant()
    def nobody_is_told_what_nobody_wants(self) -> None:
        wanted = {kind for reader in self.open for kind in reader.wanted.types}
        assert {kind for kind in TYPES if self.bus.wants(kind)} == wanted


BusMachine.TestCase.settings = settings(max_examples=example_count(25, 50), stateful_step_count=30, deadline=None)
test_the_bus_does_as_the_model_says = BusMachine.TestCase

FILTERS = [EventFilter(frozenset(types), None) for types in (TYPES[:1], TYPES[1:], TYPES)]
FILTERS += [
    EventFilter(frozenset(types), frozenset(sources)) for types in (TYPES[:2], TYPES) for sources in ("a", "bc")
]
SUBSCRIBERS = 10_000
READS_EVERY = (1, 2, 3, 1000)
"""Readers that keep up, slow ones, and dead ones."""


@settings(max_examples=3, deadline=None)
@given(
    rounds=st.lists(
        st.lists(st.tuples(st.sampled_from(TYPES), st.sampled_from(SOURCES), st.integers(1, 3)), max_size=12),
        min_size=4,
        max_size=6,
    ),
    limits=st.lists(st.integers(1, 24), min_size=3, max_size=3),
)
def test_ten_thousand_subscribers_each_read_as_the_model_says(
    rounds: list[list[tuple[type[Event], str, int]]], limits: list[int]
) -> None:
    bus = Bus()
    kinds = list(itertools.product(FILTERS, limits, READS_EVERY))
    readers = []
    for number in range(SUBSCRIBERS):
        wanted, limit, every = kinds[number % len(kinds)]
        readers.append((ModelReader(bus.subscribe(wanted, limit), wanted, limit), every))
    log: list[Event] = []
    last: dict[Stream, int] = defaultdict(int)
    for turn, what in enumerate(rounds, 1):
        for kind, source, step in what:
            last[kind, source] += step
            log.append(made(kind, source, last[kind, source]))
            bus.publish(log[-1])
        for reader, every in readers:
            if turn % every == 0:
                reader.read(log)
    for reader, _ in readers:
        reader.read(log)
        reader.subscription.close()
    assert not bus.wanted


class ModelReader:
    """Reads all there is at once, and knows from the log of all events what that must be."""

    def __init__(self, subscription: Subscription, wanted: EventFilter, limit: int) -> None:
        self.subscription = subscription
        self._wanted = wanted
        self._limit = limit
        self._read = 0

    def read(self, log: list[Event]) -> None:
        new, self._read = log[self._read :], len(log)
        types, sources = self._wanted.types, self._wanted.sources
        due = [event for event in new if type(event) in types and (sources is None or event.source in sources)]
        kept = 0
        lost: dict[Stream, int] = {}
        seen: dict[Stream, int] = {}
        taken = self.subscription.take(len(due) + len(TYPES) * len(SOURCES))
        for each in taken:
            if isinstance(each, Gap):
                assert (each.type, each.source) not in lost, "one gap for each source and type"
                lost[each.type, each.source] = each.last
                continue
            kept += 1
            assert each.sequence > seen.get((type(each), each.source), 0)
            seen[type(each), each.source] = each.sequence
        read = [each for each in taken if not isinstance(each, Gap)]
        by_gap = [event for event in due if event.sequence <= lost.get((type(event), event.source), 0)]
        assert len(by_gap) + kept == len(due), "every event was read or lies in a gap"
        assert set(map(id, read)).isdisjoint(map(id, by_gap))
        assert not by_gap or len(due) > self._limit, "a reader within its limit loses nothing"
        assert {(type(event), event.source) for event in by_gap} == set(lost), "no gap without a loss"

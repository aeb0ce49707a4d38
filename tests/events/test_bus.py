"""Readers of the bus: waiting, leaving, failing, and very many of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from interlock.events import Bus, EventFilter, Gap, OnDemandSubscriber, SubscriberTask, Subscription
from interlock.events.bus import FEWEST_AT_ONCE, MAX_LIMIT, WOKEN_AT_ONCE
from interlock.events.ring import FORGET_AT
from interlock.events.subscription import MAX_SOURCES
from interlock.events.types import EVENTS, AnyEvent, Delivery, Event, LogWritten, SessionEnded, SessionOpened
from processor_work import work_of

LINES = EventFilter.of(LogWritten)


def line(number: int, source: str = "a") -> LogWritten:
    return LogWritten(source, number, 0, "stderr", f"line {number}")


async def collect(subscription: Subscription, into: list[Delivery]) -> None:
    async for each in subscription:
        into += [each]


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_waiting_reader_continues_with_the_next_event_and_ends_with_its_subscription() -> None:
    bus = Bus()
    subscription, read = bus.subscribe(LINES), list[Delivery]()
    reading = asyncio.ensure_future(collect(subscription, read))
    await turns()
    bus.publish(line(1))
    bus.publish(line(2))
    await turns()
    assert read == [line(1), line(2)]
    subscription.close()
    subscription.close()
    await asyncio.wait_for(reading, 5)
    bus.publish(line(3))
    assert read == [line(1), line(2)]
    assert not bus.wants(LogWritten)


async def test_a_subscription_ends_with_its_block_also_by_an_error() -> None:
    bus = Bus()
    with pytest.raises(ZeroDivisionError), bus.subscribe(LINES) as lines:
        assert bus.wants(LogWritten)
        raise ZeroDivisionError
    assert lines.closed
    assert not bus.wants(LogWritten)


async def test_only_events_after_the_subscription_are_read() -> None:
    bus = Bus()
    with bus.subscribe(LINES) as first:
        bus.publish(line(1))
        with bus.subscribe(LINES) as second:
            bus.publish(line(2))
            assert first.take() == [line(1), line(2)]
            assert second.take() == [line(2)]


async def test_a_reader_of_several_types_reads_them_in_the_order_of_publication() -> None:
    bus = Bus()
    told: list[Event] = [line(1), SessionOpened("s", 1, 0, "x", "p"), line(2, "b"), SessionEnded("s", 2, 0, "x", "p")]
    with bus.subscribe(EventFilter.of(LogWritten, SessionOpened, SessionEnded)) as subscription:
        for event in told:
            bus.publish(event)
        assert subscription.take() == told


async def test_one_noisy_source_costs_a_reader_of_another_nothing() -> None:
    bus = Bus()
    with bus.subscribe(EventFilter.of(LogWritten, sources=frozenset({"quiet"})), limit=2) as subscription:
        bus.publish(line(1, "quiet"))
        for number in range(1000):
            bus.publish(line(number, "noisy"))
        assert subscription.take() == [line(1, "quiet")]


async def test_a_reader_that_never_reads_keeps_the_newest_events_and_one_gap_for_each_source() -> None:
    bus = Bus()
    with bus.subscribe(LINES, limit=10) as subscription:
        for number in range(1, 50_001):
            bus.publish(line(number, "ab"[number % 2]))
        assert sum(len(ring.events) for ring in subscription.rings) == 10
        gaps, rest = subscription.take()[:2], subscription.take()
        assert gaps == [Gap(LogWritten, "b", 1, 49_989), Gap(LogWritten, "a", 2, 49_990)]
        assert rest == []


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
async def test_a_limit_is_a_bound(limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        Bus().subscribe(LINES, limit)


async def test_a_reader_far_behind_takes_pieces_in_order_at_a_cost_of_their_size() -> None:
    def read(count: int, piece: int) -> list[Delivery]:
        bus, found = Bus(), list[Delivery]()
        with bus.subscribe(LINES, limit=count) as subscription:
            for number in range(count):
                bus.publish(line(number))
            while some := subscription.take(piece):
                assert len(some) <= piece
                found += some
        return found

    assert read(1000, 64) == read(1000, 1000) == read(1000, 1) == [line(number) for number in range(1000)]
    bus = Bus()
    with bus.subscribe(LINES, limit=MAX_LIMIT) as far, bus.subscribe(LINES, limit=MAX_LIMIT) as near:
        for number in range(MAX_LIMIT):
            bus.publish(line(number))
        assert len(near.take(MAX_LIMIT - 192)) == MAX_LIMIT - 192
        assert len(far.take(MAX_LIMIT // 4)) == MAX_LIMIT // 4
        assert (far.unread, near.unread) == (MAX_LIMIT - MAX_LIMIT // 4, 192)
        # To walk over all that is new for each piece would be a thousand times the work.
        assert work_of(lambda: far.take(64)) < 100 * work_of(lambda: near.take(64))


async def test_a_subscription_remembers_a_bounded_number_of_sources() -> None:
    bus = Bus()
    with bus.subscribe(LINES, limit=4) as subscription:
        for number in range(3 * MAX_SOURCES):
            bus.publish(line(1, f"s{number}"))
            assert subscription.take() == [line(1, f"s{number}")]
        # A known source has lost everything since 1; of a forgotten one the bus knows the events that it dropped.
        for source, first in ((2 * MAX_SOURCES, 2), (2 * MAX_SOURCES - 1, 10), (0, 10)):
            for number in range(10, 16):
                bus.publish(line(number, f"s{source}"))
            (gap, *rest) = subscription.take()
            assert gap == Gap(LogWritten, f"s{source}", first, 11), "a gap has every lost event"
            assert rest == [line(number, f"s{source}") for number in range(12, 16)]


async def test_a_ring_forgets_losses_that_every_reader_knows_of() -> None:
    bus = Bus()
    with bus.subscribe(LINES, limit=1) as reads, bus.subscribe(LINES, limit=1) as sleeps:
        (ring,) = reads.rings
        for number in range(2 * FORGET_AT):
            bus.publish(line(1, f"s{number}"))
            reads.take()
        gaps = sleeps.take(MAX_LIMIT)[:-1]
        assert len(gaps) == 2 * FORGET_AT - 1, "a reader that was behind is told of each"
        for number in range(8 * FORGET_AT):
            bus.publish(line(1, f"t{number}"))
            reads.take()
            sleeps.take()
            assert len(ring.lost) <= 4 * FORGET_AT


async def test_a_subscription_has_one_reader() -> None:
    """A second one would take the place of the first, which nobody would wake again."""
    bus = Bus()
    with bus.subscribe(LINES) as subscription:
        first = asyncio.ensure_future(subscription.wait())
        await turns()
        with pytest.raises(RuntimeError, match="one reader"):
            await asyncio.wait_for(subscription.wait(), 5)
        bus.publish(line(1))
        await asyncio.wait_for(first, 5)
        assert subscription.take() == [line(1)]


async def test_readers_leave_while_events_are_delivered() -> None:
    """Each reader closes the next one as soon as it reads: half of them read, and the others end without a word."""
    bus, read = Bus(), list[int]()
    subscriptions = [bus.subscribe(LINES) for _ in range(200)]

    async def run(number: int) -> None:
        async for _ in subscriptions[number]:
            read.append(number)
            subscriptions[number].close()
            if number + 1 < len(subscriptions):
                subscriptions[number + 1].close()

    running = [asyncio.ensure_future(run(number)) for number in range(len(subscriptions))]
    await turns()
    bus.publish(line(1))
    await asyncio.wait_for(asyncio.gather(*running), 10)
    assert read
    assert not any(second - first == 1 for first, second in pairwise(read))
    assert not bus.wanted


async def test_a_cancelled_reader_leaves_the_others_alone() -> None:
    bus = Bus()
    dead, alive = bus.subscribe(LINES), bus.subscribe(LINES)
    read: list[Delivery] = []
    died = asyncio.ensure_future(collect(dead, []))
    living = asyncio.ensure_future(collect(alive, read))
    await turns()
    died.cancel()
    bus.publish(line(1))
    await turns()
    assert read == [line(1)]
    dead.close()
    alive.close()
    await asyncio.wait_for(living, 5)


async def test_a_handler_that_raises_harms_nobody_and_goes_on() -> None:
    bus, reports = Bus(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    good: list[Delivery] = []
    bad: list[Delivery] = []

    async def raises(batch: Sequence[Delivery]) -> None:
        bad.extend(batch)
        raise RuntimeError("broken")

    async def takes(batch: Sequence[Delivery]) -> None:
        good.extend(batch)

    tasks = [SubscriberTask(bus.subscribe(LINES), raises), SubscriberTask(bus.subscribe(LINES), takes)]
    for number in (1, 2):
        await turns()
        bus.publish(line(number))
        await turns()
    assert good == bad == [line(1), line(2)]
    assert [str(report["exception"]) for report in reports] == ["broken", "broken"]
    for task in tasks:
        await task.close()
    assert not bus.wanted


async def test_a_subscriber_on_demand_reads_only_while_somebody_needs_it() -> None:
    bus, read = Bus(), list[Delivery]()

    async def takes(batch: Sequence[Delivery]) -> None:
        read.extend(batch)

    reader = OnDemandSubscriber(lambda: bus.subscribe(LINES), takes)
    assert not bus.wanted
    for number in (1, 2):
        reader.run(True)
        reader.run(True)
        await turns()
        bus.publish(line(number))
        await turns()
        reader.run(False)
        assert not bus.wanted
    assert read == [line(1), line(2)]
    reader.run(True)
    await reader.close()
    assert not bus.wanted


async def test_ten_thousand_readers_get_every_event_in_small_turns() -> None:
    """Publishing wakes nobody at once, and one turn of the loop lets only a few readers continue."""
    bus, count = Bus(), 10_000
    subscriptions = [bus.subscribe(LINES) for _ in range(count)]
    left, in_turn, most_in_turn = count, 0, 0

    async def run(subscription: Subscription) -> None:
        nonlocal left, in_turn, most_in_turn
        async for _ in subscription:
            in_turn += 1
            most_in_turn = max(most_in_turn, in_turn)
            left -= 1
            return

    running = [asyncio.ensure_future(run(subscription)) for subscription in subscriptions]
    await turns()
    bus.publish(line(1))
    assert left == count
    while left:
        in_turn = 0
        await asyncio.sleep(0)
    assert most_in_turn <= 2 * WOKEN_AT_ONCE
    await asyncio.gather(*running)
    for subscription in subscriptions:
        subscription.close()
    assert not bus.wanted


@pytest.mark.parametrize(("turn_s", "most"), [(0.01, FEWEST_AT_ONCE), (0.0001, WOKEN_AT_ONCE)])
async def test_fewer_readers_continue_in_a_turn_where_turns_take_long(
    monkeypatch: pytest.MonkeyPatch, turn_s: float, most: int
) -> None:
    clock = itertools.count(1)
    monkeypatch.setattr("interlock.events.bus.perf_counter", lambda: next(clock) * turn_s)
    bus = Bus()
    subscriptions = [bus.subscribe(LINES) for _ in range(500)]
    waiting = [asyncio.ensure_future(subscription.wait()) for subscription in subscriptions]
    await turns()
    bus.publish(line(1))
    in_turn, before = [], 0
    while before < len(waiting):
        await asyncio.sleep(0)
        done = sum(each.done() for each in waiting)
        in_turn.append(done - before)
        before = done
    assert max(in_turn) == most
    for subscription in subscriptions:
        subscription.close()


async def test_publishing_to_ten_thousand_readers_costs_as_much_as_to_ten() -> None:
    def work(count: int) -> float:
        bus = Bus()
        subscriptions = [bus.subscribe(LINES) for _ in range(count)]
        found = work_of(lambda: [bus.publish(line(number)) for number in range(500)])
        for subscription in subscriptions:
            subscription.close()
        return found

    # A copy for each reader would be a thousand times the work.
    assert work(10_000) < 50 * work(10)


async def test_ten_thousand_sources_come_and_go() -> None:
    bus = Bus()
    subscriptions = [bus.subscribe(EventFilter.of(LogWritten, sources=frozenset({f"s{n}"}))) for n in range(10_000)]
    bus.publish(line(1, "s77"))
    assert [n for n, each in enumerate(subscriptions) if each.take()] == [77]
    for subscription in subscriptions:
        subscription.close()
    assert not bus.wanted


VALUES: dict[str, object] = {
    "str": "x",
    "int": 7,
    "bool": True,
    "msgspec.Raw": msgspec.Raw(b'{"a":1}'),
    "tuple[str, ...]": ("x",),
    "str | None": None,
}


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
async def test_every_event_can_be_encoded_and_read_again(kind: type[Event]) -> None:
    """So a bus between processes can carry it."""
    values = {field.name: VALUES[_annotation(kind, field.name)] for field in msgspec.structs.fields(kind)}
    event = kind(**values)  # type: ignore[arg-type]
    again = msgspec.json.decode(msgspec.json.encode(event), type=AnyEvent)
    assert type(again) is kind
    assert msgspec.json.encode(again) == msgspec.json.encode(event)
    with pytest.raises(AttributeError):
        event.source = "y"  # type: ignore[misc]


def _annotation(kind: type[Event], name: str) -> str:
    return next(
        str(each.__annotations__[name]) for each in kind.__mro__ if name in getattr(each, "__annotations__", {})
    )

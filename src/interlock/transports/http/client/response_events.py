"""The events of one response, in their order. Events behind a large one wait until it is read.

The state outlives a broken stream: the last event id says where to resume it (2025-11-25, Resumability and Redelivery).
"""

from __future__ import annotations

from typing import Final, Protocol

from interlock.transports.http.client.reading import (
    BAD_EVENTS,
    RETRY_SECONDS,
    ReadingLink,
    ReadMessages,
    header_text,
    read_messages,
    taken,
)
from interlock.transports.large_reading import MAX_BUFFERED_BYTES, LargeReading
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.sse import EventReader, EventTooLarge, SseEvent

MAX_WAITING_MESSAGES: Final = 4
"""Upper bound for the bytes of events behind a large one, in messages of the largest size."""

RESUMES: Final = 10
"""How often in a row a broken stream is resumed without a new event."""


class EventTaker(Protocol):
    """The request whose response is read."""

    over: bool
    """Whether nothing more will come."""

    @property
    def link(self) -> ReadingLink:
        """The link that it was sent on."""

    @property
    def answered(self) -> bool:
        """Whether its answer came. The rest of the stream is ignored."""

    def take(self, came: ReadMessages) -> None:
        """Take the messages of an event."""

    def take_end(self) -> None:
        """The stream has ended, and all of its events were taken."""

    def give_up(self, why: str) -> None:
        """Fail the request: its events cannot be read."""


class ResponseEvents:
    """Reads the event stream of one response, and its continuations."""

    __slots__ = ("_ended", "_limit", "_reader", "_resumes", "_waiting", "_waiting_bytes", "last_id", "retry_s")

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of one event. The request is an argument of each method: a reference from here would be a
        cycle, which keeps its params in memory until the garbage collector runs."""
        self._limit = limit
        self._reader = EventReader(limit, "message_bytes")
        self.last_id: str | None = None
        """The last event id, as a header can carry it."""
        self.retry_s = RETRY_SECONDS
        """How long to wait before the stream is resumed."""
        self._resumes = 0
        self._waiting: list[SseEvent] | None = None
        """Events behind a large one that is being read; None where none is."""
        self._waiting_bytes = 0
        self._ended = False
        """Whether the stream ended while a large event is being read."""

    def begin_again(self) -> None:
        """Another response continues the stream."""
        self._reader = EventReader(self._limit, "message_bytes")

    def may_resume(self) -> bool:
        """Whether the server can be asked for the rest of the stream. Counts the attempt."""
        if not self.last_id or self._resumes >= RESUMES:
            return False
        self._resumes += 1
        return True

    def feed(self, taker: EventTaker, data: bytes) -> None:
        """Take the events that these bytes complete."""
        if taker.answered:
            return
        try:
            events = self._reader.feed(data)
        except EventTooLarge as cause:
            taker.give_up(str(cause))
            return
        if self._waiting is None:
            self._take(taker, events)
            return
        self._waiting += events
        self._waiting_bytes += sum(len(event.data) for event in events)
        if (
            self._waiting_bytes > MAX_WAITING_MESSAGES * self._limit
            or LargeReading.here().buffered_bytes > MAX_BUFFERED_BYTES
            or len(self._waiting) > BAD_EVENTS
        ):
            self._waiting = []
            taker.give_up("the server sends more than can be read")

    def end(self, taker: EventTaker) -> None:
        """The stream has ended."""
        if self._waiting is not None:
            self._ended = True
        else:
            taker.take_end()

    def _take(self, taker: EventTaker, events: list[SseEvent]) -> None:
        for number, event in enumerate(events):
            self._note(event)
            if len(event.data) > LARGE:
                self._waiting = events[number + 1 :]
                self._waiting_bytes = sum(len(each.data) for each in self._waiting)
                self._read_large(taker, event.data)
                return
            if event.data:
                taker.take(read_messages(taker.link, event.data))
            if taker.answered or (taker.over and not self._ended):
                return

    def _note(self, event: SseEvent) -> None:
        self._resumes = 0
        if event.id is not None:
            self.last_id = header_text(event.id)
        if event.retry is not None:
            self.retry_s = event.retry / 1000

    def _read_large(self, taker: EventTaker, data: bytes) -> None:
        """Have a large message read beside the loop."""

        def read(outcome: Outcome) -> None:
            waiting, self._waiting = self._waiting or [], None
            taker.take(taken(taker.link, outcome, data))
            if taker.answered:
                return
            self._take(taker, waiting)
            if self._ended:
                self._ended = False
                self.end(taker)

        LargeReading.here().read(taker.link, data, taker.link.limits, taker.link.limits.answer_members, read)

"""The stream for messages that belong to no request of ours (handshake era). It is opened again when it breaks."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from interlock.transports.http.client.reading import (
    BAD_EVENTS,
    FLOOD,
    RETRY_SECONDS,
    ReadingLink,
    ReadMessages,
    header_text,
    read_messages,
    taken,
)
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.transports.large_reading import LargeReading
from interlock.transports.link import Listener
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.messages import Notification, Request
from interlock.wire.sse import EventReader, EventTooLarge

RETRY_LEAST: Final = 0.1
RETRY_MOST: Final = 30.0


class StreamOpener(ReadingLink, Protocol):
    """The link that the stream belongs to."""

    listener: Listener

    def open_stream(self, standing: Reply, last_event_id: str | None) -> None:
        """Send the stream's GET. Raises a `Fault`."""

    @property
    def authorized(self) -> object | None:
        """Gets other access tokens; None where requests carry none that can be renewed."""

    def drop(self, reply: Reply) -> None:
        """A response is no longer wanted."""

    def owe(self, request: Request) -> bool:
        """Note a request of the server. False when the link dealt with it."""

    def on_notification(self, notification: Notification) -> None:
        """Take a notification."""


class StandingStream(Reply):
    """The stream for such messages (2025-11-25, Listening for Messages from the Server)."""

    def __init__(self, link: StreamOpener) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._last_event_id: str | None = None
        self._retry: float | None = None
        self._wait = RETRY_SECONDS
        self._events: EventReader | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._bad = 0
        self.refused = False
        """The server does not offer such a stream."""
        self.answered = asyncio.Event()
        """The server has said whether it does, or could not be asked."""

    def open(self) -> None:
        """Ask for the stream, or for its rest."""
        self._timer = None
        self._events = None
        try:
            self._link.open_stream(self, self._last_event_id)
        except Fault:
            self._again()

    def stop(self) -> None:
        """Close the stream, and ask for it no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._link.drop(self)

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.answered.set()
        if status == 200 and headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
            self._events = EventReader(self._link.limits.message_bytes, "message_bytes")
        elif status == 401 and self._link.authorized is not None:
            return  # Opened again later, when a request may have brought a token.
        elif 400 <= status < 500 and status not in (408, 429):
            self.refused = True
            if status != 405:
                self._link.complain(f"the standing stream was refused: HTTP {status}")

    def body(self, data: bytes) -> None:
        if self._events is None:
            return
        try:
            events = self._events.feed(data)
        except EventTooLarge as cause:
            self._link.complain(f"the standing stream was given up: {cause}")
            self.stop()
            return
        for event in events:
            self._wait = RETRY_SECONDS
            if event.id is not None:
                self._last_event_id = header_text(event.id)
            if event.retry is not None:
                self._retry = event.retry / 1000
            if event.data:
                self._take(event.data)
            if self._stopped:
                return

    def done(self) -> None:
        self._again()

    def failed(self, how: ReplyFailed) -> None:
        self._again()

    def _take(self, data: bytes) -> None:
        if len(data) <= LARGE:
            self._take_all(read_messages(self._link, data))
            return

        def read(outcome: Outcome) -> None:
            if not self._stopped:
                self._take_all(taken(self._link, outcome, data))

        LargeReading.here().read(self._link, data, self._link.limits, self._link.limits.answer_members, read)

    def _take_all(self, came: ReadMessages) -> None:
        self._bad = 0 if came.messages else self._bad + 1
        if self._bad > BAD_EVENTS:
            self._link.complain(FLOOD)
            self.stop()
            return
        for message in came.messages:
            if isinstance(message, Notification):
                self._link.on_notification(message)
            elif isinstance(message, Request):
                if self._link.owe(message):
                    self._link.listener.on_request(message)
            else:
                self._link.complain(f"an answer to {message.id!r} came on the standing stream")

    def _again(self) -> None:
        self.answered.set()
        if self._stopped or self.refused:
            return
        delay = max(self._retry if self._retry is not None else self._wait, RETRY_LEAST)
        self._wait = min(self._wait * 2, RETRY_MOST)
        self._timer = self._loop.call_later(delay, self.open)

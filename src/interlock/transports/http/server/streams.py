"""Event streams of the handshake era. They outlive their connection: a client that comes back gets the kept events.

Event ids name the stream and the position in it; they are looked up inside one session only.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from itertools import islice

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.http_request import HttpRequest
from interlock.wire.sse import encode_event

RETRY_MS = 1_000
"""How long a client whose stream was cut waits before it comes back."""

OF_POST = "p"
STANDALONE = "s"
"""The first character of a stream's token. The standalone stream of a session that survived a restart has a new one."""


class ReplayBudget:
    """Bounds the bytes that all sessions keep for replay. Beyond the limit the principal with the most loses events."""

    __slots__ = ("_by_principal", "_limit", "_sessions_by_principal", "_used")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._by_principal: dict[str, int] = {}
        """The bytes of each principal."""
        self._sessions_by_principal: dict[str, Counter[Streams]] = {}

    def add(self, principal_name: str, streams: Streams, size: int) -> None:
        """A session of this principal keeps so many bytes more."""
        self._used += size
        self._by_principal[principal_name] = self._by_principal.get(principal_name, 0) + size
        self._sessions_by_principal.setdefault(principal_name, Counter())[streams] += size

    def remove(self, principal_name: str, streams: Streams, size: int) -> None:
        """A session of this principal dropped an event."""
        self._used -= size
        self._by_principal[principal_name] -= size
        sessions = self._sessions_by_principal[principal_name]
        sessions[streams] -= size
        if not sessions[streams]:
            del sessions[streams]
        if not sessions:
            del self._sessions_by_principal[principal_name], self._by_principal[principal_name]

    def leaves_enough(self, principal_name: str) -> bool:
        """Whether as much is free as this principal's sessions keep."""
        return self._by_principal[principal_name] <= self._limit - self._used

    def enforce(self) -> None:
        """Drop events until the limit is met: of the principal that has most, the oldest of its largest sessions."""
        while self._used > self._limit:
            largest = max(self._by_principal, key=self._by_principal.__getitem__)
            for streams, _ in self._sessions_by_principal[largest].most_common():
                while self._used > self._limit and streams.drop_oldest():
                    pass


class Streams:
    """The streams of one session, and the events kept for those that are cut off."""

    __slots__ = (
        "_bounds",
        "_budget",
        "_by_token",
        "_primes",
        "_principal_name",
        "_replayable",
        "_replayable_bytes",
        "standalone",
    )

    def __init__(self, bounds: HttpBounds, budget: ReplayBudget, principal_name: str, primes: bool) -> None:
        self._bounds = bounds
        self._budget = budget
        self._principal_name = principal_name
        self._primes = primes
        self._by_token: dict[str, SessionStream] = {}
        self._replayable: deque[tuple[SessionStream, int, bytes]] = deque()
        self._replayable_bytes = 0
        self.standalone = self._new(STANDALONE)

    @property
    def attached(self) -> int:
        """On how many of them the client listens."""
        return sum(stream.attached for stream in self._by_token.values())

    def open(self, http: HttpRequest) -> SessionStream:
        """A stream for what belongs to one POST."""
        stream = self._new(OF_POST)
        if http.over:
            # The client left before it got an event id, so it cannot come back to this stream.
            stream.finished = True
            self.forget(stream)
        else:
            stream.attach(http, 0)
        return stream

    def listen(self, http: HttpRequest, last_event: str | None) -> bool:
        """Serve a GET: continue a broken stream after the named event, or else the standalone stream.

        False for a finished stream of a POST without kept events: some clients come back to it forever.
        """
        token, _, position = (last_event or "").rpartition(".")
        stream = self._by_token.get(token)
        if stream is not None and position.isascii() and position.isdigit() and len(position) < 16:
            if stream.finished and not self.kept_after(stream, int(position)):
                return False
            stream.attach(http, int(position))
        elif token.startswith(OF_POST):
            return False
        else:
            self.standalone.attach(http, self.standalone.delivered)
        return True

    def keep(self, stream: SessionStream, position: int, event: bytes) -> None:
        """Remember an event, at the cost of the oldest: first of those that were written to the client."""
        self._replayable.append((stream, position, event))
        stream.replayable += 1
        self._replayable_bytes += len(event)
        self._budget.add(self._principal_name, self, len(event))
        bounds = self._bounds
        if len(self._replayable) > bounds.replay_events:
            self._drop(0)
        while len(self._replayable) > 1 and self._replayable_bytes > bounds.replay_bytes:
            written = self._oldest_written()
            if written is not None:
                self._drop(written)
            elif self._replayable_bytes > bounds.replay_unwritten_bytes or not self._budget.leaves_enough(
                self._principal_name
            ):
                self._drop(0)
            else:
                break
        self._budget.enforce()

    def drop_oldest(self) -> bool:
        """Drop the event that came first. False where none is kept."""
        if self._replayable:
            self._drop(0)
            return True
        return False

    def kept_after(self, stream: SessionStream, position: int) -> list[bytes]:
        """The events of a stream that came after a position in it."""
        return [event for one, at, event in self._replayable if one is stream and at > position]

    def forget(self, stream: SessionStream) -> None:
        """Drop a stream that is over and of which nothing is kept."""
        if stream.finished and not stream.replayable:
            self._by_token.pop(stream.token, None)

    def close(self) -> None:
        """End all of them, and keep nothing."""
        for stream in list(self._by_token.values()):
            stream.end()
        while self._replayable:
            self._drop(0)
        self._by_token.clear()

    def _new(self, kind: str) -> SessionStream:
        stream = SessionStream(self, kind + secrets.token_urlsafe(16), self._primes)
        self._by_token[stream.token] = stream
        return stream

    def _oldest_written(self) -> int | None:
        """The place of the oldest event but the newest that was written to the client."""
        kept = islice(self._replayable, len(self._replayable) - 1)
        return next((place for place, (stream, at, _) in enumerate(kept) if at <= stream.delivered), None)

    def _drop(self, place: int) -> None:
        stream, _, event = self._replayable[place]
        del self._replayable[place]
        stream.replayable -= 1
        self._replayable_bytes -= len(event)
        self._budget.remove(self._principal_name, self, len(event))
        self.forget(stream)


class SessionStream:
    """One stream, with or without a client on it."""

    __slots__ = ("_http", "_primes", "_streams", "delivered", "finished", "position", "replayable", "token")

    def __init__(self, streams: Streams, token: str, primes: bool) -> None:
        self._streams = streams
        self._primes = primes
        self._http: HttpRequest | None = None
        self.token = token
        self.position = 0
        """The last event's."""
        self.delivered = 0
        """The last event that was written to a client."""
        self.replayable = 0
        self.finished = False

    @property
    def attached(self) -> bool:
        """Whether the client listens."""
        return self._http is not None

    def send(self, payload: bytes) -> None:
        """One message, to the client now or when it comes back."""
        if self.finished:
            return
        self.position += 1
        event = encode_event(payload, f"{self.token}.{self.position}")
        self._streams.keep(self, self.position, event)
        if self._http is not None and self._http.send(event):
            self.delivered = self.position

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up, or has left the stream; otherwise a future that completes when it does."""
        return None if self._http is None else self._http.drained()

    def end(self) -> None:
        """The last message was sent."""
        self.finished = True
        self.hang_up()
        self._streams.forget(self)

    def hang_up(self) -> None:
        """Let the client go; it may come back."""
        http, self._http = self._http, None
        if http is not None:
            http.end()

    def attach(self, http: HttpRequest, position: int) -> None:
        """A client listens, and has everything up to `position`. The previous listener is released."""
        self.hang_up()
        http.begin_stream()
        if self._primes:
            # An id without data, so that the client can come back before the first message (2025-11-25, Sending
            # Messages to the Server). Clients of older revisions stumble over empty data.
            http.send(encode_event(b"", f"{self.token}.{position}", RETRY_MS))
        for event in self._streams.kept_after(self, position):
            http.send(event)
        self.delivered = self.position
        if self.finished:
            http.end()
        else:
            self._http = http
            http.connection.watch(http, self)

    def on_request_gone(self, http: HttpRequest) -> None:
        """The client left the stream, and may come back."""
        if self._http is http:
            self._http = None

"""Sessions of the handshake era over HTTP. A session is known to the principal who opened it, and to nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.transports.exchange import (
    AdmittedCaller,
    OpenExchange,
    Service,
    TransportSession,
    check_capability,
    why_cancelled,
)
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.streams import ReplayBudget, Streams
from interlock.transports.sessions.session import ClientAnswer, SessionChannel, SessionEnd
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.cancellation import withdrawal
from interlock.wire.conversation import CANCELLED_METHOD
from interlock.wire.errors import Fault
from interlock.wire.ids import first_number
from interlock.wire.json_values import decode_json_or
from interlock.wire.limits import Limits
from interlock.wire.messages import Failure, Id, Result, encode_notification, encode_request, one_line


class HttpSession(SessionChannel):
    """One client's conversation: its streams, its open requests, and the requests to the client."""

    __slots__ = (
        "_clock",
        "_forget",
        "_last_ask",
        "_limits",
        "_open_requests",
        "opened",
        "over",
        "principal_name",
        "session",
        "streams"
    )  # fmt: skip

    transport = "http"

    def __init__(self, limits: Limits, clock: Callable[[], float], forget: Callable[[HttpSession], None]) -> None:
        super().__init__(clock())
        self.streams: Streams
        self.opened: dict[Id, OpenExchange] = {}
        """The requests that are being served."""
        self.over = False
        """Whether it was ended."""
        self.principal_name = ""
        self.session: TransportSession
        """The service's half."""
        self._clock = clock
        self._limits = limits
        self._forget = forget
        self._open_requests: dict[int, asyncio.Future[bytes]] = {}
        self._last_ask = first_number()

    def begin(self, session: TransportSession, streams: Streams) -> None:
        """The service opened its half."""
        self.session = session
        self.streams = streams
        self.principal_name = session.caller.principal_name

    @property
    def open_calls(self) -> int:
        return len(self.opened)

    @property
    def open_streams(self) -> int:
        return self.streams.attached

    @property
    def unanswered(self) -> int:
        """The requests to the client that wait for its answer."""
        return len(self._open_requests)

    def touch(self) -> None:
        """Note the time, so that the session does not count as idle."""
        self.last_used = self._clock()

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification that belongs to no request, on the stream of a GET. It is kept while there is none."""
        self.streams.standalone.send(one_line(encode_notification(method, params)))

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        """Ask the client on the stream that a GET opened."""
        check_capability(self.session.dialect, method, params)
        if not self.streams.standalone.attached:
            raise Fault("UPSTREAM_UNAVAILABLE", "the client has no open stream for requests")
        id_, future = self.expect()
        self.streams.standalone.send(one_line(encode_request(id_, method, params)))
        future.add_done_callback(lambda done: self._on_beside_done(id_, done))
        return future

    def expect(self) -> tuple[int, ClientAnswer]:
        """An id for a request to the client, and the future of its answer."""
        if len(self._open_requests) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for this client's answers", retry_after_ms=1000)
        self._last_ask += 1
        future = ClientAnswer(self._last_ask)
        self._open_requests[self._last_ask] = future
        return self._last_ask, future

    def unexpect(self, id: int) -> None:
        """The answer is no longer waited for."""
        self._open_requests.pop(id, None)

    def _on_beside_done(self, id: int, done: asyncio.Future[bytes]) -> None:
        self.unexpect(id)
        if done.cancelled():
            self.notify(CANCELLED_METHOD, withdrawal(id, why_cancelled(done, "the answer is no longer wanted")))

    def on_response(self, answer: Result | Failure) -> None:
        """The client answered a request. An answer that nobody waits for is dropped."""
        future = self._open_requests.pop(answer.id, None) if isinstance(answer.id, int) else None
        if future is None or future.done():
            return
        if isinstance(answer, Result):
            future.set_result(answer.result)
            return
        error = answer.error
        data = _members(bytes(error.data))
        future.set_exception(Fault("UPSTREAM_ERROR", error.message, code=error.code, data=data))

    def take(self, id_: Id, exchange: OpenExchange) -> None:
        """A request is being served. Raises for an id that is in use, or when there are too many."""
        self.last_used = self._clock()
        opened = self.opened
        if id_ in opened:
            raise Fault("INVALID_REQUEST", f"id {id_!r} is already in use by an open request")
        if len(opened) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", "too many open requests in this session", retry_after_ms=1000)
        opened[id_] = exchange

    def settle(self, id: Id) -> None:
        """A request is over. The session is idle from now on."""
        self.last_used = self._clock()
        self.opened.pop(id, None)

    def listen(self, http: HttpRequest, caller: AdmittedCaller, last_event: str | None) -> bool:
        """Serve a GET: the client listens on a stream. False if the stream that it names is over."""
        # A session ends with the credential that listens, so that no stream outlives the key it was opened with.
        self.session.use_caller(caller)
        return self.streams.listen(http, last_event)

    def close(self, end: SessionEnd) -> None:
        """Everything that was open in it is over."""
        self.over = True
        self._forget(self)
        for exchange in list(self.opened.values()):
            exchange.abort(end)
        for future in list(self._open_requests.values()):
            future.cancel()
        self._open_requests.clear()
        self.streams.close()


class HttpSessions:
    """The sessions over HTTP, by their ids."""

    def __init__(self, service: Service, limits: Limits, bounds: HttpBounds, clock: Callable[[], float]) -> None:
        self._service = service
        self._limits = limits
        self._bounds = bounds
        self._clock = clock
        self._by_id: dict[str, HttpSession] = {}
        self._budget = ReplayBudget(bounds.replay_total_bytes)

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, caller: AdmittedCaller, dialect: Dialect) -> tuple[HttpSession, bytes]:
        """A new session with its InitializeResult. Raises RESOURCE_EXHAUSTED."""
        channel = HttpSession(self._limits, self._clock, self._forget)
        session, greeting = self._service.open_session(channel, caller, dialect)
        self._begin(channel, session)
        return channel, greeting

    def find(self, id: bytes, caller: AdmittedCaller) -> HttpSession:
        """A session of this caller. Raises SESSION_UNKNOWN, also for a session of another principal."""
        named = id.decode("latin-1")
        channel = self._by_id.get(named) or self._resume(named, caller)
        if channel is None or channel.principal_name != caller.principal_name:
            raise Fault("SESSION_UNKNOWN", "no such session", hint="open a new one with initialize")
        channel.touch()
        return channel

    def end(self, channel: HttpSession, event: SessionEvent, reason: str) -> None:
        """End a session."""
        self._service.end_session(channel.session, event, reason)

    def expire(self) -> None:
        """End the sessions that nobody has used for long."""
        oldest = self._clock() - self._bounds.session_idle_s
        for channel in list(self._by_id.values()):
            if channel.last_used < oldest and not channel.opened and not channel.open_streams:
                self.end(channel, SessionEvent.IDLE, "the session was idle for too long")

    def hang_up(self) -> None:
        """End the streams of clients that only listen."""
        for channel in self._by_id.values():
            channel.streams.standalone.hang_up()

    def end_all(self, reason: str) -> None:
        """The server stops."""
        for channel in list(self._by_id.values()):
            self.end(channel, SessionEvent.SHUT_DOWN, reason)

    def _resume(self, id: str, caller: AdmittedCaller) -> HttpSession | None:
        """A session that an earlier run of the service opened."""
        channel = HttpSession(self._limits, self._clock, self._forget)
        session: TransportSession | None = self._service.resume_session(channel, id, caller)
        if session is None:
            return None
        self._begin(channel, session)
        return channel

    def _begin(self, channel: HttpSession, session: TransportSession) -> None:
        primes = session.dialect.revision is R2025_11_25
        channel.begin(session, Streams(self._bounds, self._budget, session.caller.principal_name, primes=primes))
        self._by_id[session.id] = channel

    def _forget(self, channel: HttpSession) -> None:
        self._by_id.pop(channel.session.id, None)


def _members(raw: bytes) -> dict[str, object]:
    """A peer's error data, where it is an object."""
    return decode_json_or(raw, dict[str, object], {})

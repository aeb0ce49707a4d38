"""Sessions of the handshake era over HTTP. A session is known to the owner who opened it, and to nobody else."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.revisions import R2025_11_25
from interlock.transports.exchange import Caller, OpenExchange, Session, check_capability, why_cancelled
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.streams import ReplayBudget, Streams
from interlock.wire.cancellation import withdrawal
from interlock.wire.conversation import CANCELLED
from interlock.wire.errors import Fault
from interlock.wire.limits import Limits
from interlock.wire.messages import Failure, Id, Result, encode_notification, encode_request, one_line


class HttpSession(Session):
    """One client's conversation."""

    __slots__ = ("_asked", "_clock", "_limits", "_next_ask", "opened", "over", "streams", "used_at")

    def __init__(
        self,
        id: str,
        caller: Caller,
        dialect: Dialect,
        streams: Streams,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(id, caller, dialect)
        self.streams = streams
        self.opened: dict[Id, OpenExchange] = {}
        """The requests that are being served."""
        self._clock = clock
        self.used_at = clock()
        self.over = False
        """Whether it was ended."""
        self._limits = limits
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._next_ask = 0

    def touch(self) -> None:
        """It is in use."""
        self.used_at = self._clock()

    def notify(self, method: str, params: bytes) -> None:
        """Something that belongs to no request: on the stream that a GET opened, kept for it while there is none."""
        self.streams.standalone.send(one_line(encode_notification(method, params)))

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client on the stream that a GET opened."""
        check_capability(self.dialect, method, params)
        if not self.streams.standalone.attached:
            raise Fault("UPSTREAM_UNAVAILABLE", "the client listens on no stream on which it could be asked")
        id_, future = self.expect()
        self.streams.standalone.send(one_line(encode_request(id_, method, params)))
        future.add_done_callback(lambda done: self._asked_beside(id_, done))
        return future

    def expect(self) -> tuple[int, asyncio.Future[bytes]]:
        """An id for a request to the client, and what its answer will settle."""
        if len(self._asked) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", "too many requests wait for this client's answers", retry_after_ms=1000)
        self._next_ask += 1
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[self._next_ask] = future
        return self._next_ask, future

    def unexpect(self, id: int) -> None:
        """The answer is no longer waited for."""
        self._asked.pop(id, None)

    def _asked_beside(self, id: int, done: asyncio.Future[bytes]) -> None:
        self.unexpect(id)
        if done.cancelled():
            self.notify(CANCELLED, withdrawal(id, why_cancelled(done, "the answer is no longer wanted")))

    def on_response(self, answer: Result | Failure) -> None:
        """The client answered something. What nobody waits for is dropped."""
        future = self._asked.pop(answer.id, None) if isinstance(answer.id, int) else None
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
        self.used_at = self._clock()
        opened = self.opened
        if id_ in opened:
            raise Fault("INVALID_REQUEST", f"id {id_!r} is already in use by an open request")
        if len(opened) >= self._limits.pending:
            raise Fault("RESOURCE_EXHAUSTED", "too many open requests in this session", retry_after_ms=1000)
        opened[id_] = exchange

    def close(self, reason: str) -> None:
        """Everything that was open in it is over."""
        self.over = True
        for exchange in list(self.opened.values()):
            exchange.cancel(reason)
        for future in list(self._asked.values()):
            future.cancel()
        self._asked.clear()
        self.streams.close()


class Sessions:
    """All sessions, counted per owner."""

    def __init__(
        self, limits: Limits, bounds: HttpBounds, closed: Callable[[Session], None], clock: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._bounds = bounds
        self._closed = closed
        self._clock = clock
        self._by_id: dict[str, HttpSession] = {}
        self._per_owner: Counter[str] = Counter()
        self._budget = ReplayBudget(bounds.replay_total_bytes)

    def __len__(self) -> int:
        return len(self._by_id)

    def open(self, caller: Caller, dialect: Dialect) -> HttpSession:
        """A new session, with an id that cannot be guessed. Raises RESOURCE_EXHAUSTED."""
        bounds = self._bounds
        if len(self._by_id) >= bounds.sessions or self._per_owner[caller.owner] >= bounds.sessions_per_owner:
            raise Fault(
                "RESOURCE_EXHAUSTED",
                "too many sessions are open",
                hint="end sessions that are no longer needed with DELETE",
                retry_after_ms=10_000,
            )
        streams = Streams(bounds, self._budget, primes=dialect.revision is R2025_11_25)
        id_ = secrets.token_urlsafe(24)
        session = HttpSession(id_, caller, dialect, streams, self._limits, self._clock)
        self._by_id[session.id] = session
        self._per_owner[caller.owner] += 1
        return session

    def find(self, id: bytes, caller: Caller) -> HttpSession:
        """A session of this caller's. Raises SESSION_UNKNOWN, for another owner's in the same words."""
        session = self._by_id.get(id.decode("latin-1"))
        if session is None or session.caller.owner != caller.owner:
            raise Fault("SESSION_UNKNOWN", "no such session", hint="open a new one with initialize")
        session.touch()
        return session

    def close(self, session: HttpSession, reason: str) -> None:
        """End a session, and tell the service."""
        if self.discard(session):
            session.close(reason)
            self._closed(session)

    def discard(self, session: HttpSession) -> bool:
        """Drop a session that the service never took, or that is ending. False if it was gone already."""
        if self._by_id.pop(session.id, None) is None:
            return False
        owner = session.caller.owner
        self._per_owner[owner] -= 1
        if not self._per_owner[owner]:
            del self._per_owner[owner]
        return True

    def expire(self) -> None:
        """End the sessions that nobody has used for long."""
        oldest = self._clock() - self._bounds.session_idle_s
        for session in list(self._by_id.values()):
            if session.used_at < oldest and not session.opened and not session.streams.attached:
                self.close(session, "the session was idle for too long")

    def hang_up(self) -> None:
        """Let go of the clients that merely listen."""
        for session in self._by_id.values():
            session.streams.standalone.hang_up()

    def close_all(self, reason: str) -> None:
        """The server stops."""
        for session in list(self._by_id.values()):
            self.close(session, reason)


def _members(raw: bytes) -> dict[str, object]:
    """A peer's error data, where it is an object."""
    try:
        return msgspec.json.decode(raw, type=dict[str, object]) if raw else {}
    except msgspec.DecodeError:
        return {}

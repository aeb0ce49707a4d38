"""One request of a client in the same process: the service's answer, its notifications and questions, its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.transports.drain import Drain
from interlock.transports.exchange import AdmittedCaller, OpenExchange, TransportSession
from interlock.transports.link import Outgoing, Sink
from interlock.transports.sessions.session import ClientAnswer
from interlock.wire.conversation import NAMES_REQUEST, PROGRESS
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Failure, Id, Request, Result

_NO_PREVIEW = RequestPreview()


class ExchangeLink(Protocol):
    """The client's link."""

    def later(self, action: Callable[..., object], *arguments: object) -> None:
        """Do something in the next turn of the loop."""

    def ask(self, dialect: Dialect, method: str, params: bytes, take: Callable[[Request], None]) -> ClientAnswer:
        """Have `take` get a request of the service."""

    def finish(self, exchange: MemoryExchange, answer: Result | Failure) -> None:
        """Pass on the one answer to a request."""

    def expire(self, exchange: MemoryExchange) -> None:
        """End a request whose deadline has passed."""

    def find(self, id: Id) -> OpenExchange | None:
        """An open request by its id."""


class MemoryExchange(OpenExchange):
    """A request that waits for its answer."""

    __slots__ = (
        "_accepts",
        "_asks",
        "_deadline",
        "_drain",
        "_extension",
        "_latest",
        "_least",
        "_link",
        "_open",
        "_paused",
        "sink",
    )

    dialect: Dialect

    def __init__(
        self, link: ExchangeLink, request: Request, outgoing: Outgoing, sink: Sink, caller: AdmittedCaller
    ) -> None:
        # Dialect and session are only known once the request has been looked at, in `admit`.
        super().__init__(request, _NO_PREVIEW, None, caller, None, None)  # type: ignore[arg-type]
        loop = asyncio.get_running_loop()
        self.sink = sink
        self._link = link
        self._asks: list[asyncio.Future[bytes]] = []
        self._accepts = outgoing.accepts
        self._drain = Drain()
        self._paused = False
        self._open = True
        self._extension = outgoing.deadline - loop.time()
        """Seconds from now that progress moves the deadline to."""
        self._least = 0.0
        """The deadline is never earlier than this."""
        self._latest = outgoing.deadline if outgoing.max_deadline is None else outgoing.max_deadline
        self._deadline = loop.call_at(outgoing.deadline, link.expire, self)

    def admit(self, view: RequestPreview, dialect: Dialect, session: TransportSession | None) -> None:
        """Set what is known once the request was read."""
        self.preview, self.dialect, self.session = view, dialect, session

    # The service calls these.

    @property
    def open(self) -> bool:
        return self._open

    def result(self, result: bytes) -> None:
        self._end(Result(self.request.id, result))

    def fail(self, fault: Fault) -> None:
        self._end(Failure(self.request.id, fault.render(self.dialect.error_dialect)))

    def pass_failure(self, error: ErrorObject) -> None:
        self._end(Failure(self.request.id, error))

    def notify(self, method: str, params: bytes) -> None:
        if not self._open:
            return
        if method == PROGRESS or method in self._accepts:
            self._move_deadline()
        elif method in NAMES_REQUEST:
            return
        self._link.later(self.sink.on_notification, method, params)

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        waiter = self._link.ask(self.dialect, method, params, self.sink.on_request)
        self._asks.append(waiter)
        return waiter

    def drained(self) -> asyncio.Future[None] | None:
        return self._drain.wait() if self._paused and self._open else None

    @property
    def conversation(self) -> object:
        return self._link

    def sibling(self, id: Id) -> OpenExchange | None:
        return self._link.find(id)

    # The link calls these.

    def hold(self, *, on: bool) -> None:
        """The sink takes no more notifications for now, or takes them again."""
        self._paused = on
        if not on:
            self._drain.release()

    def extend(self, deadline: float) -> None:
        """Move the deadline: the request does not expire before it."""
        self._least = deadline
        self._expire_at(deadline)

    def _end_without_answer(self) -> None:
        self._close()

    def _end(self, answer: Result | Failure) -> None:
        if self._close():
            self._link.finish(self, answer)

    def _close(self) -> bool:
        """Cancel everything that belongs to the request. False where it was over already."""
        was_open, self._open = self._open, False
        self._drain.release()
        self.on_cancel = None
        self._deadline.cancel()
        for waiter in self._asks:
            waiter.cancel()
        self._asks.clear()
        return was_open

    def _move_deadline(self) -> None:
        """Wait longer, since the request is getting on, up to its last deadline."""
        now = asyncio.get_running_loop().time()
        self._expire_at(max(self._least, min(now + self._extension, self._latest)))

    def _expire_at(self, deadline: float) -> None:
        self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_at(deadline, self._link.expire, self)

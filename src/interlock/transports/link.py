"""The contract of client halves: a link is a connection to one server, by any transport.

Callbacks come on the event loop's thread. A request ends with exactly one of `on_response` and `on_lost`, by its
deadline.
"""

from __future__ import annotations

import abc
from typing import Protocol

import msgspec

from interlock.protocols.mcp.meta import PROGRESS_TOKEN, with_meta
from interlock.protocols.mcp.methods import IDEMPOTENT
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Failure, Id, Request, Result


class Outgoing(msgspec.Struct):
    """A request for a server."""

    method: str
    params: bytes
    deadline: float
    """When to give up, by the loop's clock."""
    name: str | None = None
    """The value of `Mcp-Name`, for methods that have one."""
    param_headers: tuple[tuple[str, str], ...] = ()
    """`Mcp-Param-*` headers, for HTTP in the stateless era."""
    wants_progress: bool = False
    """The link sets a progress token of its own, unique on it, and hands progress to the sink."""
    max_deadline: float | None = None
    """Progress moves the deadline on, but never beyond this."""
    introduced: bool = False
    """The params are known to carry the `_meta` of the stateless era already."""
    patience: float = 0.0
    """How many seconds from now progress moves the deadline to."""
    rest: bytes | None = None
    """The second part of params in two parts: it follows the link's progress token, a member of `_meta`."""
    idempotent: bool | None = None
    """Whether it may be sent twice; None where its method decides."""
    accepts: frozenset[str] = frozenset()
    """The notifications naming this request that its sink accepts. They move the deadline as progress does."""

    @property
    def again(self) -> bool:
        """Whether it may be sent twice."""
        return self.method in IDEMPOTENT if self.idempotent is None else self.idempotent

    def be_patient(self, seconds: float) -> None:
        """Let progress move the deadline to so many seconds from then."""
        self.patience = seconds

    def with_token(self, token: int) -> bytes:
        """The params with this progress token in them."""
        if self.rest is not None:
            return b"".join((self.params, b'"progressToken":%d' % token, self.rest))
        return with_meta(self.params, {PROGRESS_TOKEN: token})


class Sink(Protocol):
    """Receives the answer to one request."""

    def on_response(self, answer: Result | Failure) -> None:
        """The answer. `answer.id` is the link's own, not the caller's."""

    def on_notification(self, method: str, params: bytes) -> None:
        """A notification about this request: its progress, one that names it, or one on its own stream."""

    def on_request(self, request: Request) -> None:
        """A request of the server on this request's own stream. Answer with `link.answer` or `link.refuse`."""

    def on_lost(self, fault: Fault) -> None:
        """No answer will come. UPSTREAM_UNAVAILABLE: the request was never sent. OUTCOME_UNKNOWN: it was sent.
        UPSTREAM_TIMEOUT: the deadline passed, and the server was notified. SESSION_UNKNOWN: the server lost the
        session."""


class SessionRecovery(Protocol):
    """Opens sessions with a server."""

    def session_lost(self, id: Id, outgoing: Outgoing, sink: Sink, session: str) -> bool:
        """A request was refused because its session is gone. True where this object answers its sink."""


class Listener(Protocol):
    """Receives messages that belong to no request of ours."""

    def on_notification(self, method: str, params: bytes) -> None:
        """Take a notification that belongs to no request of ours."""

    def on_request(self, request: Request) -> None:
        """Take a request that belongs to no request of ours. It must be answered."""

    def on_closed(self, fault: Fault) -> None:
        """The link is gone for good. Called once, after all sinks."""

    def on_log(self, stream: str, text: str) -> None:
        """A line for the operator: output on stderr, or unreadable output on stdout."""


class Link(abc.ABC):
    """A connection to a server, over any transport: sends requests, and hands each answer to its sink."""

    listener: Listener

    @abc.abstractmethod
    def send(self, outgoing: Outgoing, sink: Sink) -> Id:
        """Send a request. Returns the handle to cancel it by. Raises RESOURCE_EXHAUSTED or UPSTREAM_UNAVAILABLE."""

    @abc.abstractmethod
    def cancel(self, handle: Id, reason: str) -> None:
        """Stop waiting, and notify the server as the era says. The sink gets no further calls."""

    @abc.abstractmethod
    def extend(self, handle: Id, deadline: float) -> None:
        """Change the deadline of a request, as its server waits for an answer of ours."""

    @abc.abstractmethod
    def hold(self, handle: Id, *, on: bool) -> None:
        """Pause the notifications of a request, or resume them. Paused ones stay with the server, where that delays no
        other request."""

    @abc.abstractmethod
    def tell(self, method: str, params: bytes) -> None:
        """Send a notification."""

    @abc.abstractmethod
    def answer(self, id: Id, result: bytes) -> None:
        """Answer a request of the server."""

    @abc.abstractmethod
    def refuse(self, id: Id, error: ErrorObject) -> None:
        """Refuse a request of the server."""

    @abc.abstractmethod
    async def close(self) -> None:
        """End the link. Every waiting sink gets `on_lost` first."""

    @property
    @abc.abstractmethod
    def pending(self) -> int:
        """Requests that wait for an answer."""

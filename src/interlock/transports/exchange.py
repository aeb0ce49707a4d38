"""The contract of server halves: a transport reads requests, a service answers them, and an exchange is one of them.

Everything here is called on the event loop's thread and returns at once. No task is made for a request unless the
service makes one.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeAlias

import msgspec

from interlock.protocols.mcp.capabilities import missing_capability
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.transports.sessions.session import AdmittedCaller as AdmittedCaller
from interlock.transports.sessions.session import C, C_co, S, S_co, SessionChannel, SessionEnd
from interlock.transports.sessions.session import TransportSession as TransportSession
from interlock.transports.sessions.states import SessionEvent
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.ids import Worker
from interlock.wire.large import JoinedArray
from interlock.wire.messages import EMPTY_OBJECT, Id, Notification, Request

GONE: Final = "the client closed the connection"


def why_cancelled(answer: asyncio.Future[bytes], otherwise: str = "") -> str:
    """The reason of a cancelled answer; `otherwise` if it was not cancelled, or without a reason."""
    if not answer.cancelled():
        return otherwise
    try:
        answer.result()
    except asyncio.CancelledError as given_up:
        reason = given_up.args[0] if given_up.args else None
        return reason if isinstance(reason, str) else otherwise
    return otherwise


NEEDS_CLIENT: Final = "use an MCP client that supports elicitation and sampling"


def check_capability(dialect: Dialect, method: str, params: bytes) -> None:
    """Check that the client declared the capability to answer a method. Raises MISSING_CAPABILITY."""
    if not dialect.capabilities.can_answer(method, params):
        raise Fault(
            "MISSING_CAPABILITY",
            f"the tool asks the client ({method}), and the client does not support that",
            hint=NEEDS_CLIENT,
            data={"requiredCapabilities": missing_capability(method, params)},
        )


def check_can_ask(dialect: Dialect, method: str, params: bytes) -> None:
    """Check that a client on one stream can be asked. Raises MISSING_CAPABILITY, or INTERNAL_ERROR: in the stateless
    era, a result asks the client."""
    if dialect.modern:
        raise Fault("INTERNAL_ERROR", "servers do not send requests in the stateless era")
    check_capability(dialect, method, params)


def unanswered(method: str, where: str) -> Fault:
    """The fault for a server that asks the client where no client can answer."""
    message = f"the tool asks the client ({method}), which cannot be answered {where}"
    return Fault("MISSING_CAPABILITY", message, hint=NEEDS_CLIENT)


class SessionExchange(abc.ABC, Generic[S_co, C_co]):
    """One request on its way to an answer. It ends with exactly one of `result`, `fail` and `pass_failure`.

    After a cancellation, everything that is sent is dropped.
    """

    __slots__ = ("caller", "dialect", "headers", "on_cancel", "preview", "request", "session")

    def __init__(
        self,
        request: Request,
        preview: RequestPreview,
        dialect: Dialect,
        caller: C_co,
        session: S_co | None,
        headers: Mapping[bytes, bytes] | None,
    ) -> None:
        self.request = request
        self.preview = preview
        self.dialect = dialect
        self.caller = caller
        self.session = session
        self.headers = headers
        """The HTTP headers, lower-case, or None where the transport has none."""
        self.on_cancel: Callable[[str], None] | None = None
        """Called once, with the reason, when the client no longer wants the answer."""

    def speak(self, dialect: Dialect) -> None:
        """Answer in this dialect from now on."""
        self.dialect = dialect

    def readmit(self, caller: C_co) -> None:  # type: ignore[misc]
        """Serve the request for the caller as admitted again."""
        self.caller = caller

    @property
    def reachable(self) -> bool:
        """Whether an answer would reach the client now, as far as the transport can tell."""
        return True

    @property
    def can_answer_now(self) -> bool:
        """Whether an answer is wanted and would reach the client now. Checked before a one-time answer is used up."""
        return self.open and self.reachable

    @property
    def can_answer_later(self) -> bool:
        """Whether an answer is wanted and can reach the client: now, or when the client comes back to its stream."""
        return self.can_answer_now

    @abc.abstractmethod
    def result(self, result: bytes) -> None:
        """The good answer: the result object as JSON."""

    def result_list(self, head: bytes, listed: JoinedArray) -> None:
        """The good answer whose last member is a list of possibly megabytes: `head` is the part before the list.

        A transport that can write both parts one after the other copies neither.
        """
        self.result(b"".join((head, listed.octets, b"}")))

    @abc.abstractmethod
    def fail(self, fault: Fault) -> None:
        """The bad answer, in the client's own dialect."""

    @abc.abstractmethod
    def pass_failure(self, error: ErrorObject) -> None:
        """The bad answer with the unchanged error of a server behind the hub."""

    @abc.abstractmethod
    def notify(self, method: str, params: bytes) -> None:
        """Tell the client something about this request, before its answer."""

    @abc.abstractmethod
    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client something this request needs, on its own stream (handshake era only).

        Raises MISSING_CAPABILITY when the client did not say that it answers this. The future fails with a `Fault`
        when the client refuses, and is cancelled with the exchange.
        """

    @property
    @abc.abstractmethod
    def open(self) -> bool:
        """Whether an answer is still wanted."""

    def drained(self) -> asyncio.Future[None] | None:
        """None while the client keeps up with notifications. Otherwise a future that completes when it reads again, or
        has gone. A sender of many notifications waits for it."""
        return None

    def release_params(self) -> None:
        """Free the params, which may have megabytes: they were read, and the request stays open for long."""
        self.request = msgspec.structs.replace(self.request, params=EMPTY_OBJECT)
        self.preview = RequestPreview(meta=self.preview.meta)

    def close_stream(self) -> None:
        """Close the client's connection, if the client can come back for the answer."""
        return

    def revoke(self, fault: Fault, reason: str) -> None:
        """Answer with an error, and stop the work."""
        on_cancel = self.on_cancel
        self.fail(fault)
        if on_cancel is not None:
            on_cancel(reason)

    @property
    def conversation(self) -> object | None:
        """The conversation in which the request's id is unique; None where each request stands alone."""
        return self.session

    def sibling(self, id: Id) -> OpenExchange | None:
        """Another open request of the same conversation."""
        return None


def session_of(exchange: SessionExchange[S, AdmittedCaller], hint: str = "") -> S:
    """The session of a request. Raises METHOD_NOT_FOUND, for methods that only sessions have."""
    if exchange.session is None:
        raise Fault("METHOD_NOT_FOUND", f"{exchange.request.method} needs a session", hint=hint)
    return exchange.session


Exchange: TypeAlias = SessionExchange[TransportSession, AdmittedCaller]
"""A request to a service, whichever types its sessions and callers have."""


class OpenExchange(Exchange):
    """The exchange that a transport makes. It can be cancelled."""

    def cancel(self, reason: str) -> None:
        """End it without an answer, and stop the work."""
        if self.open:
            on_cancel = self.on_cancel
            self._end_without_answer()
            if on_cancel is not None:
                on_cancel(reason)

    @abc.abstractmethod
    def _end_without_answer(self) -> None:
        """End the request without telling the service."""

    def abort(self, end: SessionEnd) -> None:
        """Answer that the session has ended, and stop the work."""
        self.revoke(end.fault(self.request.method), end.reason)


class SessionService(Protocol[S, C]):
    """A server with tools of its own, or the hub. `S` is the type of its sessions, `C` that of its callers."""

    @property
    def worker(self) -> Worker:
        """The node and worker that ids of its sessions and streams name."""

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> C:
        """The caller at this address. Raises AUTH_REQUIRED, AUTH_EXPIRED, ACCESS_DENIED or METHOD_NOT_FOUND."""

    def prepare_session(self, caller: C, dialect: Dialect) -> asyncio.Future[None] | None:
        """Begin the slow work that `open_session` needs. None if there is none."""

    def open_session(self, channel: SessionChannel, caller: C, dialect: Dialect) -> tuple[S, bytes]:
        """Open a session. Returns it with the InitializeResult as JSON. Raises RESOURCE_EXHAUSTED."""

    def serve(self, exchange: SessionExchange[S, C]) -> None:
        """Answer a request, now or later. Intake has checked it; `initialize` and `ping` never come here."""

    def on_notification(self, caller: C, session: S | None, notification: Notification) -> None:
        """Take a notification that concerns no open request."""

    def check_rate(self, caller: C) -> None:
        """Raises RATE_LIMITED if no request of the caller would be served now. Called before a large body is read."""

    def count_malformed(self, caller: C) -> None:
        """Count an invalid request for the caller's rates, like any other. Raises RATE_LIMITED."""

    def resume_session(self, channel: SessionChannel, id: str, caller: C) -> S | None:
        """Continue a session of the same caller that an earlier run of the service opened; None for any other id."""

    def end_session(self, session: S, event: SessionEvent, reason: str) -> None:
        """End a session, unless it is over already. Closes its channel."""


Service: TypeAlias = SessionService[Any, Any]
"""A service as a transport sees it. A transport returns to a service only sessions that this service opened, and
callers that it admitted."""

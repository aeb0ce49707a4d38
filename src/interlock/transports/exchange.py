"""The server half's contract: a transport takes requests in, a service answers them, an exchange is one of them.

Everything here is called on the event loop's thread and returns at once. No task is made for a request unless the
service makes one.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from interlock.protocols.mcp.capabilities import missing_capability
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Notification, Request

GONE: Final = "the client closed the connection"


class Caller(Protocol):
    """Who is asking, as the service that admitted them knows it. Transports only compare owners."""

    @property
    def owner(self) -> str:
        """Whose sessions, streams and handles these are. Another owner's are unknown to this caller."""


def why_cancelled(answer: asyncio.Future[bytes], otherwise: str = "") -> str:
    """What was said when an answer was given up; `otherwise` where it was not, or nothing was said of it."""
    if not answer.cancelled():
        return otherwise
    try:
        answer.result()
    except asyncio.CancelledError as given_up:
        said = given_up.args[0] if given_up.args else None
        return said if isinstance(said, str) else otherwise
    return otherwise


def check_capability(dialect: Dialect, method: str, params: bytes) -> None:
    """A client is only asked what it declared that it answers. Raises MISSING_CAPABILITY."""
    if not dialect.capabilities.can_answer(method, params):
        raise Fault(
            "MISSING_CAPABILITY",
            f"the client did not declare that it answers {method}",
            data={"requiredCapabilities": missing_capability(method, params)},
        )


class Session(abc.ABC):
    """A conversation that a handshake opened (handshake era only). Ends with its transport, a DELETE, or idleness."""

    __slots__ = ("caller", "dialect", "id", "initialized", "state")

    def __init__(self, id: str, caller: Caller, dialect: Dialect) -> None:
        self.id = id
        self.caller = caller
        self.dialect = dialect
        self.initialized = False
        self.state: object = None
        """The service's own, for whatever it keeps per session."""

    @abc.abstractmethod
    def notify(self, method: str, params: bytes) -> None:
        """Tell the client something that belongs to no request of its own. Dropped when it has no stream for it."""

    @abc.abstractmethod
    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        """Ask the client something that belongs to no request of its own. Raises or fails with a `Fault`."""


class Exchange(abc.ABC):
    """One request on its way to an answer. It ends with exactly one of `result`, `fail` and `pass_failure`.

    After a cancellation or a disconnect that cancels, everything sent is dropped silently.
    """

    __slots__ = ("caller", "dialect", "headers", "on_cancel", "preview", "request", "session")

    def __init__(
        self,
        request: Request,
        preview: RequestPreview,
        dialect: Dialect,
        caller: Caller,
        session: Session | None,
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

    @abc.abstractmethod
    def result(self, result: bytes) -> None:
        """The good answer: the result object as JSON."""

    @abc.abstractmethod
    def fail(self, fault: Fault) -> None:
        """The bad answer, in the client's own dialect."""

    @abc.abstractmethod
    def pass_failure(self, error: ErrorObject) -> None:
        """The bad answer of a server behind us, as it came."""

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


class OpenExchange(Exchange):
    """An exchange of a transport's own, which ends when nobody wants its answer."""

    @abc.abstractmethod
    def cancel(self, reason: str) -> None:
        """Its answer is no longer wanted, or nobody can give it any more."""

    def client_gone(self) -> None:
        """Its client has gone."""
        self.cancel(GONE)


class Service(Protocol):
    """Whatever answers: a server with tools of its own, or the hub."""

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> Caller:
        """Who this is, at this address. Raises AUTH_REQUIRED, AUTH_EXPIRED, ACCESS_DENIED or METHOD_NOT_FOUND."""

    def initialize(self, session: Session) -> bytes:
        """Open a session: the InitializeResult as JSON. `session.dialect` says what was agreed."""

    def serve(self, exchange: Exchange) -> None:
        """Answer a request, now or later. Intake has checked it; `initialize` and `ping` never come here."""

    def on_notification(self, caller: Caller, session: Session | None, notification: Notification) -> None:
        """Take a notification that concerns no open request."""

    def check_rate(self, caller: Caller) -> None:
        """Raises RATE_LIMITED where nothing of the caller would be served now. Asked before much is read."""

    def count_malformed(self, caller: Caller) -> None:
        """A request of the caller could not be read: it counts like any other. Raises RATE_LIMITED."""

    def on_session_closed(self, session: Session) -> None:
        """A session is over."""

"""A session in its two halves: the service's `TransportSession`, and the transport's `SessionChannel` to the client.

A service makes the session and may give it a type of its own; a transport makes the channel. Each knows the other by
its type, so neither half searches for the other.
"""

from __future__ import annotations

import abc
import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.methods import IDEMPOTENT
from interlock.transports.sessions.states import SessionEvent, SessionState, step
from interlock.wire.errors import Fault
from interlock.wire.messages import Id

BACK_MS: Final = 2_000
"""When a service that stops may be back."""
_HANDLE_DIGITS: Final = 12


class AdmittedCaller(Protocol):
    """The caller, as the service that admitted it knows it. Transports only compare names."""

    @property
    def principal_name(self) -> str:
        """The name of its principal. Sessions, streams and handles of another principal are unknown to this caller."""


class ClientAnswer(asyncio.Future[bytes]):
    """A client's answer to a request of the service, and the id that the request was sent under."""

    def __init__(self, id: Id, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop=loop)
        self.id = id


class SessionEnd(msgspec.Struct, frozen=True):
    """How a session ended."""

    event: SessionEvent
    reason: str

    def fault(self, method: str) -> Fault:
        """The answer to a request that was open then."""
        if self.event is not SessionEvent.SHUT_DOWN:
            message = f"the session has ended: {self.reason}"
            return Fault("SESSION_UNKNOWN", message, hint="open a new one with initialize")
        # The session may go on when the service is back, so the client must not open another.
        if method in IDEMPOTENT:
            return Fault("SERVER_DRAINING", self.reason, hint="send the request again", retry_after_ms=BACK_MS)
        message = f"{self.reason}, and whether this was carried out is unknown"
        return Fault("OUTCOME_UNKNOWN", message, hint="check its effect before you repeat it")


SERVER_STOPS: Final = SessionEnd(SessionEvent.SHUT_DOWN, "the server is shutting down")
"""The end of every request and session that is open when a server stops."""


class SessionChannel(abc.ABC):
    """The transport's half: how the client of a session is reached, and what of it is open."""

    __slots__ = ("last_used",)

    transport: str
    """`http`, `sse`, `stdio` or `memory`."""

    def __init__(self, now: float) -> None:
        self.last_used = now
        """When the client last sent a request, by the clock of the registry."""

    @property
    @abc.abstractmethod
    def open_calls(self) -> int:
        """The requests of the client that are being served."""

    @property
    @abc.abstractmethod
    def open_streams(self) -> int:
        """The streams on which the client listens now."""

    @abc.abstractmethod
    def notify(self, method: str, params: bytes) -> None:
        """Tell the client something that belongs to no request of its own. Dropped when it has no stream for it."""

    @abc.abstractmethod
    def ask(self, method: str, params: bytes) -> ClientAnswer:
        """Ask the client something that belongs to no request of its own. Raises or fails with a `Fault`."""

    @abc.abstractmethod
    def close(self, end: SessionEnd) -> None:
        """The session ended: cancel and answer its open requests, close its streams, forget its id."""


class TransportSession:
    """The service's half: who speaks, how, since when, and in which state the session is."""

    __slots__ = ("caller", "channel", "dialect", "handle", "id", "since", "state")

    def __init__(self, id: str, channel: SessionChannel, caller: AdmittedCaller, dialect: Dialect) -> None:
        self.id = id
        """Known to the client alone: it is never shown."""
        self.handle = handle_of(id)
        """Names the session to operators and in the audit log. It cannot be used as the id."""
        self.channel = channel
        self.caller = caller
        self.dialect = dialect
        self.since = datetime.now(UTC)
        self.state = SessionState.OPENED

    @property
    def initialized(self) -> bool:
        """Whether the client has confirmed the handshake."""
        return self.state is SessionState.ACTIVE

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state is SessionState.ENDED

    def use_caller(self, caller: AdmittedCaller) -> None:
        """End with the credential of this caller from now on."""
        self.caller = caller

    def step(self, event: SessionEvent) -> None:
        """Take an event of the table. Raises ImpossibleTransition."""
        self.state = step(self.state, event)

    def confirm(self) -> None:
        """The client sent `notifications/initialized`."""
        if not self.over:
            self.step(SessionEvent.CONFIRM)

    def detach(self) -> None:
        """Drop the channel of an ended session, to break the reference cycle."""
        self.channel = _CLOSED

    def notify(self, method: str, params: bytes) -> None:
        """Tell the client something that belongs to no request of its own. Dropped when it has no stream for it."""
        self.channel.notify(method, params)

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        """Ask the client something that belongs to no request of its own. Raises or fails with a `Fault`."""
        return self.channel.ask(method, params)


S = TypeVar("S", bound=TransportSession)
"""The type of a service's sessions."""
S_co = TypeVar("S_co", bound=TransportSession, covariant=True)
C = TypeVar("C", bound=AdmittedCaller)
"""The type of a service's callers."""
C_co = TypeVar("C_co", bound=AdmittedCaller, covariant=True)


class _ClosedChannel(SessionChannel):
    """The channel of every session that has ended."""

    __slots__ = ()

    transport = ""

    @property
    def open_calls(self) -> int:
        return 0

    @property
    def open_streams(self) -> int:
        return 0

    def notify(self, method: str, params: bytes) -> None:
        """Drop it: nobody listens."""

    def ask(self, method: str, params: bytes) -> ClientAnswer:
        raise Fault("UPSTREAM_UNAVAILABLE", "the client's session has ended")

    def close(self, end: SessionEnd) -> None:
        """Do nothing: the session has ended already."""


_CLOSED: Final = _ClosedChannel(0.0)


def handle_of(id: str) -> str:
    """The public name of a session: node and worker as in its id, and a digest of the secret part."""
    place, dot, _ = id.rpartition(".")
    return f"{place}{dot}{hashlib.sha256(id.encode()).hexdigest()[:_HANDLE_DIGITS]}"

"""A message of a client that is a host, with its sender and its exchange, as the gates need it."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.hub.calls.call import Caller
from interlock.hub.live.client_host import ClientHost
from interlock.hub.sessions.session import Exchange, Session
from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import preview
from interlock.protocols.mcp.revisions import LATEST_LEGACY
from interlock.transports.exchange import SessionExchange, unanswered
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import Notification, Request


class HostMessage(msgspec.Struct, frozen=True):
    """One message of a client that is a host."""

    host: ClientHost
    caller: Caller
    exchange: Exchange

    @property
    def params(self) -> bytes:
        return self.exchange.request.params


class NoticeExchange(SessionExchange[Session, Caller]):
    """The exchange of a notification that is judged like a request. It has no answer, so it cannot be cancelled."""

    __slots__ = ()

    def __init__(self, notification: Notification, caller: Caller, session: Session | None) -> None:
        request = Request(0, notification.method, notification.params)
        dialect = Dialect(LATEST_LEGACY) if session is None else session.dialect
        super().__init__(request, preview(request.params), dialect, caller, session, None)

    @property
    def open(self) -> bool:
        return True

    def result(self, result: bytes) -> None:
        """No answer."""

    def fail(self, fault: Fault) -> None:
        """No answer."""

    def pass_failure(self, error: ErrorObject) -> None:
        """No answer."""

    def notify(self, method: str, params: bytes) -> None:
        """Nobody asked for progress."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise unanswered(method, "for a notification")

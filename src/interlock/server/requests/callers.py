"""Callers that show no credentials: any client of an open server, and the server's own process."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.intake import RequestPreview
from interlock.protocols.mcp.revisions import LATEST
from interlock.server.requests.session import Exchange
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import EMPTY_OBJECT, Request


class Anyone(msgspec.Struct, frozen=True):
    """An unknown caller, or one that the transport vouches for."""

    principal_name: str = "anyone"


class InProcessExchange(Exchange):
    """The exchange of a tool that its own process invokes: no client reads its reports or answers its requests."""

    __slots__ = ()

    def __init__(self) -> None:
        request = Request(0, "tools/call", EMPTY_OBJECT)
        super().__init__(request, RequestPreview(), Dialect(LATEST), Anyone("itself"), None, None)

    @property
    def open(self) -> bool:
        return True

    def result(self, result: bytes) -> None:
        """Drop it: `Server.invoke` returns the value itself."""

    def fail(self, fault: Fault) -> None:
        """Drop it: `Server.invoke` raises the error itself."""

    def pass_failure(self, error: ErrorObject) -> None:
        """Never called: no server is behind this one."""

    def notify(self, method: str, params: bytes) -> None:
        """Drop it: no client listens."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise Fault("MISSING_CAPABILITY", f"{method}: no client is connected to ask")

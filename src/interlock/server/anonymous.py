"""A request that nobody sent: a tool invoked from its own process has no client to report to, and none to ask."""

from __future__ import annotations

import asyncio

from interlock.protocols.mcp.dialect import Dialect
from interlock.protocols.mcp.meta import RequestPreview
from interlock.protocols.mcp.revisions import LATEST
from interlock.transports.exchange import Exchange
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.messages import EMPTY_OBJECT, Request


class _Itself:
    owner = "itself"


class NobodyThere(Exchange):
    """The exchange of such a call."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            Request(0, "tools/call", EMPTY_OBJECT), RequestPreview(), Dialect(LATEST), _Itself(), None, None
        )

    @property
    def open(self) -> bool:
        return True

    def result(self, result: bytes) -> None:
        """The value is returned, not answered."""

    def fail(self, fault: Fault) -> None:
        """The same holds for what goes wrong."""

    def pass_failure(self, error: ErrorObject) -> None:
        """No server is behind."""

    def notify(self, method: str, params: bytes) -> None:
        """Nobody watches."""

    def ask(self, method: str, params: bytes) -> asyncio.Future[bytes]:
        raise Fault("MISSING_CAPABILITY", f"{method}: nobody is there to ask")

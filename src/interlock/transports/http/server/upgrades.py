"""How a connection of the HTTP listener becomes one of another protocol, such as a WebSocket.

Everything that can be refused is refused before the upgrade, as HTTP. After it the HTTP connection is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from interlock.transports.http.server.answers import fault_headers
from interlock.transports.http.server.guard import GuardRefusal, Headers
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.wire.errors import Fault


class UpgradeRequest(msgspec.Struct, frozen=True):
    """The head of a request that asks for another protocol. The guard has passed it."""

    method: bytes
    target: bytes
    headers: Headers
    version: str

    def without_offer(self) -> bytes:
        """The head without the offer of another protocol, where the hub ignores it.

        The parser would end such a request with its headers. Java's client offers h2c with its first request.
        """
        lines = [b"%b %b HTTP/%b" % (self.method, self.target, self.version.encode())]
        if b"close" in self.headers.get(b"connection", b"").lower():
            lines.append(b"connection: close")
        dropped = (b"upgrade", b"connection", b"http2-settings")
        lines += [b"%b: %b" % pair for pair in self.headers.items() if pair[0] not in dropped]
        return b"\r\n".join(lines) + b"\r\n\r\n"


class UpgradedConnection(Protocol):
    """A connection after its upgrade, as its listener sees it."""

    transport: asyncio.Transport

    def take_over(self, transport: asyncio.Transport, rest: bytes, forget: Callable[[], None]) -> None:
        """Answer the upgrade, and read from now on. `rest` came behind the head; `forget` is called at the end."""

    def sweep(self, now: float) -> None:
        """Close it where it keeps us waiting for too long."""

    def shutdown(self) -> None:
        """Close it: the server stops."""


class Upgrader(Protocol):
    """Takes over the connections of one path."""

    path: str

    def admit(self, request: UpgradeRequest) -> UpgradedConnection:
        """Judge a request. Raises Fault, or AuthenticationPending where that cannot be said yet."""


class Upgradable(Protocol):
    """A connection that asks for another protocol."""

    def is_open(self) -> bool:
        """Whether it was neither refused nor lost."""

    def is_idle(self) -> bool:
        """Whether all of its requests are answered."""

    def refuse(self, refusal: GuardRefusal) -> None:
        """Answer with a refusal."""

    def hand_over(self, upgraded: UpgradedConnection, rest: bytes) -> None:
        """Leave the client to another protocol."""


class PendingUpgrade:
    """A request for another protocol, until it is admitted or refused."""

    def __init__(self, connection: Upgradable, upgrader: Upgrader, request: UpgradeRequest, rest: bytes) -> None:
        self._connection = connection
        self._upgrader = upgrader
        self._request = request
        self._rest = rest
        """Bytes that came behind the head."""

    def judge(self, *, again: bool = True) -> None:
        """Hand the connection over, or refuse; `again`: where the caller is not known yet, judge once more then."""
        connection = self._connection
        if not connection.is_open():
            return  # while its caller was looked up, the request was refused or the connection ended
        try:
            if not connection.is_idle():
                raise Fault("INVALID_REQUEST", "an upgrade cannot follow requests that are not answered yet")
            upgraded = self._upgrader.admit(self._request)
        except AuthenticationPending as pending:
            if again:
                pending.settled.add_done_callback(lambda _: self.judge(again=False))
            else:
                self._refuse(pending)
        except Fault as fault:
            self._refuse(fault)
        else:
            connection.hand_over(upgraded, self._rest)

    def _refuse(self, fault: Fault) -> None:
        headers = fault_headers(fault)
        self._connection.refuse(GuardRefusal(fault.kind.http, fault.message, fault.name, headers, fault.hint))

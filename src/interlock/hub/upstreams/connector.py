"""How one server is reached: in the era it speaks, asked what it speaks beyond MCP, and prepared before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Protocol

import msgspec

from interlock.client.connection import Connection, Prepare
from interlock.client.dial import Dial
from interlock.client.peer import Identity, Peer
from interlock.config.settings import Era, Server
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.mgp_agreement import Agreement, agreement, asking
from interlock.hub.upstreams.sharing import ConnectionKey
from interlock.transports.link import Listener
from interlock.wire.errors import Fault


class Prepared(Protocol):
    """Settles with a server what must be settled before it is used. Raises a `Fault` where it must not be."""

    def __call__(
        self, server: str, connection: Connection, agreement: Agreement | None, *, shared: bool
    ) -> Awaitable[None]:
        """`shared`: the connection is the one that all use."""


class Connector:
    """Opens the connections to one server, and remembers how it introduced itself."""

    def __init__(self, server: str, dial: Dial, identity: Identity, prepared: Prepared, logs: Logs) -> None:
        self._server = server
        self._dial = dial
        self._identity = identity
        self._prepared = prepared
        self._logs = logs
        self.peer: Peer | None = None
        """How it last introduced itself."""
        self.agreement: Agreement | None = None
        """What is spoken with it beyond MCP, as last agreed."""

    async def shared(self, ears: Listener, settings: Server, within_s: float) -> Connection:
        """The connection that all use."""
        if settings.problem is not None:
            raise Fault("SERVER_NOT_READY", settings.problem.message, hint=settings.problem.hint)
        connection = await self._open(ears, self._identity, settings, within_s, self._meet)
        self.peer = connection.peer
        return connection

    async def private(
        self, connection_key: ConnectionKey, ears: Listener, settings: Server, within_s: float
    ) -> Connection:
        """A connection for one caller alone, with the capabilities of its client."""
        identity = msgspec.structs.replace(self._identity, capabilities=asking(connection_key.capabilities))
        connection = await self._open(ears, identity, settings, within_s, self._meet_again)
        if not connection.modern:
            # Questions that name no call come on a stream of their own.
            await connection.watch(lists=False)
        return connection

    def forget(self) -> None:
        """What was found out may no longer hold: the next connection looks again."""
        self.peer = None

    async def _open(
        self, ears: Listener, identity: Identity, settings: Server, within_s: float, prepare: Prepare
    ) -> Connection:
        return await Connection.open(
            self._dial, ears, identity, pin=self._era(settings), timeout=within_s, prepare=prepare
        )

    async def _meet(self, connection: Connection) -> None:
        self.agreement, told = agreement(connection.peer.capabilities)
        if told:
            self._logs.add(self._server, "hub", told)
        connection.mgp = None if self.agreement is None else self.agreement.agreed
        await self._prepared(self._server, connection, self.agreement, shared=True)

    async def _meet_again(self, connection: Connection) -> None:
        found, _ = agreement(connection.peer.capabilities)
        connection.mgp = None if found is None else found.agreed
        await self._prepared(self._server, connection, found, shared=False)

    def _era(self, settings: Server) -> Era:
        """What was probed once is remembered; a server that changed is found out by its failing."""
        if settings.era != "auto" or self.peer is None:
            return settings.era
        return "modern" if self.peer.revision.modern else "legacy"


async def say_level(connection: Connection, level: str, within_s: float) -> None:
    """Tell a legacy server which log messages are wanted; a modern one hears of it with each request."""
    if connection.modern or not connection.peer.offers("logging"):
        return
    with contextlib.suppress(Fault):
        await connection.request("logging/setLevel", {"level": level}, timeout=within_s)

"""Opens connections to one server: in the era it speaks, with MGP negotiated, and prepared before use."""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from interlock.client.connection import Connection, Greeted, Prepare
from interlock.client.dial import Dial
from interlock.client.peer import Identity, Peer
from interlock.config.value_types import Era
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.dialer import Dialer
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.mgp_agreement import Agreement, agreement, asking
from interlock.protocols.mcp.capabilities import APPS_CAPABILITIES
from interlock.protocols.mcpl.negotiation import asked_with
from interlock.transports.link import Listener
from interlock.version import VERSION
from interlock.wire.errors import Fault

IDENTITY: Final = Identity("interlock", VERSION, asked_with(asking(APPS_CAPABILITIES)), title="Interlock")
"""How the hub introduces itself to servers. It declares MCP Apps, since some clients show them, and a server would
leave the pages out of its definitions otherwise. Other clients lose nothing: the tool's result has its own content."""


class Connector:
    """Opens the connections to one server, and remembers how it introduced itself."""

    def __init__(self, current: CurrentSettings, dialer: Dialer, hub: HubInterface, logs: Logs) -> None:
        self._current = current
        self._dialer = dialer
        self._hub = hub
        self._logs = logs
        self.peer: Peer | None = None
        """How the server last introduced itself."""
        self.agreement: Agreement | None = None
        """The MGP extensions last agreed with the server."""

    async def shared(self, listener: Listener) -> Connection:
        """Open the connection that all callers share."""
        problem = self._current.server.problem
        if problem is not None:
            raise Fault("SERVER_NOT_READY", problem.message, hint=problem.hint)
        connection = await self._open(
            self._dialer.shared(), listener, IDENTITY, self._prepare_shared, self._greeted_shared
        )
        self.peer = connection.peer
        return connection

    async def private(self, connection_key: ConnectionKey, listener: Listener) -> Connection:
        """Open a connection for one caller, with the capabilities of its client."""
        declared = connection_key.capabilities
        # A connection that all clients of a principal share is like the one that all callers share.
        capabilities = IDENTITY.capabilities if declared == b"{}" else asked_with(asking(declared))
        identity = msgspec.structs.replace(IDENTITY, capabilities=capabilities)

        async def greeted(connection: Connection) -> None:
            await self._hub.on_greeted(self._current.id, connection_key.name, connection_key.principal, connection)

        connection = await self._open(
            self._dialer.private(connection_key.principal),
            listener,
            identity,
            self._prepare_private,
            greeted,
            "legacy" if connection_key.handshake else None,
        )
        if not connection.modern:
            try:
                # Server requests that name no call arrive on a stream of their own.
                await connection.watch(lists=False)
            except BaseException:
                await connection.close()
                raise
        return connection

    async def listing(self, capabilities: bytes, listener: Listener) -> Connection:
        """Open a connection that only lists, as a client with these capabilities. It agrees on nothing beyond MCP."""
        identity = msgspec.structs.replace(IDENTITY, capabilities=capabilities)
        start_s = self._current.timeouts.start_s
        return await Connection.open(self._dialer.shared(), listener, identity, pin=self._era(), timeout=start_s)

    def forget(self) -> None:
        """Probe the era again with the next connection."""
        self.peer = None

    async def _open(
        self,
        dial: Dial,
        listener: Listener,
        identity: Identity,
        prepare: Prepare,
        greeted: Greeted,
        era: Era | None = None,
    ) -> Connection:
        start_s, era = self._current.timeouts.start_s, era or self._era()
        return await Connection.open(
            dial, listener, identity, pin=era, timeout=start_s, prepare=prepare, greeted=greeted
        )

    async def _greeted_shared(self, connection: Connection) -> None:
        await self._hub.on_greeted(self._current.id, None, "", connection)

    async def _prepare_shared(self, connection: Connection) -> None:
        self.agreement = agreement(connection.peer.capabilities)
        if self.agreement is not None and self.agreement.warning:
            self._logs.add(self._current.id, "hub", self.agreement.warning)
        await self._prepare(connection, self.agreement, shared=True)

    async def _prepare_private(self, connection: Connection) -> None:
        await self._prepare(connection, agreement(connection.peer.capabilities), shared=False)

    async def _prepare(self, connection: Connection, agreement: Agreement | None, *, shared: bool) -> None:
        connection.agree(None if agreement is None else agreement.agreed)
        await self._hub.prepare(self._current.id, connection, agreement, shared=shared)

    def _era(self) -> Era:
        """The configured era, or the one that an earlier connection found."""
        era = self._current.server.era
        if era != "auto" or self.peer is None:
            return era
        return "modern" if self.peer.revision.modern else "legacy"


async def set_log_level(connection: Connection, level: str, within_s: float) -> None:
    """Set the log level at a server of the handshake era. A stateless one gets it with each request."""
    if connection.modern or not connection.peer.offers("logging"):
        return
    with contextlib.suppress(Fault):
        await connection.request("logging/setLevel", {"level": level}, timeout=within_s)

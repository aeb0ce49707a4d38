"""The connections of one server: the shared one, and a private one for each caller that must not share.

A private connection is never handed to another owner. Each connection watches the resources its users subscribed to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.sessions.session import ConnectionKey
from interlock.hub.upstreams.commands import Reason
from interlock.hub.upstreams.connection_listeners import PrivateConnectionListener, SharedConnectionListener
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.connector import Connector, set_log_level
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.notification_dispatcher import NotificationDispatcher
from interlock.hub.upstreams.private_connections import PrivateConnections
from interlock.hub.upstreams.restarts import Restarts
from interlock.hub.upstreams.roots_use import RootsUse
from interlock.hub.upstreams.starts import Starts
from interlock.process.shared_runs import SharedRuns
from interlock.protocols.mgp.lifecycle import SHUTDOWN, shutdown_answer
from interlock.wire.errors import Fault

SHUTDOWN_ANSWER_S: Final = 1.0
"""How long a server may take to accept its shutdown. The hub ends it in any case."""


class ConnectionPool:
    """Opens, lends and closes the connections of one server."""

    def __init__(
        self,
        current: CurrentSettings,
        connector: Connector,
        dispatcher: NotificationDispatcher,
        hub: HubInterface,
        restarts: Restarts,
        starts: Starts,
        max_private: int,
    ) -> None:
        self._current = current
        self._connector = connector
        self._dispatcher = dispatcher
        self._hub = hub
        self._restarts = restarts
        self._starts = starts
        self.private = PrivateConnections(max_private)
        self.roots_use = RootsUse()
        self.shared: UpstreamConnection | None = None
        """The connection that all callers may use, while it is open and listed."""
        self.modern = False
        """Whether the server speaks the stateless era, as far as is known."""
        self.handshake: bool | None = self._untried()
        """Whether a server of the stateless era accepts the handshake too; None until it was tried, False if the
        configuration names its era, or if the server keeps no session."""
        self._keeps_sessions = True
        """False for a server of both eras that accepts the handshake and opens no session."""
        self.capabilities: dict[str, object] | None = None
        """The capabilities that the server last declared."""
        self._opened: Connection | None = None
        """The shared connection from the moment it is open, before it is published."""
        self._watching = asyncio.Lock()
        self._shared_watches = SharedRuns(self._watch_shared)

    async def connect_shared(self, ended: asyncio.Future[Fault]) -> Connection:
        """Open the shared connection. Callers get it once it is published; `ended` gets the reason when it closes."""
        listener = SharedConnectionListener(self._dispatcher, ended)
        connection = await self._connector.shared(listener)
        listener.attach(connection)
        self._opened = connection
        self.modern = connection.modern
        self.handshake, self._keeps_sessions = self._untried(), True
        self.capabilities = msgspec.json.decode(connection.peer.capabilities, type=dict[str, object])
        return connection

    def publish_shared(self) -> None:
        """Let callers use the shared connection."""
        assert self._opened is not None
        self.shared = UpstreamConnection(self._opened)

    def withdraw_shared(self) -> None:
        """Give the shared connection to no further call. Open calls keep it."""
        self.shared = None

    async def close_shared(self) -> None:
        """Take the shared connection from callers and close it."""
        opened, self._opened, self.shared = self._opened, None, None
        if opened is not None:
            await opened.close()

    async def ask_to_shut_down(self, reason: Reason, timeout_s: float) -> float:
        """Send `mgp/lifecycle/shutdown` on every connection to a process of ours that agreed on it. Wait briefly for
        the answers, and return how many seconds the server needs for its pending requests. A server at a URL has other
        users: the hub ends its connections, not the server."""
        if self._current.server.url is not None:
            return 0.0
        opened = [] if self._opened is None else [self._opened]
        private = [private.connection for private in self.private.open_connections()]
        agreed = [each for each in (*opened, *private) if each.mgp is not None and "lifecycle" in each.mgp.extensions]
        params: dict[str, object] = {"reason": reason.value, "timeout_ms": int(timeout_s * 1000)}
        requests = (each.request(SHUTDOWN, params, timeout=SHUTDOWN_ANSWER_S) for each in agreed)
        needed_s = 0.0
        for answer in await asyncio.gather(*requests, return_exceptions=True):
            accepted = shutdown_answer(answer) if isinstance(answer, bytes) else None
            if accepted is None or not accepted.accepted:
                self._dispatcher.on_log("hub", f"it did not accept its shutdown ({reason.value}); it is ended anyway")
            elif accepted.pending_requests > 0:
                needed_s = max(needed_s, accepted.estimated_drain_ms / 1000)
        return needed_s

    def forget_era(self) -> None:
        """Probe the server's era again with the next connection."""
        self._connector.forget()
        self.modern = False

    def refuses_handshake(self, fault: Fault) -> None:
        """Note that a stateless server refuses the handshake: every client speaks the stateless era with it."""
        self.handshake = False
        self._dispatcher.on_log("hub", f"every client speaks the stateless era with it: {fault.message}")

    @property
    def era_reason(self) -> str:
        """Why the shared connection uses its era, and which clients use another."""
        if self._current.server.era != "auto":
            return "the configuration says so"
        if not self.modern:
            return "the server does not speak the stateless era"
        if not self._keeps_sessions:
            return "the server keeps no session in the handshake era, so it could not ask a client there"
        if self.handshake is False:
            return "the server speaks the stateless era alone"
        tried = "" if self.handshake else ", if the server takes it"
        return f"the server speaks it; sessions of clients that answer servers use the handshake era{tried}"

    def _untried(self) -> bool | None:
        """The value of `handshake` before it was tried. A server whose configured era changes gets another pool."""
        return None if self._current.server.era == "auto" else False

    def connections(self) -> list[Connection]:
        """Every open connection, the shared one first."""
        shared = [] if self.shared is None else [self.shared.connection]
        return [*shared, *(private.connection for private in self.private.open_connections())]

    async def open_private(self, key: ConnectionKey) -> UpstreamConnection:
        """The private connection of a caller, opened if it is not there."""
        if key.asks_roots and key.session is None:
            self._separate_roots()
        return await self.private.open(key.name, key.principal, lambda: self._connect_private(key))

    def by_roots(self, key: ConnectionKey) -> bool:
        """Whether the server keeps the roots of the clients that use this connection, and no session says whose they
        are: then each call brings its own."""
        return key.asks_roots and key.session is None and self.roots_use.asked

    def _separate_roots(self) -> None:
        """Leave connections whose server learned roots within a call to the clients that have the same."""
        for name, found in self.private.items():
            if found.owner is not None and found.owner.name_by_roots != name:
                self.private.rename(name, found.owner.name_by_roots)

    async def close_private(self) -> None:
        """Close every private connection."""
        await self.private.close()

    def release(self, name: str) -> None:
        """Close a private connection whose owner left, unless it still runs tasks for the owner."""
        found = self.private.get(name)
        if found is None or found.owner is None or not found.owner.tasks:
            self.private.drop(name)

    async def set_log_level(self, name: str, level: str) -> None:
        """Pass a log level to one private connection."""
        found = self.private.get(name)
        if found is not None:
            await set_log_level(found.connection, level, self._current.discovery_s)

    async def watch_shared(self) -> Mapping[str, Fault]:
        """Subscribe to changed lists, resources and tasks on the shared connection. Returns the refused resources.

        All that wait for it share one run: a client may subscribe to a thousand resources at once, and leave again.
        """
        return await self._shared_watches.result()

    async def _watch_shared(self) -> Mapping[str, Fault]:
        """Subscribe once. Before the connection is published, a server of the handshake era is not asked for single
        resources: each is a request that it may leave unanswered."""
        async with self._watching:
            connection = self._opened
            if connection is None:
                return {}
            id_ = self._current.id
            tasks = frozenset(self._hub.watched_tasks(id_) if self.modern else ())
            early = self.shared is None and not self.modern
            uris = frozenset(() if early else self._hub.subscriptions(id_, None))
            live = self.modern and self._hub.is_live(id_)
            return await connection.watch(lists=True, uris=uris, tasks=tasks, live=live)

    async def watch_private(self, name: str | None) -> None:
        """Subscribe to resources in a caller's own process or session."""
        if name is None:
            return
        for found in self.private.open_connections():
            if found.owner is not None and found.owner.audience == name and self._tells_owner(found.connection):
                async with self._watching:
                    uris = frozenset(self._hub.subscriptions(self._current.id, name))
                    await found.connection.watch(lists=False, uris=uris)

    def _tells_owner(self, connection: Connection) -> bool:
        """Whether updates may come on a private connection alone. No other process sees a change in a process, and many
        servers over HTTP tell only the session that caused a change. Requests of the stateless era have no session."""
        return self._current.server.url is None or not connection.modern

    async def _check_session(self, connection: Connection) -> None:
        """Raise UPSTREAM_ERROR for a server that could not ask here. The stateless era lets it ask within each call."""
        if not connection.has_session:
            # Sessions that it opened before its last start say nothing about it now.
            self.handshake, self._keeps_sessions = None, False
            await connection.close()
            raise Fault("UPSTREAM_ERROR", "its handshake opened no session")

    async def _connect_private(self, key: ConnectionKey) -> UpstreamConnection:
        owner = ConnectionOwner(self._current.id, key, self._hub, self.roots_use)
        failures = self._restarts.failures(asyncio.get_running_loop().time())
        turn = self._starts.ask(failures, called=True)
        try:
            await turn.granted
            listener = PrivateConnectionListener(self._dispatcher, owner, self.private)
            connection = await self._connector.private(key, listener)
            if key.handshake:
                await self._check_session(connection)
                self.handshake = True
        finally:
            turn.end()
        owner.attach(connection)
        try:
            if key.log_level is not None:
                await set_log_level(connection, key.log_level, self._current.discovery_s)
            uris = self._hub.subscriptions(self._current.id, owner.audience)
            if uris and self._tells_owner(connection):
                await connection.watch(lists=False, uris=frozenset(uris))
        except BaseException:
            await connection.close()
            raise
        return UpstreamConnection(connection, owner)

"""One server behind the hub, put together from its supervisor, its connection pool and its notification dispatcher.

A server that is slow, dead or wrong harms only its own calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from interlock.client.oauth.login import Login
from interlock.client.peer import Peer
from interlock.config.settings import HubSettings, ServerSettings, TimeoutSettings
from interlock.hub.auth.principals import Principal
from interlock.hub.sessions.session import ConnectionKey, ConnectionUser
from interlock.hub.upstreams.audience_lists import AudienceLists
from interlock.hub.upstreams.call_outcomes import CallOutcomes
from interlock.hub.upstreams.commands import Command, StateChange
from interlock.hub.upstreams.connection_owner import UpstreamConnection
from interlock.hub.upstreams.connection_pool import ConnectionPool
from interlock.hub.upstreams.connector import Connector
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.dialer import Dialer
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.hub.upstreams.notification_dispatcher import NotificationDispatcher
from interlock.hub.upstreams.private_lists import PrivateLists
from interlock.hub.upstreams.restarts import Restarts
from interlock.hub.upstreams.server_health import ServerHealth
from interlock.hub.upstreams.sharing import connection_key, prefers_handshake
from interlock.hub.upstreams.starts import Starts
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.supervisor import Supervisor
from interlock.hub.upstreams.unavailable import fault_for_agents
from interlock.transports.stdio.client import StdioLink
from interlock.wire.errors import Fault

_NOT_ABOUT_ERAS: Final = ("RESOURCE_EXHAUSTED", "LOGIN_REQUIRED")
WITHOUT_FAULT: Final = ("healthy", "idle", "starting", "stopped")
"""The values of `Upstream.condition` of a server without a problem."""
CONDITIONS: Final = (*WITHOUT_FAULT, "degraded", "unhealthy", "down")
"""Every value of `Upstream.condition`."""


class UpstreamHubInterface(HubInterface, Protocol):
    """The hub, as its servers see it."""

    def on_state(self, upstream: Upstream, change: StateChange) -> None:
        """A server changed its state."""


class Upstream:
    """A server of the configuration, as the rest of the hub uses it."""

    def __init__(
        self,
        id: str,
        settings: ServerSettings,
        hub_settings: HubSettings,
        dialer: Dialer,
        starts: Starts,
        logs: Logs,
        hub: UpstreamHubInterface,
    ) -> None:
        self.id = id
        self.share = settings.shared_by
        self._dialer = dialer
        self.open_calls = 0
        self.last_use = 0.0
        """When the last open call ended, or the server connected, by the loop's clock."""
        self.waiting_calls = 0
        """Open calls that wait for a connection, or for the roots that it depends on."""
        self.idle: asyncio.Event | None = None
        """Set when no open call is at the server any more, if somebody waits for that."""
        self.tasks = 0
        """Tasks that run at the server, or whose outcome their principals have not fetched yet."""
        self.outcomes = CallOutcomes()
        self.health = ServerHealth(self.outcomes)
        self.hub = hub
        self._current = CurrentSettings(id, settings, hub_settings.timeouts)
        self.restarts = Restarts(settings.restart)
        self.lists = ServerLists(self._current, logs, hub)
        self._connector = Connector(self._current, dialer, hub, logs)
        self._private_lists = PrivateLists(self._current, self.lists, logs)
        dispatcher = NotificationDispatcher(id, logs, self.lists, self._private_lists, hub)
        max_private = hub_settings.limits.private_sessions_per_server
        self.pool = ConnectionPool(self._current, self._connector, dispatcher, hub, self.restarts, starts, max_private)
        self.audience_lists = AudienceLists(self._current, self._connector, self.pool, self.lists, starts, logs, hub)
        self.supervisor = Supervisor(self, self._current, self.pool, self.lists, self.restarts, starts, logs)

    def apply(self, settings: ServerSettings, timeouts: TimeoutSettings) -> None:
        """Use new settings from now on. A server that is down is started again, as they may have fixed it."""
        self._current.apply(settings, timeouts)
        self.supervisor.retry_if_down()

    async def drained(self) -> None:
        """Wait until no open call is at the server any more."""
        if self.open_calls > self.waiting_calls:
            self.idle = asyncio.Event()
            await self.idle.wait()

    def check_idle(self) -> None:
        """A call ended, or waits for a connection: wake the drain if it was the last."""
        if self.idle is not None and self.open_calls <= self.waiting_calls:
            self.idle.set()

    # Facts about the server

    def use(self, now: float) -> None:
        """The server is in use now: it connected, or must be there for a check."""
        self.last_use = now

    def add_task(self) -> None:
        """A task runs at the server."""
        self.tasks += 1

    def remove_task(self) -> None:
        """The principal of a task has its outcome, or will never have it."""
        self.tasks = max(0, self.tasks - 1)

    @property
    def settings(self) -> ServerSettings:
        return self._current.server

    @property
    def state(self) -> ServerState:
        return self.supervisor.status.state

    @property
    def since(self) -> datetime:
        """When the state last changed."""
        return self.supervisor.status.since

    @property
    def problem(self) -> Fault | None:
        """Why the server is down, with the fix."""
        return self.supervisor.status.problem

    @property
    def given_up(self) -> bool:
        """Whether the server stays down after too many restarts."""
        return self.supervisor.plan.given_up

    @property
    def stopped(self) -> Command | None:
        """The command that stopped the server, while the server stays stopped."""
        return self.supervisor.stopped

    @property
    def refused(self) -> bool:
        """Whether the server is down because it was denied a permission that it needs."""
        return self.state is ServerState.ERROR and self.problem is not None and self.problem.name == "PERMISSION_DENIED"

    @property
    def needs_login(self) -> bool:
        """Whether a person must log in before the server can be used."""
        if self.problem is not None and self.problem.name == "LOGIN_REQUIRED":
            return True
        return self._dialer.login is not None and self._dialer.login.wanted is not None

    @property
    def wanted_login(self) -> Login | None:
        """The login that a connected server needs for some of its calls or lists."""
        login = self._dialer.login
        return login if login is not None and login.wanted is not None and self.problem is None else None

    def on_login(self) -> None:
        """A person has logged in: start the server if it waited for that."""
        self.supervisor.on_login()

    def login_page(self, principal: str, by: Principal) -> str | None:
        """A page where a person logs in, for a caller; None where the hub has none that a browser may open."""
        return self._dialer.login_page(principal, by)

    @property
    def starting(self) -> bool:
        """Whether the server is starting and was never listed."""
        return self.supervisor.starting

    @property
    def usable(self) -> bool:
        """Whether a call reaches the server now, or starts it: it is connected, or waits for its first call."""
        if self.state is ServerState.CONNECTED:
            return True
        waits = self.state in (ServerState.REGISTERED, ServerState.DISCONNECTED)
        return waits and self.problem is None and self.stopped is None

    @property
    def condition(self) -> str:
        """Its health in one word: `idle` while it waits for a call, `starting` while it starts or comes back, `stopped`
        while somebody keeps it stopped, `down` while it cannot be called."""
        if self.state is ServerState.CONNECTED:
            return self.health.now.value
        if self.stopped is not None:
            return "stopped"
        if self.usable:
            return "idle"
        tries = self.state not in (ServerState.DISCONNECTED, ServerState.ERROR)
        return "starting" if tries and (self.problem is None or self.supervisor.plan.coming_back) else "down"

    @property
    def uptime_secs(self) -> int:
        """For how long the server has been connected; 0 while it is not."""
        if self.state is not ServerState.CONNECTED:
            return 0
        return int((datetime.now(UTC) - self.since).total_seconds())

    @property
    def peer(self) -> Peer | None:
        """How the server last introduced itself."""
        return self._connector.peer

    @property
    def agreement(self) -> Agreement | None:
        """The MGP extensions last agreed with the server."""
        return self._connector.agreement

    @property
    def modern(self) -> bool:
        """Whether the server speaks the stateless era, as far as is known."""
        return self.pool.modern

    @property
    def capabilities(self) -> dict[str, object] | None:
        """The capabilities that the server last declared."""
        return self.pool.capabilities

    @property
    def pid(self) -> int | None:
        """The process id of a server that the hub started."""
        shared = self.pool.shared
        link = None if shared is None else shared.connection.link
        return link.pid if isinstance(link, StdioLink) else None

    # Calls and connections

    def key_for(self, origin: ConnectionUser) -> ConnectionKey | None:
        """The private connection that a request or a session takes; None for the shared one."""
        by_address = self.settings.url is not None
        modern, takes_handshake = self.pool.modern, self.pool.handshake is not False
        back = modern and takes_handshake and prefers_handshake(origin.dialect, origin.session)
        key = connection_key(self.share, modern and not back, by_address, origin.caller.principal_name, origin)
        return msgspec.structs.replace(key, handshake=True) if key is not None and back else key

    async def open_connection(self, key: ConnectionKey | None) -> UpstreamConnection:
        """A connection as soon as there is one. Raises SERVER_NOT_READY with the problem and its fix.

        For a key with the handshake, a server of the stateless era that refuses it gives the shared connection. The
        caller then has to compute the key again.
        """
        shared = await self.supervisor.wait_until_connected()
        if key is None:
            return shared
        try:
            return await self.pool.open_private(key)
        except Fault as fault:
            if not key.handshake or self.pool.handshake or fault.name in _NOT_ABOUT_ERAS:
                raise fault_for_agents(fault) from fault
            self.pool.refuses_handshake(fault)
            return shared

    async def open_for_call(self, key: ConnectionKey | None) -> UpstreamConnection:
        """The same for an open call: while it waits, no drain waits for the call."""
        with self.waiting():
            return await self.open_connection(key)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """An open call waits before it is sent. No drain waits for it."""
        self.waiting_calls += 1
        self.check_idle()
        try:
            yield
        finally:
            self.waiting_calls -= 1

    def reap_private_connections(self, now: float) -> None:
        """Close private connections that were not used for the idle timeout."""
        self.pool.private.reap(now - self._current.timeouts.idle_s)

    # Subscriptions

    def lists_changed(self) -> None:
        """List the server again."""
        self.lists.changed.set()

    def changing(self, audiences: Collection[str]) -> bool:
        """Whether the server announced a change of its lists for these audiences that is not in force yet."""
        if self.state is not ServerState.CONNECTED:
            return False
        return self.lists.pending or bool(self._private_lists.reading(audiences))

    async def settled(self, audiences: Collection[str]) -> None:
        """Wait until such changes are in force, or when that takes too long."""
        if reading := self._private_lists.reading(audiences):
            # The hub reads the private list, then the one for everybody.
            await asyncio.wait(reading, timeout=2 * self._current.discovery_s)
        await self.lists.settled()

    async def subscribe(self, uris: Collection[str], connection_key: str | None) -> Mapping[str, Fault]:
        """Receive updates of resources, on the shared connection and on a private one. Returns the refused ones."""
        await self.open_connection(None)
        subscribes = self.peer is not None and self.peer.offers("resources", "subscribe")
        if not subscribes and not self.modern:
            raise Fault("METHOD_NOT_FOUND", f"{self.id} offers no subscriptions to resources")
        refused = await self.pool.watch_shared()
        if not refused.keys() >= set(uris):
            await self.pool.watch_private(connection_key)
        return {uri: refused[uri] for uri in uris if uri in refused}

    async def unsubscribe(self, connection_key: str | None) -> None:
        """Cancel the server's subscriptions that no client needs any more."""
        await self.pool.watch_shared()
        await self.pool.watch_private(connection_key)

    async def watch_again(self) -> None:
        """Subscribe to the resources and tasks that clients want now."""
        await self.pool.watch_shared()

    def on_state(self, change: StateChange) -> None:
        """Report a change of the state."""
        if change.after is ServerState.CONNECTED:
            self.health.on_connected()
        else:
            self.audience_lists.stop()
        self.hub.on_state(self, change)

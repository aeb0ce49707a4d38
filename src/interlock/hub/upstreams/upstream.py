"""One server behind the hub: kept alive as its policy says, listed when it changes, and the connections to it.

One that is slow, dead or wrong harms only its own calls. Whatever goes wrong is kept as a problem with its fix.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from interlock.client.connection import Connection
from interlock.client.dial import Dial
from interlock.client.peer import Identity, Peer
from interlock.config.settings import Server, Timeouts
from interlock.hub.catalog.offer import Offer
from interlock.hub.store_faults import fault_of
from interlock.hub.upstreams.connection_listeners import (
    CLAIMS,
    TASK_NOTICES,
    PrivateConnectionListener,
    SharedConnectionListener,
)
from interlock.hub.upstreams.connection_owner import ConnectionOwner, UpstreamConnection
from interlock.hub.upstreams.connector import Connector, Prepared, say_level
from interlock.hub.upstreams.listing import Lists, discovery_s
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.mgp_agreement import Agreement
from interlock.hub.upstreams.private_connections import PrivateConnections
from interlock.hub.upstreams.restarts import Restarts, asked_to_wait_s
from interlock.hub.upstreams.sharing import ConnectionKey
from interlock.hub.upstreams.starts import Starts, Turn
from interlock.hub.upstreams.states import ServerEvent, ServerState, step
from interlock.store import StoreError
from interlock.transports.stdio.client import StdioLink
from interlock.wire.errors import Fault

RELIST_EVERY_S: Final = 1.0
"""A server that says its lists changed is listed again at most this often, one listing at a time."""
GIVEN_UP_S: Final = 30.0
"""After too many restarts, a call may have it tried once more after so long."""
TRY_EVERY_S: Final = 1.0
"""Calls have a server that is down tried again at most this often."""
TRY_WAIT_S: Final = 5.0
"""A call waits so long for a server that was down and is tried again."""
RETRY_AFTER_MS: Final = 2000


Stepped = Callable[["Upstream", ServerState], None]
"""Hears of every change of a server's state, with the state it was in before."""


class Upstream:
    """A server of the configuration."""

    def __init__(
        self,
        id: str,
        settings: Server,
        timeouts: Timeouts,
        dial: Dial,
        identity: Identity,
        logs: Logs,
        *,
        most_private_connections: int,
        starts: Starts,
        prepared: Prepared,
        offered: Callable[[Offer], Awaitable[None]],
        updated: Callable[[str, str, str | None], None],
        subscriptions: Callable[[str, str | None], list[str]],
        stepped: Stepped = lambda *_: None,
        claimed: Callable[[str, str, bytes], None] = lambda *_: None,
    ) -> None:
        self.id = id
        self.settings = settings
        self.share = settings.share
        self.state = ServerState.REGISTERED
        self.since = datetime.now(UTC)
        self.problem: Fault | None = None
        self.open_calls = 0
        self.tasks = 0
        """Tasks at it whose outcome their owners do not have yet."""
        self.on_task_notification: Callable[[str, ConnectionOwner | None, str, bytes], None] | None = None
        """Hears what the server tells of tasks, and on whose connection."""
        self.watched_tasks: Callable[[str], list[str]] = lambda _: []
        """The tasks at it that somebody wants to hear of."""
        self.restarts = Restarts(settings.restart)
        self._starts = starts
        self._turn: Turn | None = None
        """Its start, while that waits or is under way."""
        self._called = False
        """Whether a call or a person waits for its next start."""
        self.lists = Lists(id, logs, offered)
        self.timeouts = timeouts
        """The hub's; what the server's own settings say goes before."""
        self._reach = Connector(id, dial, identity, prepared, logs)
        self._logs = logs
        self._updated = updated
        self._subscriptions = subscriptions
        self._stepped = stepped
        self._claimed = claimed
        self.modern = False
        """Whether it speaks the stateless era, as far as is known."""
        self._capabilities: dict[str, object] | None = None
        self._shared: Connection | None = None
        self.shared_connection: UpstreamConnection | None = None
        """The connection that all may use, while there is one."""
        self._private_connections = PrivateConnections(most_private_connections)
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._last_use = 0.0
        self._clock = asyncio.get_running_loop().time
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False
        self._at_once = False
        self._reached = False
        """Whether it was connected in its present or last life."""
        self.given_up = False
        """Whether it stays down after too many restarts."""
        self._not_before = 0.0
        """Until then no call has it tried again."""
        self._watching = asyncio.Lock()

    # What is known of it

    @property
    def peer(self) -> Peer | None:
        """How it last introduced itself."""
        return self._reach.peer

    @property
    def agreement(self) -> Agreement | None:
        """What is spoken with it beyond MCP, as last agreed."""
        return self._reach.agreement

    @property
    def capabilities(self) -> dict[str, object] | None:
        """What it last said it can do."""
        return self._capabilities

    @property
    def pid(self) -> int | None:
        """Its process, where it is one of ours."""
        link = None if self._shared is None else self._shared.link
        return link.pid if isinstance(link, StdioLink) else None

    @property
    def starting(self) -> bool:
        """Whether it is on its way, and nobody knows yet what it offers."""
        return not self.lists.known and self.state in (
            ServerState.CONNECTING,
            ServerState.CONNECTED,
            ServerState.RESTARTING,
        )

    # Keeping it alive

    def begin(self) -> None:
        """Look after it from now on; it is started now or when first wanted."""
        self._keeper = asyncio.create_task(self._keep(), name=f"upstream {self.id}")
        if self.settings.start == "eager":
            self._wanted.set()

    def want(self) -> None:
        """Start it now, if it does not run."""
        self._wanted.set()

    def try_again(self) -> bool:
        """Try a server that is down now, rather than after its pause. False where it has to wait, or must stay down."""
        if self._clock() < self._not_before:
            return False
        self._hurry()
        return True

    def look_again(self) -> None:
        """Try it now if it is down and may be tried again; nobody waits for it."""
        if self.state is ServerState.ERROR and self._clock() >= self._not_before:
            self._wanted.set()

    def _hurry(self) -> None:
        """Somebody waits for it."""
        if self._turn is None:
            self._called = True
        else:
            self._turn.hurry()
        self._wanted.set()

    async def restart(self) -> None:
        """End what runs and start it afresh."""
        self.restarts.forget()
        if self.state in (ServerState.CONNECTING, ServerState.CONNECTED, ServerState.RESTARTING):
            self._at_once = True
        if self._shared is not None:
            await self._shared.close()
        self._hurry()

    async def end(self, drain_s: float) -> None:
        """Let calls under way finish within the bound, then close everything. Nothing is restarted after this."""
        self._stopping = True
        if self.state is ServerState.CONNECTED:
            self._step(ServerEvent.STOP)
        if self.open_calls:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), drain_s)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._private_connections.close()
        if self.state is ServerState.DRAINING:
            self._step(ServerEvent.DRAINED)
        elif self.state is not ServerState.DISCONNECTED:
            self._step(ServerEvent.STOP)

    def call_ended(self) -> None:
        """A call to it is over."""
        self.open_calls -= 1
        if not self.open_calls:
            self._last_use = self._clock()
            if self._stopping:
                self._idle.set()

    async def _keep(self) -> None:
        event = ServerEvent.START
        while True:
            await self._wanted.wait()
            self._step(event)
            failure = await self._run()
            self._wanted.clear()
            if failure is None:
                # Unused, and closed for that: it starts again with the next call.
                self._step(ServerEvent.STOP)
                self._step(ServerEvent.DRAINED)
                event = ServerEvent.START
                continue
            at_once, self._at_once = self._at_once, False
            pause = None if at_once else self._pause_after(failure)
            self._fail(failure)
            event = ServerEvent.RETRY
            if at_once:
                self._wanted.set()
            elif pause is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), pause)
                self._wanted.set()

    def _pause_after(self, failure: Fault) -> float | None:
        """How long it stays down by itself; None until somebody has it tried again, if that is allowed at all."""
        now = self._clock()
        self._not_before = math.inf
        if self.settings.problem is not None or failure.name == "PERMISSION_DENIED":
            # Only another configuration can fix this, or a person's word.
            return None
        pause = self.restarts.next_pause(now, failed=True) if self._reached else self.restarts.pause_unreached()
        if pause is not None:
            asked = asked_to_wait_s(failure)
            self._not_before = now + max(asked, TRY_EVERY_S)
            return max(pause, asked)
        if self.settings.restart.policy == "never":
            self._logs.add(self.id, "hub", "stays down, as its restart policy is `never`")
            return None
        self.given_up = True
        self._not_before = now + GIVEN_UP_S
        self._logs.add(self.id, "hub", "stays down after too many restarts; a later call tries again")
        return None

    async def _run(self) -> Fault | None:
        """One life: connect, list, and watch until it ends. Gives why it ended; None when it was just not used."""
        ended = asyncio.get_running_loop().create_future()
        ears = SharedConnectionListener(self, ended)
        connection: Connection | None = None
        self._reached = self.given_up = False
        self._turn = turn = self._starts.ask(self.restarts.failures(self._clock()), called=self._called)
        self._called = False
        try:
            await turn.granted
            connection = await self._reach.shared(ears, self.settings, self.timeouts.start_s)
            ears.connection = connection
            self._greet(connection)
            await self.lists.read(connection, self.settings, self.timeouts)
            self._shared = connection
            self.shared_connection = UpstreamConnection(connection)
            self._end_turn(turn)
            self._reached = True
            self.restarts.reached()
            self._step(ServerEvent.READY)
            # A resource that it does not have any more is no reason not to use it.
            await self._watch_resources()
            return await self._watch(connection, ended)
        except Fault as fault:
            return fault
        except StoreError as cause:
            return fault_of(cause)
        except Exception as cause:
            # Whatever a server can bring about ends this life of it, never the looking after it.
            asyncio.get_running_loop().call_exception_handler({"message": f"over {self.id}", "exception": cause})
            return Fault("INTERNAL_ERROR", f"the hub failed over {self.id}: {cause!r}")
        finally:
            self._end_turn(turn)
            self._shared = self.shared_connection = None
            self.lists.rest()
            if connection is not None:
                await connection.close()

    def _end_turn(self, turn: Turn) -> None:
        self._turn = None
        turn.end()

    def _greet(self, connection: Connection) -> None:
        self.modern = connection.modern
        self._capabilities = msgspec.json.decode(connection.peer.capabilities, type=dict[str, object])
        self._last_use = asyncio.get_running_loop().time()

    async def _watch(self, connection: Connection, ended: asyncio.Future[Fault]) -> Fault | None:
        loop = asyncio.get_running_loop()
        while not ended.done():
            relist = asyncio.ensure_future(self.lists.changed.wait())
            patience = self.timeouts.idle_s if self.settings.start == "on-demand" else None
            both: set[asyncio.Future[Any]] = {ended, relist}
            try:
                await asyncio.wait(both, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            finally:
                relist.cancel()
            if ended.done():
                break
            if not self.lists.changed.is_set():
                if not self.open_calls and not self.tasks and loop.time() - self._last_use >= self.timeouts.idle_s:
                    return None
                continue
            begun = loop.time()
            await self.lists.read(connection, self.settings, self.timeouts)
            # From one beginning to the next: where reading takes long, nobody hears of a change later for that.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), max(0.0, begun + RELIST_EVERY_S - loop.time()))
        return ended.result()

    def _fail(self, fault: Fault) -> None:
        self.problem = fault
        self._logs.add(self.id, "hub", f"{fault.message} ({fault.name})")
        # What was probed may no longer hold: the next try looks again.
        if self.settings.era == "auto" and self.state in (ServerState.CONNECTING, ServerState.RESTARTING):
            self._reach.forget()
            self.modern = False
        self._step(ServerEvent.FAILED)

    def _step(self, event: ServerEvent) -> None:
        before, self.state = self.state, step(self.state, event)
        self.since = datetime.now(UTC)
        if self.state is ServerState.CONNECTED:
            self.problem = None
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._stepped(self, before)

    # What it offers

    def lists_changed(self) -> None:
        """It says that a list is different now."""
        self.lists.changed.set()

    # Connections to it

    @property
    def refused(self) -> bool:
        """Whether it is down because it was denied a permission that it must have."""
        return self.state is ServerState.ERROR and self.problem is not None and self.problem.name == "PERMISSION_DENIED"

    def connections(self) -> list[Connection]:
        """Every connection that is open, the shared one first."""
        shared = [] if self._shared is None else [self._shared]
        return [*shared, *(line.connection for line in self._private_connections.lines())]

    def line(self, connection_key: ConnectionKey | None) -> UpstreamConnection | None:
        """A connection that can be used right now."""
        return self.shared_connection if connection_key is None else self._private_connections.get(connection_key.name)

    def private_connection(self, name: str) -> UpstreamConnection | None:
        """A private connection, if it is there."""
        return self._private_connections.get(name)

    async def open_connection(self, connection_key: ConnectionKey | None) -> UpstreamConnection:
        """A connection as soon as there is one. Raises SERVER_NOT_READY with what is wrong and how to fix it."""
        until: float | None = None
        while (shared := self.shared_connection) is None:
            if self._stopping:
                raise Fault("SERVER_DRAINING", f"{self.id} is shutting down")
            if self.state is not ServerState.ERROR:
                self._hurry()
            elif until is not None or not self.try_again():
                raise self.down()
            changed = self._changed
            if self.problem is None:
                await changed.wait()
                continue
            # It was down: a call does not wait for it as it would for a server that just starts.
            until = until or self._clock() + TRY_WAIT_S
            try:
                await asyncio.wait_for(changed.wait(), until - self._clock())
            except TimeoutError:
                raise self.down() from None
        if connection_key is None:
            return shared
        return await self._private_connections.open(
            connection_key.name, lambda: self._open_private_connection(connection_key)
        )

    def down(self) -> Fault:
        """Why it cannot be called."""
        problem = self.problem
        reason = "" if problem is None else f" because {problem.message}"
        hint = (problem.hint if problem is not None else "") or f"see `interlock logs {self.id}`"
        left = self._not_before - self._clock()
        retry = RETRY_AFTER_MS if left == math.inf else max(RETRY_AFTER_MS, math.ceil(left * 1000))
        return Fault("SERVER_NOT_READY", f"server {self.id} is down{reason}", hint=hint, retry_after_ms=retry)

    async def _open_private_connection(self, connection_key: ConnectionKey) -> UpstreamConnection:
        """A connection for one caller alone, with the capabilities of its client."""
        owner = ConnectionOwner(self.id, connection_key.name, connection_key.session)
        ears = PrivateConnectionListener(self, owner)
        turn = self._starts.ask(self.restarts.failures(self._clock()), called=True)
        try:
            await turn.granted
            connection = await self._reach.private(connection_key, ears, self.settings, self.timeouts.start_s)
        finally:
            turn.end()
        owner.connection = connection
        if connection_key.log_level is not None:
            await self._say_level(connection, connection_key.log_level)
        own = self._subscriptions(self.id, connection_key.name)
        if own and self.settings.url is None:
            await connection.watch(lists=False, uris=frozenset(own))
        return UpstreamConnection(connection, owner)

    def on_private_connection_lost(self, connection: Connection) -> None:
        """A private connection ended by itself."""
        self._private_connections.lost(connection)

    def close_private_connection(self, connection_key: str) -> None:
        """Its owner is gone. What was begun as a task goes on until it is fetched or has expired."""
        line = self._private_connections.get(connection_key)
        if line is None or line.owner is None or not line.owner.tasks:
            self._private_connections.drop(connection_key)

    def reap_private_connections(self, now: float) -> None:
        """Close private connections that were not used for a while."""
        self._private_connections.reap(now - self.timeouts.idle_s)

    async def set_level(self, connection_key: str, level: str) -> None:
        """Pass on a log level to the private connection it is meant for."""
        line = self._private_connections.get(connection_key)
        if line is not None:
            await self._say_level(line.connection, level)

    async def _say_level(self, connection: Connection, level: str) -> None:
        await say_level(connection, level, discovery_s(self.timeouts, self.settings))

    async def subscribe(self, uri: str, connection_key: str | None) -> None:
        """Hear of updates of a resource: on the shared connection, and in the process of whoever has one to themselves.
        Raises what the server says against it."""
        await self.open_connection(None)
        if not self._said("resources", "subscribe") and not self.modern:
            raise Fault("METHOD_NOT_FOUND", f"{self.id} offers no subscriptions to resources")
        refused = await self._watch_resources()
        if uri in refused:
            raise refused[uri]
        await self._watch_own(connection_key)

    async def unsubscribe(self, connection_key: str | None) -> None:
        """Hear no more of what nobody is left for."""
        await self._watch_resources()
        await self._watch_own(connection_key)

    async def _watch_resources(self) -> Mapping[str, Fault]:
        """Tell the server what is to be heard of: changed lists, and whatever resources someone subscribed to. Gives
        those that it does not tell of."""
        async with self._watching:
            if self._shared is None:
                return {}
            tasks = frozenset(self.watched_tasks(self.id)) if self.modern else frozenset[str]()
            return await self._shared.watch(lists=True, uris=frozenset(self._subscriptions(self.id, None)), tasks=tasks)

    async def _watch_own(self, connection_key: str | None) -> None:
        """The same in a process of a caller's own: what changes there, changes in no other."""
        line = (
            None
            if connection_key is None or self.settings.url is not None
            else self._private_connections.get(connection_key)
        )
        if line is not None:
            async with self._watching:
                await line.connection.watch(lists=False, uris=frozenset(self._subscriptions(self.id, connection_key)))

    async def watch_again(self) -> None:
        """Hear of what somebody wants to hear of by now."""
        await self._watch_resources()

    def _said(self, capability: str, feature: str) -> bool:
        return self.peer is not None and self.peer.offers(capability, feature)

    def on_notification(self, method: str, params: bytes, owner: ConnectionOwner | None = None) -> None:
        """A notification that belongs to no call; `owner` is whose connection it came on, None for the shared one."""
        if method in TASK_NOTICES:
            if self.on_task_notification is not None:
                self.on_task_notification(self.id, owner, method, params)
        elif method.endswith("/list_changed"):
            self.lists_changed()
        elif method == "notifications/resources/updated":
            with contextlib.suppress(msgspec.DecodeError):
                uri = msgspec.json.decode(params, type=_Updated).uri
                self._updated(self.id, uri, None if owner is None else owner.connection_key)
        elif method in CLAIMS:
            self._claimed(self.id, method, params)
        elif method == "notifications/message":
            self._logs.add(self.id, "log", params[:2000].decode("utf-8", "replace"))

    def on_log(self, stream: str, text: str) -> None:
        """A line for the operator."""
        self._logs.add(self.id, stream, text)


class _Updated(msgspec.Struct):
    uri: str

"""Listeners: a session of the handshake era, and a `subscriptions/listen` stream of the stateless one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.hub.calls.call import Caller
from interlock.hub.handlers import claude_channel
from interlock.hub.handlers.extension_notifiers import ExtensionNotifiers
from interlock.hub.handlers.notifications import ChangeNotifier, ListName, NotificationFilter
from interlock.hub.handlers.resource_subscriptions import ResourceSubscriptions
from interlock.hub.sessions.session import Exchange, Session
from interlock.hub.tasks.handler import TaskHandler
from interlock.hub.tasks.ledger import StoredTask
from interlock.hub.tool_search.searching_clients import scope_of
from interlock.process.turns import in_turns
from interlock.protocols.mcp.meta import SUBSCRIPTION_ID, members
from interlock.protocols.mcp.tasks import extension_needed
from interlock.protocols.mcpl.live import FILTER
from interlock.protocols.mgp.negotiation import EXTENSION_KEY
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

MAX_SUBSCRIPTIONS = 1000
"""Upper bound for the resources of one stream or session, and for the tasks of one stream."""
RESOLVED_AT_ONCE = 20
"""Addresses of resources that are resolved in one turn of the loop."""


class SessionListener(msgspec.Struct, frozen=True):
    """Notifies a session. Two listeners of the same session are equal."""

    session_id: str
    list_scope: ListScope
    notify: Callable[[str, bytes], None]
    transport: str = ""

    @classmethod
    def of(cls, session: Session) -> SessionListener:
        """A listener with the list scope that the session has now."""
        list_scope = scope_of(session.caller, session.dialect, session)
        return cls(session.id, list_scope, session.notify, session.channel.transport)

    def list_changed(self, which: ListName) -> None:
        """Notify the session."""
        self.notify(f"notifications/{which}/list_changed", b"{}")

    def on_tool_request(self, event: bytes) -> None:
        """Do nothing: a session gets the outcome of its own requests as their results."""

    def on_woken(self, notice: bytes) -> None:
        """Notify a client that may listen on the channel of its session."""
        if self.transport == claude_channel.TRANSPORT and not self.list_scope.view.bare:
            self.notify(claude_channel.METHOD, notice)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionListener) and other.session_id == self.session_id

    def __hash__(self) -> int:
        return hash(self.session_id)


class ListenStream:
    """One listen stream. It is acknowledged first, then notified of its subscriptions until either side ends it."""

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        change_notifier: ChangeNotifier,
        resolve: Callable[[str], tuple[str, str] | None],
        subscriptions: ResourceSubscriptions,
        extension_notifiers: ExtensionNotifiers,
        on_ended: Callable[[ListenStream], object],
        tasks: TaskHandler,
    ) -> None:
        self.list_scope = scope_of(caller, exchange.dialect, exchange.session)
        self.principal = caller.principal
        self.principal_name = caller.principal_name
        self.since = datetime.now(UTC)
        self._caller = caller
        self._extensions = extension_notifiers
        self._exchange = exchange
        self._change_notifier = change_notifier
        self._resolve = resolve
        self._subscriptions = subscriptions
        self._on_ended = on_ended
        self._tasks = tasks
        self._followed: list[StoredTask] = []
        self._meta = {SUBSCRIPTION_ID: exchange.request.id}
        self._watched: list[tuple[str, str]] = []
        self._filter = NotificationFilter()
        self._acknowledged = False
        self._early: list[str] = []
        """Resources that changed before the stream was acknowledged."""
        self._early_tasks: dict[bytes, tuple[str, bytes]] = {}
        """The last notification of each task before the stream was acknowledged."""

    def start(self) -> Coroutine[None, None, None]:
        """Read the filter, and return the work that opens the stream. Raises INVALID_PARAMS."""
        wanted = decode_json(self._exchange.request.params, _Params, "INVALID_PARAMS", "notifications").notifications
        if len(wanted.resource_subscriptions) > MAX_SUBSCRIPTIONS:
            raise Fault("INVALID_PARAMS", f"a stream may watch at most {MAX_SUBSCRIPTIONS} resources")
        if len(wanted.task_ids) > MAX_SUBSCRIPTIONS:
            raise Fault("INVALID_PARAMS", f"a stream may watch at most {MAX_SUBSCRIPTIONS} tasks")
        if wanted.task_ids and not self._exchange.dialect.capabilities.tasks:
            raise extension_needed()
        self._exchange.on_cancel = self._leave
        self._exchange.release_params()
        return self._open(wanted)

    def list_changed(self, which: ListName) -> None:
        """Notify the client, if it requested changes of this list."""
        if self._filter.wants(which):
            self._notify(f"notifications/{which}/list_changed", {})

    def on_tool_request(self, event: bytes) -> None:
        """Notify the client of a decided request for tools, if it requested that."""
        if self._filter.mgp.tools:
            self._notify("notifications/mgp.event", dict(msgspec.json.decode(event, type=dict[str, msgspec.Raw])))

    def on_woken(self, notice: bytes) -> None:
        """Do nothing: a stream hears of events by subscribing to the resource of events."""

    def end(self, reason: str) -> None:
        """End the stream with a result, as the specification requires."""
        self._leave(reason)
        self._exchange.result(msgspec.json.encode({"resultType": "complete", "_meta": self._meta}))

    async def _open(self, wanted: NotificationFilter) -> None:
        try:
            await self._subscribe_and_acknowledge(wanted)
        except BaseException:
            self._leave("the stream could not be opened")
            raise

    async def _subscribe_and_acknowledge(self, wanted: NotificationFilter) -> None:
        subscribed = await self._subscribe(list(dict.fromkeys(wanted.resource_subscriptions)))
        self._followed = self._tasks.follow(self._exchange, self._caller, wanted.task_ids, self, self._notify_task)
        await self._tasks.watch(self._followed)
        if not self._exchange.open:
            self._leave("the client left before the stream was open")
            return
        accepted: dict[str, object] = {
            name: True
            for name, requested in (
                ("toolsListChanged", wanted.tools_list_changed),
                ("promptsListChanged", wanted.prompts_list_changed),
                ("resourcesListChanged", wanted.resources_list_changed),
            )
            if requested
        }
        if subscribed:
            accepted["resourceSubscriptions"] = subscribed
        if self._followed:
            accepted["taskIds"] = [task.id for task in self._followed]
        dialect = self._exchange.dialect
        mgp = await self._extensions.open_stream(self, self._caller, wanted.mgp, dialect, self._notify_as_is)
        if not self._exchange.open:
            self._leave("the client left before the stream was open")
            return
        if mgp:
            accepted[EXTENSION_KEY] = mgp
        live = self._extensions.hosts.granted(self._caller, dialect, wanted.live)
        if live is not None:
            accepted[FILTER] = live
        self._notify("notifications/subscriptions/acknowledged", {"notifications": accepted})
        self._acknowledged = True
        self._filter = wanted
        self._change_notifier.listen(self)
        if live is not None:
            self._extensions.hosts.open_stream(self, self._caller, dialect, live, self._notify_as_is)
        for uri in self._early:
            self._updated(uri)
        self._early.clear()
        early, self._early_tasks = self._early_tasks, {}
        for method, params in early.values():
            self._notify_task(method, params)

    async def _subscribe(self, uris: list[str]) -> list[str]:
        """Subscribe to resources. Returns those for which that was possible. Raises RESOURCE_EXHAUSTED."""
        addresses: dict[str, tuple[str, str]] = {}
        async with self._subscriptions.one_at_a_time:
            self._subscriptions.check(self.principal_name, len(uris))
            async for uri in in_turns(uris, RESOLVED_AT_ONCE):
                found = self._resolve(uri)
                if found is not None:
                    addresses[uri] = found
        # All resources of a server at once, so that the hub sends it a single request.
        servers: dict[str, dict[str, Callable[[], None]]] = {}
        for uri, (server, name) in addresses.items():
            servers.setdefault(server, {})[name] = partial(self._updated, uri)
        added = await asyncio.gather(*(self._subscribe_at(server, names) for server, names in servers.items()))
        watched = {each for names in added for each in names}
        return [uri for uri, address in addresses.items() if address in watched]

    async def _subscribe_at(self, server: str, notifiers: Mapping[str, Callable[[], None]]) -> list[tuple[str, str]]:
        try:
            refused = await self._subscriptions.add_all(server, notifiers, self, self._exchange)
        except Fault:
            return []
        added = [(server, name) for name in notifiers if name not in refused]
        self._watched += added
        return added

    def _updated(self, uri: str) -> None:
        if self._resolve(uri) is None:
            return
        if self._acknowledged:
            self._notify("notifications/resources/updated", {"uri": uri})
        elif uri not in self._early:
            self._early.append(uri)

    def _notify_task(self, method: str, params: bytes) -> None:
        fields: dict[str, object] = dict(members(params))
        if self._acknowledged:
            own = fields.pop("_meta", None)
            meta = self._meta if not isinstance(own, msgspec.Raw) else {**members(bytes(own)), **self._meta}
            self._exchange.notify(method, msgspec.json.encode({**fields, "_meta": meta}))
        else:
            self._early_tasks[bytes(members(params).get("taskId", b""))] = (method, params)

    def _notify(self, method: str, params: dict[str, object]) -> None:
        self._exchange.notify(method, msgspec.json.encode({"_meta": self._meta, **params}))

    def _notify_as_is(self, method: str, params: bytes) -> None:
        """Send a notification whose bytes are the same for every stream. The subscription id is put before them."""
        meta = msgspec.json.encode({"_meta": self._meta})
        self._exchange.notify(method, meta[:-1] + b"," + params[1:])

    def _leave(self, reason: str) -> None:
        self._change_notifier.leave(self)
        self._extensions.leave(self)
        self._extensions.hosts.close_stream(self)
        self._subscriptions.drop(self._watched, self)
        self._watched.clear()
        for task in self._followed:
            self._tasks.unfollow(task, self)
        self._followed = []
        self._on_ended(self)


class _Params(msgspec.Struct):
    notifications: NotificationFilter

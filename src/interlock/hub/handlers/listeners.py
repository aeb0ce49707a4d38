"""Listeners: a session of the handshake era, and a `subscriptions/listen` stream of the stateless one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from interlock.hub.audit.client_subscribers import AuditSubscribers
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.calls.call import Caller
from interlock.hub.handlers.notifications import ChangeNotifier, Filter, ListName
from interlock.hub.handlers.resource_subscriptions import ResourceSubscriptions
from interlock.hub.tasks.ledger import KeptTask
from interlock.protocols.mcp.meta import SUBSCRIPTION_ID, members
from interlock.protocols.mcp.tasks import extension_needed
from interlock.protocols.mgp.negotiation import EXTENSION_KEY
from interlock.transports.exchange import Exchange, Session
from interlock.wire.errors import Fault

MOST_SUBSCRIPTIONS = 1000
"""Resources that one stream may watch."""


class SessionListener(msgspec.Struct, frozen=True):
    """Tells a session. Two of the same session are the same listener."""

    session_id: str
    list_scope: ListScope
    notify: Callable[[str, bytes], None]

    @classmethod
    def of(cls, session: Session, list_scope: ListScope) -> SessionListener:
        """The listener that a session is."""
        return cls(session.id, list_scope, session.notify)

    def list_changed(self, which: ListName) -> None:
        """Say so on whatever stream the session has."""
        self.notify(f"notifications/{which}/list_changed", b"{}")

    def requested(self, event: bytes) -> None:
        """A session hears of its own requests where it made them."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionListener) and other.session_id == self.session_id

    def __hash__(self) -> int:
        return hash(self.session_id)


class FollowTasks(Protocol):
    """Whoever knows which tasks a stream may be about."""

    def follow(
        self, exchange: Exchange, ids: list[str], who: object, tell: Callable[[str, bytes], None]
    ) -> list[KeptTask]:
        """Tell of the caller's own among the ids from now on."""

    async def watch(self, tasks: list[KeptTask]) -> None:
        """See to it that their servers tell of them."""

    def unfollow(self, task: KeptTask, who: object) -> None:
        """Tell no more."""


class ListenStream:
    """One listen stream: acknowledged first, then told what it asked for, until either side ends it."""

    def __init__(
        self,
        exchange: Exchange,
        caller: Caller,
        list_scope: ListScope,
        change_notifier: ChangeNotifier,
        resolve: Callable[[str], tuple[str, str] | None],
        subscriptions: ResourceSubscriptions,
        audience: AuditSubscribers,
        gone: Callable[[ListenStream], None],
        tasks: FollowTasks,
    ) -> None:
        self.list_scope = list_scope
        self.principal = caller.principal
        self._audience = audience
        self._exchange = exchange
        self._change_notifier = change_notifier
        self._resolve = resolve
        self._subscriptions = subscriptions
        self._gone = gone
        self._tasks = tasks
        self._followed: list[KeptTask] = []
        self._meta = {SUBSCRIPTION_ID: exchange.request.id}
        self._watched: list[tuple[str, str]] = []
        self._starting: asyncio.Task[None] | None = None
        self._filter = Filter()
        self._acknowledged = False
        self._early: list[str] = []
        """Resources that were updated before the acknowledgment could be sent."""
        self._early_of_tasks: dict[bytes, tuple[str, bytes]] = {}
        """And the last that was told of each task by then."""

    def start(self) -> None:
        """Read the filter, and begin."""
        try:
            wanted = msgspec.json.decode(self._exchange.request.params, type=_Params).notifications
        except msgspec.DecodeError as cause:
            raise Fault("INVALID_PARAMS", f"notifications: {cause}") from None
        if len(wanted.resource_subscriptions) > MOST_SUBSCRIPTIONS:
            raise Fault("INVALID_PARAMS", f"a stream may watch {MOST_SUBSCRIPTIONS} resources")
        if len(wanted.task_ids) > MOST_SUBSCRIPTIONS:
            raise Fault("INVALID_PARAMS", f"a stream may watch {MOST_SUBSCRIPTIONS} tasks")
        if wanted.task_ids and not self._exchange.dialect.capabilities.tasks:
            raise extension_needed()
        self._exchange.on_cancel = self._ended
        self._starting = asyncio.ensure_future(self._begin(wanted))

    def list_changed(self, which: ListName) -> None:
        """Say so, if it was asked for."""
        if self._filter.wants(which):
            self._tell(f"notifications/{which}/list_changed", {})

    def requested(self, event: bytes) -> None:
        """Say what became of a request for tools, if that was asked for."""
        if self._filter.mgp.tools:
            self._tell("notifications/mgp.event", dict(msgspec.json.decode(event, type=dict[str, msgspec.Raw])))

    def end(self, why: str) -> None:
        """The hub ends the stream: a clean result, as the specification has it."""
        self._ended(why)
        self._exchange.result(msgspec.json.encode({"resultType": "complete", "_meta": self._meta}))

    async def _begin(self, wanted: Filter) -> None:
        # All at once, so that their servers are asked for them together.
        uris = list(dict.fromkeys(wanted.resource_subscriptions))
        honoured = [uri for uri, told in zip(uris, await asyncio.gather(*map(self._add, uris)), strict=True) if told]
        self._followed = self._tasks.follow(self._exchange, wanted.task_ids, self, self._tell_of_task)
        await self._tasks.watch(self._followed)
        if not self._exchange.open:
            self._ended("gone before it began")
            return
        accepted: dict[str, object] = {
            name: True
            for name, asked in (
                ("toolsListChanged", wanted.tools_list_changed),
                ("promptsListChanged", wanted.prompts_list_changed),
                ("resourcesListChanged", wanted.resources_list_changed),
            )
            if asked
        }
        if honoured:
            accepted["resourceSubscriptions"] = honoured
        more = {"tools": True} if wanted.mgp.tools else {}
        if self._followed:
            accepted["taskIds"] = [task.id for task in self._followed]
        if wanted.mgp.audit and self._audience.join(self, self.principal, self._exchange.dialect, self._tell_audit):
            more["audit"] = True
        if more:
            accepted[EXTENSION_KEY] = more
        self._tell("notifications/subscriptions/acknowledged", {"notifications": accepted})
        self._acknowledged = True
        self._filter = wanted
        self._change_notifier.listen(self)
        for uri in self._early:
            self._updated(uri)
        self._early.clear()
        early, self._early_of_tasks = self._early_of_tasks, {}
        for method, params in early.values():
            self._tell_of_task(method, params)

    async def _add(self, uri: str) -> bool:
        """Whether the stream will be told of a resource."""
        found = self._resolve(uri)
        if found is None:
            return False
        try:
            await self._subscriptions.add(*found, self, partial(self._updated, uri), self._exchange)
        except Fault:
            return False
        self._watched.append(found)
        return True

    def _updated(self, uri: str) -> None:
        if self._resolve(uri) is None:
            return
        if self._acknowledged:
            self._tell("notifications/resources/updated", {"uri": uri})
        elif uri not in self._early:
            self._early.append(uri)

    def _tell_of_task(self, method: str, params: bytes) -> None:
        fields: dict[str, object] = dict(members(params))
        if self._acknowledged:
            own = fields.pop("_meta", None)
            meta = self._meta if not isinstance(own, msgspec.Raw) else {**members(bytes(own)), **self._meta}
            self._exchange.notify(method, msgspec.json.encode({**fields, "_meta": meta}))
        else:
            self._early_of_tasks[bytes(members(params).get("taskId", b""))] = (method, params)

    def _tell(self, method: str, params: dict[str, object]) -> None:
        self._exchange.notify(method, msgspec.json.encode({"_meta": self._meta, **params}))

    def _tell_audit(self, method: str, params: bytes) -> None:
        """An audit event is the same bytes for everyone; only the stream's own mark is put before it."""
        meta = msgspec.json.encode({"_meta": self._meta})
        self._exchange.notify(method, meta[:-1] + b"," + params[1:])

    def _ended(self, reason: str) -> None:
        self._change_notifier.leave(self)
        self._audience.leave(self)
        for server, uri in self._watched:
            self._subscriptions.drop(server, uri, self)
        self._watched.clear()
        for task in self._followed:
            self._tasks.unfollow(task, self)
        self._followed = []
        self._gone(self)


class _Params(msgspec.Struct):
    notifications: Filter

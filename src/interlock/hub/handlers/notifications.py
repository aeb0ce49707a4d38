"""Notifies clients of changes: sessions of the handshake era, and listen streams of the stateless era.

The changes come from the bus. A listener is notified only when a list in its own scope changed, and a subscriber only
of its own resource. After a gap, everyone concerned is notified, and reads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from interlock.events import Bus, EventFilter, Gap, SubscriberTask
from interlock.events.types import AgentWoken, Delivery, ResourceUpdated, ToolRequestDecided
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.catalog.items import ItemKind
from interlock.hub.catalog.views import Catalog
from interlock.hub.handlers.claude_channel import notice
from interlock.hub.tool_search.listings import ToolListings
from interlock.hub.tool_search.seen_items import ListState
from interlock.protocols.mcpl.live import FILTER, LiveFilter
from interlock.protocols.mgp.events import SubscribeParams
from interlock.protocols.mgp.negotiation import EXTENSION_KEY

MAX_UNREAD: Final = 4096
"""Unread changes kept for clients. Beyond that, all subscribers of the server's resources are notified."""
AT_ONCE: Final = 128
"""Clients notified in one turn of the loop."""

ListName = Literal["tools", "prompts", "resources"]

KINDS: Final[dict[ListName, tuple[ItemKind, ...]]] = {
    "tools": ("tool",),
    "prompts": ("prompt",),
    "resources": ("resource", "template"),
}


class NotifiedClient(Protocol):
    """A client that receives notifications."""

    @property
    def list_scope(self) -> ListScope:
        """The items that it sees: it is notified of their changes alone."""

    def list_changed(self, which: ListName) -> None:
        """A list in the scope changed."""

    def on_tool_request(self, event: bytes) -> None:
        """A request for tools that this principal made was decided."""

    def on_woken(self, notice: bytes) -> None:
        """Events wait for this principal."""


class Subscriber(NamedTuple):
    """A client that subscribed to a resource."""

    notify: Callable[[], None]
    connection_key: str | None
    """The private connection that its calls use; None for the shared one."""
    principal_name: str = ""
    """The principal of the client, among whose subscriptions it counts."""


class ChangeNotifier:
    """Compares the lists of each scope before and after a change, and notifies its listeners of differences."""

    def __init__(self, catalog: Catalog, listings: ToolListings, bus: Bus) -> None:
        self._catalog = catalog
        self.bus = bus
        self._task: SubscriberTask | None = None
        self._listings = listings
        self._listeners: dict[ListScope, set[NotifiedClient]] = {}
        self._seen: dict[tuple[ListScope, ListName], tuple[ListState, ...]] = {}
        self._subscribers: dict[tuple[str, str], dict[object, Subscriber]] = {}

    def start(self) -> None:
        """Pass on updated resources and decided requests from now on."""
        subscription = self.bus.subscribe(EventFilter.of(ResourceUpdated, ToolRequestDecided, AgentWoken), MAX_UNREAD)
        self._task = SubscriberTask(subscription, self._pass_on)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    def listen(self, listener: NotifiedClient) -> None:
        """Notify a listener from now on."""
        if listener.list_scope not in self._listeners:
            for which in KINDS:
                self._seen[listener.list_scope, which] = self._state(listener.list_scope, which)
        self._listeners.setdefault(listener.list_scope, set()).add(listener)

    def leave(self, listener: NotifiedClient) -> None:
        """Stop notifying a listener."""
        listeners = self._listeners.get(listener.list_scope)
        if listeners is None:
            return
        listeners.discard(listener)
        if not listeners:
            del self._listeners[listener.list_scope]
            for which in KINDS:
                self._seen.pop((listener.list_scope, which), None)

    def give_notice(self, listener: NotifiedClient, notice: bytes) -> bool:
        """Give a notice to one listener alone. Returns False if it is not notified of anything any more."""
        if listener not in self._listeners.get(listener.list_scope, ()):
            return False
        listener.on_woken(notice)
        return True

    async def catalog_changed(self) -> None:
        """Notify the listeners of every scope whose lists changed, some in each turn of the loop."""
        for list_scope in list(self._listeners):
            notified = 0
            for which in KINDS:
                before = self._seen.get((list_scope, which))
                if before is None:
                    break  # Its last listener left meanwhile.
                state = self._state(list_scope, which)
                await asyncio.sleep(0)
                if _equal(state, before) or (list_scope, which) not in self._seen:
                    continue
                self._seen[list_scope, which] = state
                for listener in list(self._listeners[list_scope]):
                    listener.list_changed(which)
                    notified += 1
                    if notified % AT_ONCE == 0:
                        await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _pass_on(self, batch: Sequence[Delivery]) -> None:
        for event in batch:
            if isinstance(event, ResourceUpdated):
                await self._resource_updated(event.source, event.uri, event.connection)
            elif isinstance(event, ToolRequestDecided):
                await self._tool_request_decided(event)
            elif isinstance(event, AgentWoken):
                await self._agent_woken(event)
            elif isinstance(event, Gap) and event.type is ResourceUpdated:
                for server, uri in [key for key in self._subscribers if key[0] == event.source]:
                    await self._resource_updated(server, uri, None)

    async def _agent_woken(self, event: AgentWoken) -> None:
        """Notify the sessions of an agent that events wait for it."""
        woken = notice(event)
        for list_scope in [scope for scope in self._listeners if _is_agent(scope, event.agent)]:
            for listener in list(self._listeners.get(list_scope, ())):
                listener.on_woken(woken)
            await asyncio.sleep(0)

    async def _tool_request_decided(self, event: ToolRequestDecided) -> None:
        """Notify the streams of the principal that asked."""
        asker = (event.principal, event.kind)
        scopes = [scope for scope in self._listeners if (scope.principal.id, scope.principal.kind) == asker]
        for list_scope in scopes:
            for listener in list(self._listeners.get(list_scope, ())):
                listener.on_tool_request(bytes(event.body))
            await asyncio.sleep(0)

    def subscribe(
        self,
        server: str,
        uri: str,
        client: object,
        notify: Callable[[], None],
        connection_key: str | None,
        principal_name: str = "",
    ) -> bool:
        """Notify `client` of updates of a resource. `connection_key` names the private connection of its calls.

        Returns whether it was not subscribed before.
        """
        subscribers = self._subscribers.setdefault((server, uri), {})
        new = client not in subscribers
        subscribers[client] = Subscriber(notify, connection_key, principal_name)
        return new

    def unsubscribe(self, server: str, uri: str, client: object) -> Subscriber | None:
        """Stop notifying `client` of a resource. Returns its subscription, if it had one."""
        subscribers = self._subscribers.get((server, uri), {})
        removed = subscribers.pop(client, None)
        if removed is not None and not subscribers:
            del self._subscribers[server, uri]
        return removed

    async def _resource_updated(self, server: str, uri: str, connection_key: str | None) -> None:
        """Notify the subscribers of a resource; with `connection_key`, those with that private connection only."""
        for place, (client, subscriber) in enumerate(list(self._subscribers.get((server, uri), {}).items()), 1):
            if client not in self._subscribers.get((server, uri), {}):
                continue  # It unsubscribed meanwhile.
            if connection_key is None or subscriber.connection_key == connection_key:
                subscriber.notify()
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)

    def subscriptions(self, server: str, connection_key: str | None) -> list[str]:
        """The subscribed resources of a server; with `connection_key`, those of that private connection only."""
        return [
            uri
            for (name, uri), clients in self._subscribers.items()
            if name == server
            and (connection_key is None or any(each.connection_key == connection_key for each in clients.values()))
        ]

    def _state(self, list_scope: ListScope, which: ListName) -> tuple[ListState, ...]:
        if not self._catalog.knows(list_scope.view):
            return ()
        return tuple(self._listings.state(list_scope, kind) for kind in KINDS[which])


def _equal(one: tuple[ListState, ...], other: tuple[ListState, ...]) -> bool:
    return len(one) == len(other) and all(map(ListState.equals, one, other))


def _is_agent(list_scope: ListScope, agent: str) -> bool:
    principal = list_scope.principal
    return principal.id == agent and principal.kind in ("agent", "service")


class MgpFilter(msgspec.Struct):
    """The MGP notifications that a listen stream requested."""

    tools: bool = False
    audit: bool = False
    lifecycle: bool = False
    events: SubscribeParams | None = None


class NotificationFilter(msgspec.Struct, rename="camel"):
    """The notifications that a listen stream requested (2026-07-28, Subscriptions: Notification Filter)."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []
    task_ids: list[str] = []
    mgp: MgpFilter = msgspec.field(default_factory=MgpFilter, name=EXTENSION_KEY)
    live: LiveFilter | None = msgspec.field(default=None, name=FILTER)
    """Messages of servers, for a client that is a host of MCPL."""

    def wants(self, which: ListName) -> bool:
        """Whether the stream requested changes of a list."""
        return bool(getattr(self, f"{which}_list_changed"))

"""Who hears that something changed: sessions of the handshake era, and listen streams of the stateless one.

A change goes only where that listener's own list changed, or to whoever asked for that very resource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import Principal
from interlock.hub.catalog.offer import ItemKind
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.listings import ToolListings
from interlock.protocols.mgp.negotiation import EXTENSION_KEY

ListName = Literal["tools", "prompts", "resources"]

KINDS: Final[dict[ListName, tuple[ItemKind, ...]]] = {
    "tools": ("tool",),
    "prompts": ("prompt",),
    "resources": ("resource", "template"),
}


class Listener(Protocol):
    """Someone to tell."""

    @property
    def list_scope(self) -> ListScope:
        """Whose lists it wants to hear of."""

    def list_changed(self, which: ListName) -> None:
        """One of the lists of this shelf is different now."""

    def requested(self, event: bytes) -> None:
        """There is news of tools that this principal asked for."""


class Subscriber(NamedTuple):
    """Someone who wants to hear of a resource."""

    tell: Callable[[], None]
    connection_key: str | None
    """The private connection that its calls take; None for the shared one."""


class ChangeNotifier:
    """Compares what each shelf with listeners showed before and after a change."""

    def __init__(self, catalog: Catalog, listings: ToolListings) -> None:
        self._catalog = catalog
        self._listings = listings
        self._listeners: dict[ListScope, set[Listener]] = {}
        self._seen: dict[tuple[ListScope, ListName], tuple[bytes, ...]] = {}
        self._subscribers: dict[tuple[str, str], dict[object, Subscriber]] = {}

    def listen(self, listener: Listener) -> None:
        """Tell this one from now on."""
        if listener.list_scope not in self._listeners:
            for which in KINDS:
                self._seen[listener.list_scope, which] = self._state(listener.list_scope, which)
        self._listeners.setdefault(listener.list_scope, set()).add(listener)

    def leave(self, listener: Listener) -> None:
        """Tell it no more."""
        there = self._listeners.get(listener.list_scope)
        if there is None:
            return
        there.discard(listener)
        if not there:
            del self._listeners[listener.list_scope]
            for which in KINDS:
                self._seen.pop((listener.list_scope, which), None)

    def catalog_changed(self) -> None:
        """Look at every shelf that someone listens to, and tell those whose lists are different."""
        for list_scope, listeners in list(self._listeners.items()):
            for which in KINDS:
                state = self._state(list_scope, which)
                if state != self._seen[list_scope, which]:
                    self._seen[list_scope, which] = state
                    for listener in list(listeners):
                        listener.list_changed(which)

    def requested(self, principal: Principal, event: bytes) -> None:
        """Tell the streams of a principal what became of its request for tools."""
        for list_scope, listeners in list(self._listeners.items()):
            if list_scope.principal == principal:
                for listener in list(listeners):
                    listener.requested(event)

    def subscribe(
        self, server: str, uri: str, who: object, tell: Callable[[], None], connection_key: str | None
    ) -> None:
        """Tell `who` of updates of a resource. `lane` names the private connection that its calls take."""
        self._subscribers.setdefault((server, uri), {})[who] = Subscriber(tell, connection_key)

    def unsubscribe(self, server: str, uri: str, who: object) -> Subscriber | None:
        """Tell `who` no more. Gives how it was told, if it was."""
        there = self._subscribers.get((server, uri), {})
        gone = there.pop(who, None)
        if gone is not None and not there:
            del self._subscribers[server, uri]
        return gone

    def updated(self, server: str, uri: str, connection_key: str | None = None) -> None:
        """A server says that a resource changed: to all, or on a private connection, which concerns whoever has it."""
        for subscriber in list(self._subscribers.get((server, uri), {}).values()):
            if connection_key is None or subscriber.connection_key == connection_key:
                subscriber.tell()

    def subscriptions(self, server: str, connection_key: str | None = None) -> list[str]:
        """What is subscribed to on a server; with `lane`, by those who have that private connection."""
        there = ((uri, who.values()) for (name, uri), who in self._subscribers.items() if name == server)
        return [
            uri
            for uri, whose in there
            if connection_key is None or any(each.connection_key == connection_key for each in whose)
        ]

    def _state(self, list_scope: ListScope, which: ListName) -> tuple[bytes, ...]:
        if not self._catalog.knows(list_scope.view):
            return ()
        return tuple(self._listings.listing(list_scope, kind) for kind in KINDS[which])


class MgpFilter(msgspec.Struct):
    """What a listen stream asked for beyond MCP (MGP)."""

    tools: bool = False
    audit: bool = False


class Filter(msgspec.Struct, rename="camel"):
    """What a listen stream asked for (2026-07-28, Subscriptions: Notification Filter)."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []
    task_ids: list[str] = []
    mgp: MgpFilter = msgspec.field(default_factory=MgpFilter, name=EXTENSION_KEY)

    def wants(self, which: ListName) -> bool:
        """Whether it asked to be told of changes of a list."""
        match which:
            case "tools":
                return self.tools_list_changed
            case "prompts":
                return self.prompts_list_changed
            case "resources":
                return self.resources_list_changed

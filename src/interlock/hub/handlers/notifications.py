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
    def shelf(self) -> ListScope:
        """Whose lists it wants to hear of."""

    def list_changed(self, which: ListName) -> None:
        """One of the lists of this shelf is different now."""

    def requested(self, event: bytes) -> None:
        """There is news of tools that this principal asked for."""


class Subscriber(NamedTuple):
    """Someone who wants to hear of a resource."""

    tell: Callable[[], None]
    lane: str | None
    """The private connection that its calls take; None for the shared one."""


class ChangeNotifier:
    """Compares what each shelf with listeners showed before and after a change."""

    def __init__(self, catalog: Catalog, shelves: ToolListings) -> None:
        self._catalog = catalog
        self._shelves = shelves
        self._listeners: dict[ListScope, set[Listener]] = {}
        self._seen: dict[tuple[ListScope, ListName], tuple[bytes, ...]] = {}
        self._subscribers: dict[tuple[str, str], dict[object, Subscriber]] = {}

    def listen(self, listener: Listener) -> None:
        """Tell this one from now on."""
        if listener.shelf not in self._listeners:
            for which in KINDS:
                self._seen[listener.shelf, which] = self._state(listener.shelf, which)
        self._listeners.setdefault(listener.shelf, set()).add(listener)

    def leave(self, listener: Listener) -> None:
        """Tell it no more."""
        there = self._listeners.get(listener.shelf)
        if there is None:
            return
        there.discard(listener)
        if not there:
            del self._listeners[listener.shelf]
            for which in KINDS:
                self._seen.pop((listener.shelf, which), None)

    def catalog_changed(self) -> None:
        """Look at every shelf that someone listens to, and tell those whose lists are different."""
        for shelf, listeners in list(self._listeners.items()):
            for which in KINDS:
                state = self._state(shelf, which)
                if state != self._seen[shelf, which]:
                    self._seen[shelf, which] = state
                    for listener in list(listeners):
                        listener.list_changed(which)

    def requested(self, principal: Principal, event: bytes) -> None:
        """Tell the streams of a principal what became of its request for tools."""
        for shelf, listeners in list(self._listeners.items()):
            if shelf.principal == principal:
                for listener in list(listeners):
                    listener.requested(event)

    def subscribe(self, server: str, uri: str, who: object, tell: Callable[[], None], lane: str | None) -> None:
        """Tell `who` of updates of a resource. `lane` names the private connection that its calls take."""
        self._subscribers.setdefault((server, uri), {})[who] = Subscriber(tell, lane)

    def unsubscribe(self, server: str, uri: str, who: object) -> Subscriber | None:
        """Tell `who` no more. Gives how it was told, if it was."""
        there = self._subscribers.get((server, uri), {})
        gone = there.pop(who, None)
        if gone is not None and not there:
            del self._subscribers[server, uri]
        return gone

    def updated(self, server: str, uri: str, lane: str | None = None) -> None:
        """A server says that a resource changed: to all, or on a private connection, which concerns whoever has it."""
        for subscriber in list(self._subscribers.get((server, uri), {}).values()):
            if lane is None or subscriber.lane == lane:
                subscriber.tell()

    def subscriptions(self, server: str, lane: str | None = None) -> list[str]:
        """What is subscribed to on a server; with `lane`, by those who have that private connection."""
        there = ((uri, who.values()) for (name, uri), who in self._subscribers.items() if name == server)
        return [uri for uri, whose in there if lane is None or any(each.lane == lane for each in whose)]

    def _state(self, shelf: ListScope, which: ListName) -> tuple[bytes, ...]:
        if not self._catalog.knows(shelf.view):
            return ()
        return tuple(self._shelves.listing(shelf, kind) for kind in KINDS[which])


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

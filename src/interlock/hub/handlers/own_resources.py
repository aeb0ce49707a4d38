"""Resources of the hub itself, to read and to subscribe to: those of rooms, and the events that wait for an agent."""

from __future__ import annotations

from typing import Final

from interlock.hub.calls.call import Caller
from interlock.hub.catalog.target import Target
from interlock.hub.handlers.rooms import RoomHandler
from interlock.hub.live.events.deliveries import OWN as EVENTS
from interlock.hub.live.events.delivery_tools import EVENTS_URI, LiveTools
from interlock.hub.sessions.session import Exchange

ROOMS: Final = "rooms:"
"""The `server` of a room's resources, which are the hub's own. No server id has a colon."""
OWN: Final = frozenset({ROOMS, EVENTS})
"""The values of `server` for resources of the hub itself."""


class OwnResources:
    """Finds and reads the hub's own resources."""

    def __init__(self, rooms: RoomHandler, live: LiveTools) -> None:
        self._rooms = rooms
        self._live = live

    def target(self, caller: Caller, uri: str) -> Target | None:
        """The target of an address, if it is the hub's own and the caller's. Events have the agent as their name."""
        if uri == EVENTS_URI and self._live.offers(caller):
            return Target("resource", EVENTS, caller.principal.id)
        return Target("resource", ROOMS, uri) if self._rooms.owns(caller, uri) else None

    def read(self, exchange: Exchange, caller: Caller, uri: str) -> bool:
        """Answer `resources/read` for an address that is the hub's own and the caller's. False for every other."""
        if uri == EVENTS_URI and self._live.offers(caller):
            self._live.read(exchange, caller)
        elif self._rooms.owns(caller, uri):
            self._rooms.read(exchange, caller, uri)
        else:
            return False
        return True

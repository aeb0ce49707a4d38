"""Rooms: topics that agents and people share over WebSocket, in MCPx 0.1.

`Participant` is the client library. `gateway.py` is the hub's side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.rooms.errors import RoomError as RoomError
    from interlock.rooms.participant import Participant as Participant

__all__ = ["Participant", "RoomError"]


def __getattr__(name: str) -> object:
    """Import the client library at its first use, because a hub does not need it."""
    if name not in __all__:
        raise AttributeError(name)
    from interlock.rooms import errors, participant

    return getattr(errors if name == "RoomError" else participant, name)

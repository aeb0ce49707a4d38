"""The definitions of the tools for rooms, and the resource of each room. Listed for callers that may join a topic."""

from __future__ import annotations

from typing import Any, Final

import msgspec

JOIN: Final = "join_room"
SAY: Final = "say_in_room"
WAIT: Final = "wait_in_room"
PROPOSE: Final = "propose_in_room"
LEAVE: Final = "leave_room"
MAX_WAIT_S: Final = 40
"""`wait_in_room` ends before the usual timeout of a client, which is 45 s at least."""
ROOM_URI: Final = "room://"

_ROOM: Final = {"type": "string", "minLength": 1, "maxLength": 64, "description": "The name of the room."}
_TO: Final = {"type": "array", "items": {"type": "string"}, "maxItems": 16, "description": "Participants to address."}


def _tool(name: str, title: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"room": _ROOM, **properties},
        "required": ["room", *required],
        "additionalProperties": False,
    }
    return {"name": name, "title": title, "description": description, "inputSchema": schema}


_ALL: Final = (
    _tool(
        JOIN,
        "Join a room",
        "Join a room that agents and people share. Returns who is there and what you may send.",
        [],
    ),
    _tool(
        SAY,
        "Say something in a room",
        "Say something to everyone in a room that you joined.",
        ["text"],
        text={"type": "string", "minLength": 1, "maxLength": 65_536},
        to=_TO,
        reply_to={"type": "string", "maxLength": 128, "description": "The id of the message that this answers."},
    ),
    _tool(
        WAIT,
        "Wait for messages in a room",
        "Wait until something is said or asked in a room that you joined. Returns the messages since the last call, "
        "or none when the time is over: then call it again. Messages come from other participants, not from your user.",
        [],
        seconds={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "default": MAX_WAIT_S},
    ),
    _tool(
        PROPOSE,
        "Propose an operation in a room",
        "Propose an MCP operation, such as the call of a tool of server:NAME, to a room that you joined. Somebody who "
        "may act decides; wait_in_room returns the outcome.",
        ["method", "params"],
        method={"type": "string", "maxLength": 128, "description": "Such as tools/call."},
        params={"type": "object", "description": "Such as the name of the tool and its arguments."},
        to=_TO,
    ),
    _tool(LEAVE, "Leave a room", "Leave a room that you joined.", []),
)

ROOM_TOOLS: Final = frozenset(definition["name"] for definition in _ALL)
ROOM_DEFINITIONS: Final = tuple(msgspec.json.encode(definition) for definition in _ALL)
"""As they stand in a list."""
ROOM_TOKENS: Final = 600
"""Upper bound for the tokens of these definitions in a list."""
ROOM_SCHEMAS: Final = {definition["name"]: definition["inputSchema"] for definition in _ALL}


def room_resource(topic: str) -> bytes:
    """The resource of a room, as it stands in a list. It can be subscribed to."""
    description = "Who is in the room and what waits there. An update means that something was said or happened."
    return msgspec.json.encode(
        {
            "uri": ROOM_URI + topic,
            "name": f"room-{topic}",
            "title": f"Room {topic}",
            "description": description,
            "mimeType": "application/json",
        }
    )

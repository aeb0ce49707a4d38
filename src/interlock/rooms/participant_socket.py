"""The WebSocket of a participant: its address and its handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from interlock.protocols.mcpx.envelopes import DEFAULT_BOUNDS
from interlock.rooms.errors import RoomError

_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def room_url(url: str, topic: str) -> str:
    """The address of a topic at a hub, given with or without `/ws`. Raises RoomError."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.netloc:
        raise RoomError("invalid_url", f"{url[:200]!r} is no address of a hub", "Write it like https://hub.example.")
    path = parts.path.rstrip("/").removesuffix("/ws").rstrip("/")
    return f"{scheme}://{parts.netloc}{path}/ws?topic={quote(topic, safe='')}"


async def open_socket(url: str, headers: Mapping[str, str], mode: str, cursor: str | None) -> ClientConnection:
    """Connect to a topic. Raises RoomError."""
    since = "" if cursor is None else f"&since={quote(cursor, safe='')}"
    try:
        return await connect(
            f"{url}&mode={mode}{since}",
            additional_headers=headers,
            compression=None,
            max_size=2 * DEFAULT_BOUNDS.envelope_bytes,
            proxy=None,
        )
    except InvalidStatus as refused:
        status = refused.response.status_code
        text = (refused.response.body or b"").decode(errors="replace")[:500]
        raise RoomError(f"http_{status}", f"the gateway refused the connection: {text}") from None
    except (OSError, WebSocketException) as cause:
        raise unreachable(url, cause) from None


def unreachable(url: str, cause: Exception) -> RoomError:
    """The error of a gateway that could not be reached, or went away before its welcome."""
    return RoomError("not_connected", f"{url} cannot be reached: {cause}")

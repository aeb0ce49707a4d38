"""The WebSocket of a participant: its address and its handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from interlock.protocols.mcpx.envelopes import DEFAULT_BOUNDS
from interlock.rooms.errors import RoomError
from interlock.transports.http.client.origin import split_url
from interlock.transports.http.client.outside import client_context, proxy_for
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS

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
    """Connect to a topic, through the proxy of the environment where it names one. Raises RoomError."""
    since = "" if cursor is None else f"&since={quote(cursor, safe='')}"
    try:
        origin, _ = split_url(url.replace("ws", "http", 1))
        proxy = proxy_for(origin)
        return await connect(
            f"{url}&mode={mode}{since}",
            additional_headers=headers,
            compression=None,
            max_size=4 * DEFAULT_BOUNDS.envelope_bytes,
            proxy=None if proxy is None else proxy.url,
            ssl=client_context() if origin.scheme == "https" else None,
        )
    except InvalidStatus as refused:
        message, fix = _why_refused(bytes(refused.response.body or b""))
        raise RoomError(f"http_{refused.response.status_code}", message, fix) from None
    except (OSError, ValueError, Fault, WebSocketException) as cause:
        raise unreachable(url, cause) from None


def unreachable(url: str, cause: Exception) -> RoomError:
    """The error for a gateway that could not be reached, or closed before its welcome."""
    return RoomError("not_connected", f"{url} cannot be reached: {cause}")


class _RefusalBody(msgspec.Struct):
    message: str
    suggestions: tuple[str, ...] = ()


def _why_refused(body: bytes) -> tuple[str, str]:
    """Message and fix of a refused connection. Some gateways answer with plain text."""
    try:
        refusal = msgspec.json.decode(body, type=_RefusalBody)
    except JSON_ERRORS:
        return f"the gateway refused the connection: {body[:500].decode(errors='replace')}", ""
    return f"the gateway refused the connection: {refusal.message[:500]}", "; ".join(refusal.suggestions)[:500]

"""Lists of a server, page by page."""

from __future__ import annotations

import msgspec

from interlock.wire.errors import Fault


class Listing(msgspec.Struct, frozen=True):
    """A whole list, all pages of it."""

    items: list[msgspec.Raw]
    ttl_ms: int | None = None
    """How long it stays fresh; None where the server did not say (handshake era)."""
    scope: str = "private"


class Page(msgspec.Struct):
    """One page of a list."""

    items: list[msgspec.Raw]
    cursor: str | None
    ttl_ms: int | None
    scope: str


class _PageTail(msgspec.Struct):
    nextCursor: str | None = None
    ttlMs: int | None = None
    cacheScope: str = "private"


def read_page(method: str, member: str, result: bytes) -> Page:
    """The page in a result. Raises UPSTREAM_ERROR for a result that is none."""
    try:
        tail = msgspec.json.decode(result, type=_PageTail)
        raw = msgspec.json.decode(result, type=dict[str, msgspec.Raw]).get(member)
        items = [] if raw is None else msgspec.json.decode(raw, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Fault("UPSTREAM_ERROR", f"the answer to {method} cannot be read: {cause}") from None
    return Page([msgspec.Raw(bytes(item)) for item in items], tail.nextCursor, tail.ttlMs, tail.cacheScope)

"""Reads the pages of a server's lists. A page may have ten thousand items, so it is read in short turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from interlock.process.turns import in_turns
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import CheckedJson, object_of

ITEMS_AT_ONCE: Final = 1_000
"""Items that are read in one turn."""


class Listing(msgspec.Struct, frozen=True):
    """A whole list, all pages of it."""

    items: list[msgspec.Raw]
    ttl_ms: int | None = None
    """How long it stays fresh; None where the server did not say (handshake era)."""
    scope: str = "private"


class ListPage(msgspec.Struct):
    """One page of a list."""

    items: list[msgspec.Raw]
    cursor: str | None
    ttl_ms: int | None
    scope: str


class _PageTail(msgspec.Struct):
    nextCursor: str | None = None
    ttlMs: int | None = None
    cacheScope: str | None = None


async def read_page(method: str, member: str, result: bytes) -> ListPage:
    """The page in a result. Raises UPSTREAM_ERROR for an invalid one."""
    try:
        tail, items = _parts(member, result)
    except JSON_ERRORS as cause:
        message = f"the answer to {method} cannot be read: {cause}"
        raise Fault("UPSTREAM_ERROR", message, quotes_server=True) from None
    copies = [msgspec.Raw(bytes(item)) async for item in in_turns(items, ITEMS_AT_ONCE)]
    return ListPage(copies, tail.nextCursor, tail.ttlMs, tail.cacheScope or "private")


def _parts(member: str, result: bytes) -> tuple[_PageTail, Iterable[bytes | msgspec.Raw]]:
    """The members of a page beside its items, and the items."""
    known = result.items(member) if type(result) is CheckedJson else None
    if known is not None and type(result) is CheckedJson:
        beside = {name: value for name in _PageTail.__struct_fields__ if (value := result.member(name)) is not None}
        return _decode_tail(object_of(beside)), known
    tail = _decode_tail(result)
    raw = msgspec.json.decode(result, type=dict[str, msgspec.Raw]).get(member)
    # Servers written in Go send null for an empty list.
    return tail, [] if raw is None else msgspec.json.decode(raw, type=list[msgspec.Raw] | None) or []


_decode_tail: Final = msgspec.json.Decoder(_PageTail).decode

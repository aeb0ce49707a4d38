"""Long lists in pages: `?from=N` in an address. A page stays below 100 KB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from interlock.web.console.page import Visit

Item = TypeVar("Item")


class ListPart(msgspec.Struct, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    first: int
    total: int
    newer: int | None
    """Where the page before begins; None on the first page."""
    older: int | None
    """Where the next page begins; None on the last page."""


def first_of(visit: Visit) -> int:
    """The place at which the page begins that a request asks for."""
    query = visit.request.query_params.get("from", "0")
    return int(query) if query.isascii() and query.isdecimal() and len(query) < 10 else 0


def part_of(visit: Visit, items: Sequence[Item], size: int) -> ListPart[Item]:
    """The page that a request asks for."""
    first = first_of(visit)
    shown = list(items[first : first + size])
    last = first + len(shown)
    return ListPart(
        shown, first, len(items), max(0, first - size) if first else None, last if last < len(items) else None
    )

"""Lists in pages. A cursor names the last item seen, so it stays good while that item is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault
from interlock.wire.seal import Seal


class Listed(Protocol):
    """Something that stands in a list."""

    @property
    def key(self) -> str:
        """Its name, or its address."""

    @property
    def where(self) -> str:
        """The file and the line it comes from."""

    def entry(self, modern: bool) -> bytes:
        """How it is listed, as JSON."""


T = TypeVar("T", bound=Listed)


class Pages(Generic[T]):
    """Items by their key, in the order they were added."""

    def __init__(self, what: str, page_size: int, seal: Seal) -> None:
        self._what = what.encode()
        self._page_size = page_size
        self._seal = seal
        self._items: dict[str, T] = {}
        self._order: list[T] | None = None
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def get(self, key: str) -> T | None:
        """The item of that key."""
        return self._items.get(key)

    def add(self, item: T) -> None:
        """Add an item. Raises DefinitionError if its key is taken."""
        taken = self._items.get(item.key)
        if taken is not None:
            hint = "give one of them another, or remove the first"
            raise DefinitionError(f"{item.where}: the name {item.key!r} is taken by {taken.where}; {hint}")
        self._items[item.key] = item
        self._order = None

    def put(self, item: T) -> None:
        """Add an item, or put it in the place of the one of its key."""
        self._items[item.key] = item
        self._order = None

    def remove(self, key: str) -> bool:
        """Take an item out. False if it was not there."""
        self._order = None
        return self._items.pop(key, None) is not None

    def page(self, member: str, cursor: str | None, modern: bool) -> bytes:
        """One page as the members of a result object, without its braces."""
        if self._order is None:
            self._order = list(self._items.values())
            self._index = {item.key: place for place, item in enumerate(self._order)}
        start = 0 if cursor is None else self._after(cursor)
        items = self._order[start : start + self._page_size]
        listed = b",".join([item.entry(modern) for item in items])
        page = b'"%b":[%b]' % (member.encode(), listed)
        if start + self._page_size < len(self._order):
            following = self._seal.close(self._what + b"\0" + items[-1].key.encode())
            page += b',"nextCursor":"%b"' % following.encode()
        return page

    def _after(self, cursor: str) -> int:
        payload = self._seal.open(cursor)
        what, _, key = (payload or b"").partition(b"\0")
        place = self._index.get(key.decode()) if what == self._what else None
        if place is None:
            raise Fault("INVALID_PARAMS", "the cursor is not one of this list", hint="list again from the start")
        return place + 1

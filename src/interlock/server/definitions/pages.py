"""Lists in pages. A cursor names the last item of its page, so it stays good while that item is in the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from interlock.server.requests.listeners import Listeners
from interlock.signatures import DefinitionError
from interlock.wire.errors import Fault
from interlock.wire.seal import Seal


class Listed(Protocol):
    """An item of a list."""

    @property
    def key(self) -> str:
        """Its name, or its address."""

    @property
    def where(self) -> str:
        """The file and the line it comes from."""

    def entry(self, modern: bool) -> bytes:
        """Its entry as JSON."""


T = TypeVar("T", bound=Listed)


class ItemPages(Generic[T]):
    """Items by their key, in the order they were added. Every change is announced to the listeners.

    `member` holds the items in a result; `listed` names the list in the notification of a change.
    """

    def __init__(self, member: str, listed: str, page_size: int, seal: Seal, listeners: Listeners) -> None:
        self._member = member.encode()
        self._listed = listed
        self._page_size = page_size
        self._seal = seal
        self._listeners = listeners
        self._items: dict[str, T] = {}
        self._order: list[T] | None = None
        self._index: dict[str, int] = {}

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
        self.put(item)

    def put(self, item: T) -> None:
        """Add an item, or replace the one of its key."""
        self._items[item.key] = item
        self._changed()

    def remove(self, key: str) -> None:
        """Remove an item, if it is there."""
        if self._items.pop(key, None) is not None:
            self._changed()

    def page(self, cursor: str | None, modern: bool) -> bytes:
        """One page as the members of a result object, without its braces."""
        if self._order is None:
            self._order = list(self._items.values())
            self._index = {item.key: index for index, item in enumerate(self._order)}
        start = 0 if cursor is None else self._after(cursor)
        items = self._order[start : start + self._page_size]
        page = b'"%b":[%b]' % (self._member, b",".join([item.entry(modern) for item in items]))
        if start + self._page_size < len(self._order):
            following = self._seal.close(self._member + b"\0" + items[-1].key.encode())
            page += b',"nextCursor":"%b"' % following.encode()
        return page

    def _changed(self) -> None:
        self._order = None
        self._listeners.list_changed(self._listed)

    def _after(self, cursor: str) -> int:
        member, _, key = (self._seal.open(cursor) or b"").partition(b"\0")
        index = self._index.get(key.decode()) if member == self._member else None
        if index is None:
            raise Fault("INVALID_PARAMS", "the cursor is not one of this list", hint="list again from the start")
        return index + 1

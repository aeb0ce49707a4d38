"""Requests under way by their id, for clients that cancel one by naming it (MGP, Cancellation).

An id is looked up in the conversation it was used in. Requests that stand alone have none: there an id belongs to the
caller, and it must name one request only. So no client reaches the request of another.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from interlock.transports.exchange import Exchange
from interlock.wire.messages import Id

W = TypeVar("W", bound=Hashable)
"""The work behind a request."""

Key: TypeAlias = tuple[object, Id]


class OpenRequests(Generic[W]):
    """The requests of one service."""

    __slots__ = ("_keys", "_works")

    def __init__(self) -> None:
        self._works: dict[Key, list[W]] = {}
        self._keys: dict[W, list[Key]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, exchange: Exchange, work: W) -> None:
        """A request waits for this work: the first, or a retry of it."""
        key = _key(exchange, exchange.request.id)
        self._works.setdefault(key, []).append(work)
        self._keys.setdefault(work, []).append(key)

    def remove(self, work: W) -> None:
        """The work is through."""
        for key in self._keys.pop(work, ()):
            works = self._works[key]
            works.remove(work)
            if not works:
                del self._works[key]

    def find(self, exchange: Exchange, id: Id) -> W | None:
        """The work that a client means by this id; None if there is none, or more than one."""
        works = self.candidates(exchange, id)
        return works[0] if len(works) == 1 else None

    def candidates(self, exchange: Exchange, id: Id) -> Sequence[W]:
        """All works that a client may mean by this id."""
        return self._works.get(_key(exchange, id), ())


def _key(exchange: Exchange, id: Id) -> Key:
    # The text "1" and the number 1 are different ids.
    return exchange.conversation or exchange.caller.principal_name, id

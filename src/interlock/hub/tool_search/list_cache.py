"""Values computed for list scopes, kept until the catalog, the counts or the caller's rights change.

Principals with the same rights share an entry: a list depends on rights, never on a name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, TypeVar, cast

import msgspec

from interlock.hub.auth.access import Access, Visibility
from interlock.hub.auth.list_scope import ListScope
from interlock.hub.auth.principals import LOCAL_AGENT
from interlock.hub.catalog.views import Catalog
from interlock.hub.tool_search.tokens import TokenCounts

MAX_CACHED: Final = 10_000

Stamp = tuple[int, int, int]
"""The versions of the catalog, the counts and the rights."""
Basis = tuple[int, int]
"""The versions of the configuration and the rights."""
Value = TypeVar("Value")
_Key = tuple[str, ListScope, Visibility]


class _Cached(msgspec.Struct, frozen=True):
    """A value, and the versions it was computed from."""

    stamp: Stamp
    basis: Basis
    until: datetime | None
    value: object


class ListCache:
    """The values of one hub."""

    def __init__(self, catalog: Catalog, tokens: TokenCounts, access: Access) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._access = access
        self._values: dict[_Key, _Cached] = {}

    def stamp(self, list_scope: ListScope) -> Stamp:
        """The versions that a list is made from now."""
        return (self._catalog.generation, self._tokens.generation, self._access.revision(list_scope.principal))

    def at_hand(self, what: str, list_scope: ListScope) -> bool:
        """Whether a value is known and current."""
        cached = self._current(self._key(what, list_scope))
        return cached is not None and cached.stamp == self.stamp(list_scope)

    def get(self, what: str, list_scope: ListScope, make: Callable[[], Value]) -> Value:
        """A value, computed again when its versions change or a right expires."""
        return self.get_from(what, list_scope, lambda before: make())

    def get_from(self, what: str, list_scope: ListScope, make: Callable[[Value | None], Value]) -> Value:
        """A value that can be computed from the last one, while neither configuration nor rights have changed."""
        key, stamp, basis = self._key(what, list_scope), self.stamp(list_scope), self._basis(list_scope)
        cached = self._current(key)
        if cached is not None and cached.stamp == stamp:
            return cast(Value, cached.value)
        value = make(cast(Value, cached.value) if cached is not None and cached.basis == basis else None)
        self._put(key, _Cached(stamp, basis, self._until(list_scope, key), value))
        return value

    async def compute(self, what: str, list_scope: ListScope, make: Callable[[Value | None], Awaitable[Value]]) -> None:
        """Compute the greatest part of a value in turns, for the next `get_from` to start from.

        It is dropped if configuration or rights change meanwhile.
        """
        key, basis = self._key(what, list_scope), self._basis(list_scope)
        until = self._until(list_scope, key)
        cached = self._current(key)
        value = await make(cast(Value, cached.value) if cached is not None and cached.basis == basis else None)
        if (key, basis) == (self._key(what, list_scope), self._basis(list_scope)):
            self._put(key, _Cached(_NEVER, basis, until, value))

    def _key(self, what: str, list_scope: ListScope) -> _Key:
        audiences = tuple(each for each in list_scope.audiences if each in self._catalog.audiences)
        scope = msgspec.structs.replace(list_scope, principal=LOCAL_AGENT, audiences=audiences)
        return (what, scope, self._access.visibility(list_scope.principal))

    def _basis(self, list_scope: ListScope) -> Basis:
        return (self._catalog.arrangement, self._access.revision(list_scope.principal))

    def _until(self, list_scope: ListScope, key: _Key) -> datetime | None:
        return self._access.until(list_scope.principal) if key[2].agent else None

    def _current(self, key: _Key) -> _Cached | None:
        cached = self._values.get(key)
        expired = cached is not None and cached.until is not None and self._access.now() >= cached.until
        return None if expired else cached

    def _put(self, key: _Key, cached: _Cached) -> None:
        if len(self._values) >= MAX_CACHED:
            self._values.clear()
        self._values[key] = cached


_NEVER: Final = (-1, -1, -1)

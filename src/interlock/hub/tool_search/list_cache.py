"""Values computed for list scopes, kept until the catalog, the counts or the caller's rights change.

Principals with the same rights share an entry: a list depends on rights, never on a name.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar, cast

import msgspec

from interlock.hub.auth.access import Access, Sight
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
        self._values: dict[tuple[str, ListScope, Sight], _Cached] = {}

    def stamp(self, list_scope: ListScope) -> Stamp:
        """The versions that a list is made from now."""
        return (self._catalog.generation, self._tokens.generation, self._access.revision(list_scope.principal))

    def get(self, what: str, list_scope: ListScope, make: Callable[[], Value]) -> Value:
        """A value, computed again when its versions change or a right expires."""
        return self.get_from(what, list_scope, lambda before: make())

    def get_from(self, what: str, list_scope: ListScope, make: Callable[[Value | None], Value]) -> Value:
        """A value that can be computed from the last one, while neither configuration nor rights have changed."""
        sight = self._access.sight(list_scope.principal)
        audiences = tuple(each for each in list_scope.audiences if each in self._catalog.audiences)
        key = (what, msgspec.structs.replace(list_scope, principal=LOCAL_AGENT, audiences=audiences), sight)
        stamp = self.stamp(list_scope)
        cached = self._values.get(key)
        if cached is not None and cached.until is not None and self._access.now() >= cached.until:
            cached = None
        if cached is not None and cached.stamp == stamp:
            return cast(Value, cached.value)
        basis = (self._catalog.arrangement, stamp[2])
        value = make(cast(Value, cached.value) if cached is not None and cached.basis == basis else None)
        if len(self._values) >= MAX_CACHED:
            self._values.clear()
        until = self._access.until(list_scope.principal) if sight.agent else None
        self._values[key] = _Cached(stamp, basis, until, value)
        return value

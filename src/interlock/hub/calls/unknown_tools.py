"""The error for an unknown tool, with the name that the caller probably meant.

Only names that the caller's own lists show are suggested. A tool that it may not see gets the same error as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from operator import attrgetter
from typing import Final

from interlock.hub.auth.access import Access
from interlock.hub.calls.call import Caller
from interlock.hub.catalog.items import Item, Tool
from interlock.hub.catalog.unknown_names import unknown
from interlock.hub.catalog.views import Catalog, View
from interlock.wire.errors import Fault
from interlock.wire.spelling import nearest

MAX_NAME_CHARS: Final = 100
"""A longer name is not compared with known ones."""
MAX_READ: Final = 1_000
MAX_ALIKE: Final = 200
MAX_COMPARED: Final = 4
"""Exact comparisons: each takes a tenth of a millisecond."""
LENGTHS_APART: Final = 3
ALIKE: Final = 0.8
_SEPARATORS: Final = str.maketrans(".-/:", "____")
_CLIENT_PREFIX: Final = "mcp_"
"""Clients put it before the names that they show to their models, some with the name of the hub behind it."""


class UnknownTools:
    """Refuses names of tools that a caller cannot use."""

    def __init__(self, catalog: Catalog, access: Access) -> None:
        self._catalog = catalog
        self._access = access

    def fault(self, caller: Caller, name: str) -> Fault:
        """The error for a tool that does not exist, or that the caller may not see."""
        return unknown("tool", name, self._meant(caller, name) if len(name) <= MAX_NAME_CHARS else None)

    def _meant(self, caller: Caller, name: str) -> str | None:
        return self._written_otherwise(caller, name) or self._misspelt(caller, name)

    def _written_otherwise(self, caller: Caller, name: str) -> str | None:
        """The tool whose name differs in separators, capitals or a client's prefix alone."""
        written, view = _written(name), caller.view
        known = chain.from_iterable(part.items for part in self._catalog.parts(view, "tool").values())
        names = _names_in(self._catalog, view)
        last = (written[-1:], written[-1:].upper())
        fitting = [
            item
            for item in islice(known, MAX_READ)
            # This cheap test rules out nearly all names.
            if (shown := names(item)).endswith(last) and isinstance(item, Tool) and item.only_for is None
            if _is(written, shown)
        ]
        seen = self._access.seen(caller.principal, fitting[:MAX_ALIKE])
        return max((self._catalog.name(view, item) for item in seen), key=len, default=None)

    def _misspelt(self, caller: Caller, name: str) -> str | None:
        alone = not caller.bare and "__" not in name
        alike = {}
        for item in self._seen(caller, name, alone=alone):
            shown = self._catalog.name(caller.view, item)
            alike[item.shown if alone else shown] = shown
        pairs = _pairs(name)
        ranked = sorted(alike, key=lambda known: len(pairs & _pairs(known)), reverse=True)
        near = nearest(name, ranked[:MAX_COMPARED], ALIKE)
        return None if near is None else alike[near]

    def _seen(self, caller: Caller, name: str, *, alone: bool) -> Sequence[Item]:
        """Tools of about the same length, of the server that the name starts with, or of all.

        A server that the caller cannot reach is treated like one that does not exist.
        """
        parts = self._catalog.parts(caller.view, "tool")
        named = name.partition("__")[0]
        known = named in parts and self._access.reaches(caller.principal, named)
        near = [parts[named]] if known else parts.values()
        names = attrgetter("shown") if alone else _names_in(self._catalog, caller.view)
        shortest, longest = len(name) - LENGTHS_APART, len(name) + LENGTHS_APART
        fitting = [
            item
            for item in islice(chain.from_iterable(part.items for part in near), MAX_READ)
            if shortest <= len(names(item)) <= longest and isinstance(item, Tool) and item.only_for is None
        ]
        return self._access.seen(caller.principal, fitting[:MAX_ALIKE])


def _names_in(catalog: Catalog, view: View) -> Callable[[Item], str]:
    """How items are named in a view. Outside profiles that is a plain attribute, which is read a thousand times."""
    if view.bare or view.profile is None:
        return attrgetter("shown" if view.bare else "exposed")
    return partial(catalog.name, view)


def _written(name: str) -> str:
    """A name without capitals, with one underscore for each separator."""
    plain = name.lower().translate(_SEPARATORS)
    while "__" in plain:
        plain = plain.replace("__", "_")
    return plain


def _is(written: str, known: str) -> bool:
    """Whether a name is a known one, or that of a client for it."""
    plain = _written(known)
    return written == plain or (written.startswith(_CLIENT_PREFIX) and written.endswith(f"_{plain}"))


def _pairs(name: str) -> set[tuple[str, str]]:
    """The pairs of letters in a name, to compare many names quickly."""
    return set(pairwise(name))

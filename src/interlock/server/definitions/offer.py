"""The common part of tools, resources and prompts: a function with a key, a description and an entry in a list."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from interlock.server.definitions.functions import Function
from interlock.server.requests.content import Members, present


class OfferedFunction:
    """A function that a server lists and runs. Subclasses set `_entries`."""

    __slots__ = ("_description", "_entries", "_function", "key")

    _entries: tuple[bytes, bytes]
    """Its entry for clients of the handshake era, and for those of the stateless era."""

    def __init__(
        self, key: str, function: Callable[..., Any], options: Mapping[str, Any], input_schema: Members | None = None
    ) -> None:
        self.key = key
        self._function = Function(function, input_schema)
        given = options.get("description")
        self._description: str = self._function.signature.description if given is None else given

    @property
    def where(self) -> str:
        """The file, the line and the function it comes from."""
        return self._function.signature.where

    def entry(self, modern: bool) -> bytes:
        """Its entry in a list, as JSON."""
        return self._entries[modern]


def shown(options: Mapping[str, Any], **members: object) -> Members:
    """An entry: the members that have a value, with those that every kind of entry has."""
    return present(**members, title=options.get("title"), icons=options.get("icons") or None)


def name_of(function: object, options: Mapping[str, Any]) -> str:
    """The name that an author gave, or else the function's own."""
    return options.get("name") or str(getattr(function, "__name__", ""))


def check_options(what: str, given: Mapping[str, object], known: type) -> None:
    """Raise TypeError for an option that does not exist."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(names))}"
            raise TypeError(f"{what}: no option {name!r}{hint}")

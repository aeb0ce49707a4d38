"""Items that a server lists for some clients alone: for an audience, or on a private connection.

Each name or address has one definition, the first one. An audience with another definition of the same name is not
shown the first one, which is meant for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from interlock.client.connection import Connection
from interlock.hub.upstreams.sharing import audience_of
from interlock.process.turns import in_turns

AT_ONCE: Final = 500
"""Definitions whose names are read in one turn of the loop."""
MAX_FURTHER: Final = 1_000
"""Upper bound for the items of one audience beyond those for everybody. Further ones are left out."""


class FurtherItem(NamedTuple):
    """An item that not everybody has."""

    definition: bytes
    audiences: frozenset[str]


class AudienceItems:
    """The items of one kind of one server that not everybody has."""

    def __init__(self, id_member: Literal["name", "uri"]) -> None:
        self._id_member = id_member
        self.for_everybody: frozenset[str] = frozenset()
        """The ids of the items in the last list of the shared connection, as the server gave them."""
        self._further: dict[str, dict[str, bytes]] = {}
        """By audience or private connection, the definitions that it has beyond those for everybody, by id."""

    async def set_for_everybody(self, connection: Connection, definitions: Iterable[bytes]) -> None:
        """Take the list of the shared connection."""
        self.for_everybody = frozenset(id_ for id_, _ in await self._identified(definitions))

    async def set_for(self, audience: str, definitions: Iterable[bytes]) -> bool:
        """Take the list of an audience or a private connection. Returns whether it has other items beyond the list for
        everybody than before."""
        return await self._take(audience, await self._identified(definitions))

    async def beyond(self, definitions: Iterable[bytes]) -> list[bytes]:
        """The definitions of a list that not everybody has."""
        return list((await self._beyond(await self._identified(definitions))).values())

    def forget(self, audience: str) -> bool:
        """Forget the list of an audience or a private connection. Returns whether it had items of its own."""
        return bool(self._further.pop(audience, None))

    def further(self) -> dict[str, FurtherItem]:
        """All items that not everybody has, by id."""
        found: dict[str, FurtherItem] = {}
        for audience in sorted(self._further):
            for id_, definition in self._further[audience].items():
                first, audiences = found.get(id_) or FurtherItem(definition, frozenset())
                if id_ not in self.for_everybody and first == definition:
                    found[id_] = FurtherItem(first, audiences | {audience_of(audience)})
        return found

    async def _take(self, audience: str, identified: Sequence[tuple[str, bytes]]) -> bool:
        further = await self._beyond(identified)
        if further == self._further.get(audience, {}):
            return False
        self._further[audience] = further
        return True

    async def _beyond(self, identified: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        async for id_, definition in in_turns(identified, AT_ONCE):
            if len(found) == MAX_FURTHER:
                break
            if id_ not in self.for_everybody:
                found.setdefault(id_, definition)
        return found

    async def _identified(self, definitions: Iterable[bytes]) -> list[tuple[str, bytes]]:
        """Definitions with their ids. One that cannot be read has none, and is left out."""
        return [(id_, each) async for each in in_turns(definitions, AT_ONCE) if (id_ := self._id_of(each))]

    def _id_of(self, definition: bytes) -> str:
        try:
            read = msgspec.json.decode(definition, type=_Identity)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return read.name if self._id_member == "name" else read.uri


class AudienceResources(AudienceItems):
    """The resources of one server that not everybody has, and those that a call added on the shared connection."""

    def __init__(self) -> None:
        super().__init__("uri")
        self._listed: dict[str, frozenset[str]] = {}
        """By private connection, the addresses of all its resources."""
        self._first: tuple[Connection, frozenset[str]] | None = None
        """The shared connection, and the resources that it had at first."""

    async def set_for_everybody(self, connection: Connection, definitions: Iterable[bytes]) -> None:
        """Take the list of the shared connection."""
        await super().set_for_everybody(connection, definitions)
        if self._first is None or self._first[0] is not connection:
            self._first = (connection, self.for_everybody)

    def only_shared(self, uri: str, audience: str) -> bool:
        """Whether a call added this resource on the shared connection, and no private connection of the audience
        listed it: no other session of the server knows it."""
        if self._first is None or uri not in self.for_everybody or uri in self._first[1]:
            return False
        return not any(uri in uris and audience_of(key) == audience for key, uris in self._listed.items())

    def forget(self, audience: str) -> bool:
        """Forget the list of a private connection."""
        self._listed.pop(audience, None)
        return super().forget(audience)

    async def _take(self, audience: str, identified: Sequence[tuple[str, bytes]]) -> bool:
        self._listed[audience] = frozenset(uri for uri, _ in identified)
        return await super()._take(audience, identified)


class _Identity(msgspec.Struct):
    name: str = ""
    uri: str = ""

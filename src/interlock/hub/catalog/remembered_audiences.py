"""Remembers the tools that a server offers only to some clients, so that a restart need not ask for them again.

Asking a server of the handshake era may start a process for each set of capabilities. The answer holds while the server
introduces itself in the same way and has the same tools for everybody.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.store import Collection, Store

MAX_BYTES: Final = 256 * 1024
"""Longer answers are not remembered."""
MAX_ANSWERS: Final = 1_000
"""Upper bound for stored answers. One more drops all others, so that those of removed servers go; the rest is asked
again."""


class ForSome(msgspec.Struct, frozen=True):
    """The answer of one server for one audience."""

    id: str
    stamp: str
    """A digest of everything that the answer depends on."""
    definitions: list[str]


FOR_SOME: Final = Collection("audience_tools", ForSome, key="id")


async def read(store: Store, server: str, audience: str, stamp: str) -> list[bytes] | None:
    """The definitions beyond those for everybody; None where they are not known for this stamp."""
    found = await store.get(FOR_SOME, _key(server, audience))
    if found is None or found.value.stamp != stamp:
        return None
    return [definition.encode() for definition in found.value.definitions]


async def write(store: Store, server: str, audience: str, stamp: str, definitions: list[bytes]) -> None:
    """Replace the answer of a server for an audience."""
    if sum(map(len, definitions)) > MAX_BYTES:
        return
    try:
        texts = [definition.decode() for definition in definitions]
    except UnicodeDecodeError:
        return  # the offer leaves such a definition out
    known, key = await store.keys(FOR_SOME), _key(server, audience)
    async with store.transaction() as change:
        if len(known) >= MAX_ANSWERS and key not in known:
            for each in known:
                change.delete(FOR_SOME, each)
        change.put(FOR_SOME, ForSome(key, stamp, texts))


def _key(server: str, audience: str) -> str:
    return hashlib.sha256(msgspec.json.encode((server, audience))).hexdigest()

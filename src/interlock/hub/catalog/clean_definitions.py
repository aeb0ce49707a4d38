"""Definitions that were judged and found clean, kept over a restart so that a long list need not be judged again.

Only the digest of what was judged is kept, beside the digest of the judges themselves: with other rules nothing holds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from interlock import judge
from interlock.store import Collection, Store

DIGEST_BYTES: Final = 16
MOST_KEPT: Final = 65_536
"""Digests kept for one server: what it offers beyond that is judged again after a restart."""


class Clean(msgspec.Struct, frozen=True):
    """What was clean of one server, the last time it was listed."""

    server: str
    judges: str
    digests: str
    """All of them, one after the other, in base64."""


CLEAN: Final = Collection("clean_definitions", Clean, key="server")


async def read(store: Store, server: str) -> set[bytes]:
    """The digests that still hold for a server."""
    found = await store.get(CLEAN, server)
    if found is None or found.value.judges != judges():
        return set()
    octets = base64.b64decode(found.value.digests)
    return {octets[at : at + DIGEST_BYTES] for at in range(0, len(octets), DIGEST_BYTES)}


async def write(store: Store, server: str, digests: Iterable[bytes]) -> None:
    """Keep these and no others."""
    kept = b"".join(sorted(digests)[:MOST_KEPT])
    async with store.transaction() as change:
        change.put(CLEAN, Clean(server, judges(), base64.b64encode(kept).decode()))


@cache
def judges() -> str:
    """A digest of every rule there is: of the judges' own source, since the rules are written in it."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for path in sorted(Path(judge.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()

"""Remembers which definitions were judged clean, so that a restart need not judge a long list again.

The store keeps digests of the definitions and of the judging code. A change of the code makes them void.
"""

from __future__ import annotations

import asyncio
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
MAX_DIGESTS: Final = 65_536
"""Digests kept for one server. Each further definition is judged again after a restart."""


class CleanDefinitions(msgspec.Struct, frozen=True):
    """The clean definitions of one server when it was last listed."""

    server: str
    judges: str
    digests: str
    """All digests, concatenated, in base64."""


CLEAN: Final = Collection("clean_definitions", CleanDefinitions, key="server")


async def read(store: Store, server: str) -> set[bytes]:
    """The valid digests of a server."""
    found = await store.get(CLEAN, server)
    if found is None or found.value.judges != judges():
        return set()
    octets = base64.b64decode(found.value.digests)
    return {octets[at : at + DIGEST_BYTES] for at in range(0, len(octets), DIGEST_BYTES)}


async def write(store: Store, server: str, digests: Iterable[bytes]) -> None:
    """Replace the digests of a server."""
    made = await asyncio.to_thread(_made, server, digests)
    async with store.transaction() as change:
        change.put(CLEAN, made)


def _made(server: str, digests: Iterable[bytes]) -> CleanDefinitions:
    joined = b"".join(sorted(digests)[:MAX_DIGESTS])
    return CleanDefinitions(server, judges(), base64.b64encode(joined).decode())


@cache
def judges() -> str:
    """A digest of the judging code, which contains the rules."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for path in sorted(Path(judge.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()

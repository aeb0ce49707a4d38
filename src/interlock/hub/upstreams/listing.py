"""Everything one server offers, asked for and made into an offer. A list that a server cannot give is an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from interlock.client.connection import Connection
from interlock.config.settings import Server
from interlock.hub.catalog.offer import Offer, make_offer
from interlock.wire.errors import Fault

OFF_LOOP_BYTES: Final = 100_000
"""Lists larger than this are read in a thread, so that nobody waits for them."""

_LISTS: Final = (
    ("tools", "tools/list"),
    ("prompts", "prompts/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
)

Listed = list[list[bytes]]


async def fetch(connection: Connection, capabilities: Mapping[str, object], within_s: float) -> Listed:
    """All four lists at once. Raises TimeoutError, or a `Fault`."""

    async def one(capability: str, method: str) -> list[bytes]:
        if capability not in capabilities:
            return []
        try:
            listing = await connection.list_all(method, timeout=within_s)
            return [bytes(item) for item in listing.items]
        except Fault as fault:
            # Templates are optional for servers with resources.
            if fault.foreign_code == -32601:
                return []
            raise

    async with asyncio.timeout(within_s):
        return list(await asyncio.gather(*(one(capability, method) for capability, method in _LISTS)))


async def offer_of(server: str, listed: Listed, settings: Server) -> Offer:
    """The offer that lists make, worked out where nobody waits for it."""
    size = sum(len(item) for items in listed for item in items)
    make = partial(_offer_of, server, listed, settings)
    return await asyncio.to_thread(make) if size > OFF_LOOP_BYTES else make()


def _offer_of(server: str, listed: Listed, settings: Server) -> Offer:
    offer = make_offer(server, *listed, rules=settings.tools, whole_results=settings.max_result_tokens is None)
    for tool in offer.tools.values():
        tool.fingerprint()
    return offer

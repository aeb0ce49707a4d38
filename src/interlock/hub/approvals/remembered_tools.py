"""The pinned tools of a server that has not been started yet.

With them a server that starts on demand is found, listed and called before it runs. Its own offer replaces them.
"""

from __future__ import annotations

import asyncio

from interlock.config.settings import Server
from interlock.hub.approvals.pins import PINS
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.offer import Offer
from interlock.store import Store


async def remembered(store: Store, server: str, settings: Server) -> Offer | None:
    """The offer made from a server's pins; None without any."""
    pins = sorted((found.value for found in await store.find(PINS, server=server)), key=lambda pin: pin.name)
    definitions = [pin.definition.encode() for pin in pins if pin.definition and not pin.limited]
    if not definitions:
        return None
    whole = settings.whole_results
    return await asyncio.to_thread(make_offer, server, definitions, rules=settings.tools, whole_results=whole)

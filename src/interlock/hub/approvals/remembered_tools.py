"""The tools of a server that has not been started yet: those it had when it was last seen, as they were approved.

So a server that starts on demand is found, listed and called from the first moment; what it offers once it runs takes
their place.
"""

from __future__ import annotations

import asyncio

from interlock.config.settings import Server
from interlock.hub.approvals.pins import PINS
from interlock.hub.catalog.offer import Offer, make_offer
from interlock.store import Store


async def remembered(store: Store, server: str, settings: Server) -> Offer | None:
    """What is known of a server from earlier; None if nothing is."""
    pins = sorted((found.value for found in await store.find(PINS, server=server)), key=lambda pin: pin.name)
    definitions = [pin.definition.encode() for pin in pins if pin.definition]
    if not definitions:
        return None
    whole = settings.max_result_tokens is None
    return await asyncio.to_thread(make_offer, server, definitions, rules=settings.tools, whole_results=whole)

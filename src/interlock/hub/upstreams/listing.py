"""Everything one server offers, asked for and made into an offer. A list that a server cannot give is an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from interlock.client.connection import Connection
from interlock.config.settings import Server, Timeouts
from interlock.hub.catalog.offer import Offer, make_offer
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.restarts import asked_to_wait_s
from interlock.hub.upstreams.task_offers import takes_tasks
from interlock.wire.errors import Fault

OFF_LOOP_BYTES: Final = 100_000
"""Lists larger than this are read in a thread, so that nobody waits for them."""

LIST_AGAIN_S: Final = 10.0
"""Lists that could not be had in time are asked for again after so long."""

_LISTS: Final = (
    ("tools", "tools/list"),
    ("prompts", "prompts/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
)

Listed = list[list[bytes]]


class Lists:
    """What one server offers, as last known, and whether it is to be asked again."""

    def __init__(self, server: str, logs: Logs, offered: Callable[[Offer], Awaitable[None]]) -> None:
        self._server = server
        self._logs = logs
        self._offered = offered
        self.changed = asyncio.Event()
        """Set when they are to be read again."""
        self.left_out: list[str] = []
        """What could not be offered, each with the reason."""
        self.known = False
        """Whether they were read once and are shown."""
        self.problem: Fault | None = None
        """Why they could not be read when they last were asked for."""
        self._later: asyncio.TimerHandle | None = None

    async def read(self, connection: Connection, settings: Server, timeouts: Timeouts) -> None:
        """Ask for everything it offers. What cannot be had in time leaves the last known in force, and is asked for
        again; where nothing is known yet, it may take as long as the start."""
        self.changed.clear()
        within = discovery_s(timeouts, settings)
        if not self.known:
            within = max(within, timeouts.start_s)
        try:
            listed = await fetch(connection, within)
        except (TimeoutError, Fault) as cause:
            told = cause.message if isinstance(cause, Fault) else f"not given within {within:g} s"
            self._logs.add(self._server, "hub", f"its lists could not be read, the last known stay: {told}")
            self.problem = Fault("UPSTREAM_ERROR", f"its lists could not be read: {told}")
            if self._later is None:
                pause = max(LIST_AGAIN_S, asked_to_wait_s(cause) if isinstance(cause, Fault) else 0)
                self._later = asyncio.get_running_loop().call_later(pause, self._again)
            return
        offer = await offer_of(self._server, listed, settings, takes_tasks(connection.peer, modern=False))
        for reason in offer.left_out:
            self._logs.add(self._server, "hub", f"left out {reason}")
        self.left_out = offer.left_out
        offer.instructions = connection.peer.instructions
        await self._offered(offer)
        self.known = True
        self.problem = None

    def rest(self) -> None:
        """The connection is gone; the next one reads them anyway."""
        self.problem = None
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _again(self) -> None:
        self._later = None
        self.changed.set()


async def fetch(connection: Connection, within_s: float) -> Listed:
    """All four lists at once. Raises TimeoutError, or a `Fault`."""

    async def one(capability: str, method: str) -> list[bytes]:
        if not connection.peer.offers(capability):
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


async def offer_of(server: str, listed: Listed, settings: Server, tasks: bool = False) -> Offer:
    """The offer that lists make, worked out where nobody waits for it. `tasks`: calls are taken as tasks there."""
    size = sum(len(item) for items in listed for item in items)
    make = partial(_offer_of, server, listed, settings, tasks)
    return await asyncio.to_thread(make) if size > OFF_LOOP_BYTES else make()


def _offer_of(server: str, listed: Listed, settings: Server, tasks: bool) -> Offer:
    whole = settings.max_result_tokens is None
    offer = make_offer(server, *listed, rules=settings.tools, whole_results=whole, tasks=tasks)
    for tool in offer.tools.values():
        tool.fingerprint()
    return offer


def discovery_s(hub: Timeouts, server: Server) -> float:
    """How long listing a server again may take."""
    own = server.timeouts.discovery_s
    return hub.discovery_s if own is None else own

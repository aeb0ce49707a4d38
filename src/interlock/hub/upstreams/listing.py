"""Lists the tools, prompts and resources of one server and makes an offer of them.

A server that does not support a list has an empty one.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final

from interlock.client.connection import Connection
from interlock.client.peer import Peer
from interlock.config.settings import ServerSettings
from interlock.hub.catalog.definitions import OnlyFor, make_offer
from interlock.hub.catalog.items import ItemKind
from interlock.hub.catalog.offer import Offer
from interlock.hub.upstreams.audience_items import AT_ONCE, AudienceItems, AudienceResources
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.restarts import MAX_DOUBLINGS, requested_wait_s
from interlock.hub.upstreams.task_offers import takes_tasks
from interlock.process.threads import WorkerThreads
from interlock.process.turns import in_turns
from interlock.process.wake_signal import WakeSignal
from interlock.wire.errors import Fault

TINY_BYTES: Final = 2_000
"""Lists of this size are read on the event loop: half a millisecond."""
LARGE_BYTES: Final = 100_000
"""Lists larger than this do not keep those of other servers waiting."""
_OFFERS: Final = WorkerThreads(1, "offers")

LIST_AGAIN_S: Final = 10.0
"""The hub requests lists that it could not read again after this time, and after twice that each further time."""
MAX_LIST_AGAIN_S: Final = 640.0

_LISTS: Final = (
    ("tools", "tools/list"),
    ("prompts", "prompts/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
)

Listed = list[list[bytes]]


class ServerLists:
    """Reads the lists of one server, and remembers whether they are to be read again."""

    def __init__(self, current: CurrentSettings, logs: Logs, hub: HubInterface) -> None:
        self._current = current
        self._logs = logs
        self._hub = hub
        self.changed = WakeSignal()
        """Set when the lists are to be read again."""
        self.left_out: list[str] = []
        """Items that the hub does not offer, each with the reason."""
        self.known = False
        """Whether the lists were read once."""
        self.problem: Fault | None = None
        """Why the last reading failed."""
        self._later: asyncio.TimerHandle | None = None
        self._failures = 0
        """Readings in a row that failed. Pauses grow with it: an answer that is too large is expensive each time."""
        self.tools = AudienceItems("name")
        self.resources = AudienceResources()
        self._in_force = WakeSignal()
        """Set when the next reading has ended."""
        self._reading: WakeSignal | None = None
        """Set when the present reading has ended."""

    @property
    def pending(self) -> bool:
        """Whether the hub reads the lists now, or will do so soon."""
        return self._reading is not None or self.changed.is_set()

    async def settled(self) -> None:
        """Wait until changes that the server announced so far are in force, or when that takes too long."""
        in_force = self._in_force if self.changed.is_set() else self._reading
        if in_force is not None:
            await self._wait_for(in_force)

    @property
    def read_again_at(self) -> float | None:
        """The loop's time of the next reading of lists that could not be read; None if none is planned."""
        return None if self._later is None else self._later.when()

    async def set_tools(self, audience: str, listed: list[bytes]) -> bool:
        """Offer to an audience what its list has beyond the tools for everybody, and read the lists again.

        Returns once that is in force; False at once where the audience has no other tools than before.
        """
        changed = await self.tools.set_for(audience, listed)
        if changed:
            await self.again()
        return changed

    async def set_resources(self, connection_key: str, listed: list[bytes]) -> bool:
        """The same for the resources of a private connection and its clients."""
        changed = await self.resources.set_for(connection_key, listed)
        if changed:
            await self.again()
        return changed

    def forget(self, audience: str) -> None:
        """Offer nothing more to an audience, or to the clients of a private connection."""
        tools, resources = self.tools.forget(audience), self.resources.forget(audience)
        if tools or resources:
            self.changed.set()

    async def again(self) -> None:
        """Read the lists again. Returns once they are in force, or when that takes too long."""
        in_force = self._in_force
        self.changed.set()
        await self._wait_for(in_force)

    async def read(self, connection: Connection) -> None:
        """Read all lists. When that fails, the last known lists stay in force and the hub reads them again later.

        The first reading may take as long as a start.
        """
        in_force, self._in_force = self._in_force, WakeSignal()
        self._reading = in_force
        try:
            await self._read(connection)
        finally:
            self._reading = None
            in_force.set()

    async def _wait_for(self, in_force: WakeSignal) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._current.discovery_s):
                await in_force.wait()

    async def _read(self, connection: Connection) -> None:
        self.changed.clear()
        within = self._current.discovery_s
        if not self.known:
            within = max(within, self._current.timeouts.start_s)
        try:
            listed = await fetch(connection, within)
        except (TimeoutError, Fault) as cause:
            fault = cause if isinstance(cause, Fault) else Fault("UPSTREAM_TIMEOUT", f"no answer within {within:g} s")
            self._on_failed(fault)
            return
        offer = await self._offer(connection, listed)
        for reason in offer.left_out:
            self._log(f"left out {reason}")
        self.left_out = offer.left_out
        await self._hub.on_offer(offer)
        self.known = True
        self.problem = None
        self._failures = 0

    async def _offer(self, connection: Connection, listed: Listed) -> Offer:
        """Make an offer of the lists of the shared connection, and of the items that some clients have beyond them."""
        only_for: dict[tuple[ItemKind, str], frozenset[str]] = {}
        further: tuple[tuple[ItemKind, AudienceItems, list[bytes]], ...] = (
            ("tool", self.tools, listed[0]),
            ("resource", self.resources, listed[2]),
        )
        for kind, items, definitions in further:
            await items.set_for_everybody(connection, definitions)
            for id_, item in items.further().items():
                definitions.append(item.definition)
                only_for[kind, id_] = item.audiences
        return await offer_of(self._current, connection.peer, listed, only_for)

    def _on_failed(self, fault: Fault) -> None:
        self._log(f"its lists could not be read, the last known stay: {fault.message}")
        self.problem = fault.reworded(f"its lists could not be read: {fault.message}", fault.data)
        if self._later is None:
            pause = min(LIST_AGAIN_S * 2.0**self._failures, MAX_LIST_AGAIN_S)
            self._failures = min(self._failures + 1, MAX_DOUBLINGS)
            pause = max(pause, requested_wait_s(fault))
            self._later = asyncio.get_running_loop().call_later(pause, self._again)

    def on_disconnected(self) -> None:
        """Cancel a planned reading: the next connection reads the lists anyway."""
        self.problem = None
        self._failures = 0
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _again(self) -> None:
        self._later = None
        self.changed.set()

    def _log(self, text: str) -> None:
        self._logs.add(self._current.id, "hub", text)


async def fetch(connection: Connection, within_s: float) -> Listed:
    """Request all four lists at once. Raises TimeoutError, or a `Fault`."""

    async def one(capability: str, method: str) -> list[bytes]:
        if not connection.peer.offers(capability):
            return []
        try:
            listing = await connection.list_all(method, timeout=within_s)
            return [bytes(item) async for item in in_turns(listing.items, AT_ONCE)]
        except Fault as fault:
            # Templates are optional for servers with resources.
            if fault.foreign_code == -32601:
                return []
            raise

    async with asyncio.timeout(within_s):
        return list(await asyncio.gather(*(one(capability, method) for capability, method in _LISTS)))


async def offer_of(current: CurrentSettings, peer: Peer, listed: Listed, only_for: OnlyFor) -> Offer:
    """Make an offer of lists, in a thread unless they are tiny. `only_for`: the audiences of what not everybody has."""
    size = sum(len(item) for items in listed for item in items)
    make = partial(_offer_of, current.id, current.server, peer, listed, only_for)
    if size <= TINY_BYTES:
        return make()
    # Many servers list at once: one thread for all of them leaves most of the processor to the loop.
    thread = None if size > LARGE_BYTES else _OFFERS
    return await asyncio.get_running_loop().run_in_executor(thread, make)


def _offer_of(server: str, settings: ServerSettings, peer: Peer, listed: Listed, only_for: OnlyFor) -> Offer:
    offer = make_offer(
        server,
        *listed,
        rules=settings.tools,
        whole_results=settings.whole_results,
        tasks=takes_tasks(peer, modern=False),
        only_for=only_for,
        instructions=peer.instructions,
    )
    for tool in offer.tools.values():
        tool.fingerprint()
        tool.digest()
    return offer

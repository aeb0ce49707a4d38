"""Lists the tools, prompts and resources of one server and makes an offer of them.

A server that does not support a list has an empty one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.config.settings import Server
from interlock.hub.catalog.definitions import make_offer
from interlock.hub.catalog.offer import Offer
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.restarts import MAX_DOUBLINGS, requested_wait_s
from interlock.hub.upstreams.sharing import audience_of
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

AT_ONCE: Final = 500
"""Definitions whose names are read in one turn of the loop."""
MAX_FURTHER: Final = 1_000
"""Tools of one server for one audience beyond those for everybody. Further ones are left out."""

LIST_AGAIN_S: Final = 10.0
"""The hub requests lists that it could not read again after this time, and after twice that each further time."""
LIST_AGAIN_MOST_S: Final = 640.0

_LISTS: Final = (
    ("tools", "tools/list"),
    ("prompts", "prompts/list"),
    ("resources", "resources/list"),
    ("resources", "resources/templates/list"),
)

Listed = list[list[bytes]]


class Lists:
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
        """Readings in a row that failed. An answer that is too large costs much each time, and stays too large."""
        self.for_everybody: frozenset[str] = frozenset()
        """The names of the tools in the last list of the shared connection, as the server gave them."""
        self._for_some: dict[str, list[bytes]] = {}
        """By audience, the definitions of the tools that it has beyond those for everybody."""
        self._private_resources: dict[str, dict[str, bytes]] = {}
        """By private connection, the resources that it has and the shared connection does not, by address."""
        self._private_uris: dict[str, frozenset[str]] = {}
        """By private connection, the addresses of all its resources."""
        self._shared_resources: frozenset[str] = frozenset()
        self._first: tuple[Connection, frozenset[str]] | None = None
        """The shared connection, and the resources that it had at first."""
        self._in_force = WakeSignal()
        """Set when the next reading has ended."""

    async def set_for_some(self, audience: str, listed: list[bytes]) -> None:
        """Offer to an audience what its list has beyond the tools for everybody. Returns once that is in force."""
        further = await self.beyond(listed)
        if further == self._for_some.get(audience, []):
            return
        self._for_some[audience] = further
        await self.again()

    async def set_resources(self, connection_key: str, listed: list[bytes]) -> None:
        """Offer the resources of a private connection to its clients. Returns once that is in force."""
        uris = [(_uri_of(definition), definition) async for definition in in_turns(listed, AT_ONCE)]
        further = {uri: definition for uri, definition in uris if uri and uri not in self._shared_resources}
        further = dict(list(further.items())[:MAX_FURTHER])
        self._private_uris[connection_key] = frozenset(uri for uri, _ in uris)
        if further != self._private_resources.get(connection_key, {}):
            self._private_resources[connection_key] = further
            await self.again()

    def only_shared(self, uri: str, audience: str) -> bool:
        """Whether the shared connection has a resource that it did not have at first, and the private connections of an
        audience did not list: a call added it there, and no other session of the server knows it."""
        if self._first is None or uri not in self._shared_resources or uri in self._first[1]:
            return False
        return not any(uri in uris and audience_of(key) == audience for key, uris in self._private_uris.items())

    async def beyond(self, listed: list[bytes]) -> list[bytes]:
        """The definitions of a list that not everybody has."""
        known = self.for_everybody | {""}
        named = in_turns(listed, AT_ONCE)
        return [definition async for definition in named if _name_of(definition) not in known][:MAX_FURTHER]

    def forget(self, audience: str) -> None:
        """Offer nothing more to an audience, or to the clients of a private connection."""
        tools, resources = self._for_some.pop(audience, None), self._private_resources.pop(audience, None)
        self._private_uris.pop(audience, None)
        if tools or resources:
            self.changed.set()

    async def again(self) -> None:
        """Read the lists again. Returns once they are in force, or when that takes too long."""
        in_force = self._in_force
        self.changed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._current.discovery_s):
                await in_force.wait()

    async def read(self, connection: Connection) -> None:
        """Read all lists. When that fails, the last known lists stay in force and the hub reads them again later.

        The first reading may take as long as a start.
        """
        in_force, self._in_force = self._in_force, WakeSignal()
        try:
            await self._read(connection)
        finally:
            in_force.set()

    async def _read(self, connection: Connection) -> None:
        self.changed.clear()
        within = self._current.discovery_s
        if not self.known:
            within = max(within, self._current.timeouts.start_s)
        try:
            listed = await fetch(connection, within)
        except (TimeoutError, Fault) as cause:
            fault = cause if isinstance(cause, Fault) else Fault("UPSTREAM_TIMEOUT", f"no answer within {within:g} s")
            self._log(f"its lists could not be read, the last known stay: {fault.message}")
            self.problem = fault.reworded(f"its lists could not be read: {fault.message}", fault.data)
            if self._later is None:
                pause = min(LIST_AGAIN_S * 2.0**self._failures, LIST_AGAIN_MOST_S)
                self._failures = min(self._failures + 1, MAX_DOUBLINGS)
                pause = max(pause, requested_wait_s(fault))
                self._later = asyncio.get_running_loop().call_later(pause, self._again)
            return
        tasks = takes_tasks(connection.peer, modern=False)
        for_some = dict(self._for_some)
        self.for_everybody = await names_of(listed[0])
        further = further_tools(self.for_everybody, for_some)
        listed[0] += [definition for definition, _ in further.values()]
        uris = frozenset([_uri_of(definition) async for definition in in_turns(listed[2], AT_ONCE)])
        if self._first is None or self._first[0] is not connection:
            self._first = (connection, uris)
        self._shared_resources = uris
        private = further_resources(uris, self._private_resources)
        listed[2] += [definition for definition, _ in private.values()]
        offer = await offer_of(self._current.id, listed, self._current.server, tasks)
        for name, (_, audiences) in further.items():
            tool = offer.named(name)
            if tool is not None:
                tool.only_for = audiences
                offer.audiences |= audiences
        for uri, (_, audiences) in private.items():
            if uri in offer.resources:
                offer.resources[uri].only_for = audiences
                offer.audiences |= audiences
        for reason in offer.left_out:
            self._log(f"left out {reason}")
        self.left_out = offer.left_out
        offer.instructions = connection.peer.instructions
        await self._hub.on_offer(offer)
        self.known = True
        self.problem = None
        self._failures = 0

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


async def names_of(definitions: Iterable[bytes]) -> frozenset[str]:
    """The names in definitions of tools. One that cannot be read has none."""
    return frozenset([_name_of(definition) async for definition in in_turns(definitions, AT_ONCE)]) - {""}


def further_tools(
    known: frozenset[str], for_some: Mapping[str, Iterable[bytes]]
) -> dict[str, tuple[bytes, frozenset[str]]]:
    """Tools that not everybody has, by name, with their audiences. Each name has one definition, the first."""
    found: dict[str, tuple[bytes, frozenset[str]]] = {}
    for audience in sorted(for_some):
        for definition in for_some[audience]:
            name = _name_of(definition)
            first, audiences = found.get(name, (definition, frozenset[str]()))
            if name and name not in known and first == definition:
                found[name] = (first, audiences | {audience_of(audience)})
    return found


def further_resources(
    known: frozenset[str], private: Mapping[str, Mapping[str, bytes]]
) -> dict[str, tuple[bytes, frozenset[str]]]:
    """Resources of private connections alone, by address, with their audiences. Each address has one definition, the
    first: an audience whose server describes it otherwise is not shown the text that is meant for another."""
    found: dict[str, tuple[bytes, frozenset[str]]] = {}
    for connection_key in sorted(private):
        for uri, definition in private[connection_key].items():
            first, audiences = found.get(uri, (definition, frozenset[str]()))
            if uri not in known and first == definition:
                found[uri] = (first, audiences | {audience_of(connection_key)})
    return found


def _uri_of(definition: bytes) -> str:
    try:
        return msgspec.json.decode(definition, type=_Named).uri
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _name_of(definition: bytes) -> str:
    try:
        return msgspec.json.decode(definition, type=_Named).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


class _Named(msgspec.Struct):
    name: str = ""
    uri: str = ""


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


async def offer_of(server: str, listed: Listed, settings: Server, tasks: bool = False) -> Offer:
    """Make an offer of lists, in a thread unless they are tiny. `tasks`: the server takes calls as tasks."""
    size = sum(len(item) for items in listed for item in items)
    make = partial(_offer_of, server, listed, settings, tasks)
    if size <= TINY_BYTES:
        return make()
    # Many servers list at once: one thread for all of them leaves most of the processor to the loop.
    thread = None if size > LARGE_BYTES else _OFFERS
    return await asyncio.get_running_loop().run_in_executor(thread, make)


def _offer_of(server: str, listed: Listed, settings: Server, tasks: bool) -> Offer:
    offer = make_offer(server, *listed, rules=settings.tools, whole_results=settings.whole_results, tasks=tasks)
    for tool in offer.tools.values():
        tool.fingerprint()
        tool.digest()
    return offer

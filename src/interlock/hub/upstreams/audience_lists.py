"""Tools that a server offers only to some clients: the hub asks the server for each audience, and lists them for it.

The shared connection declares no capabilities, so its list has the tools for everybody. An audience is a set of
declared capabilities. The hub asks once for each that a client declares when it lists: a server of the stateless era
with one more request, one of the handshake era in a session that is closed again, and whose answer the store keeps. A
client that declares less does not see the tools for those that declare more.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.catalog.audiences import DECLARES, capabilities_of
from interlock.hub.upstreams.connection_owner import ROOTS
from interlock.hub.upstreams.connection_pool import ConnectionPool
from interlock.hub.upstreams.connector import Connector
from interlock.hub.upstreams.current_settings import CurrentSettings
from interlock.hub.upstreams.early_requests import RequestListener, refuse
from interlock.hub.upstreams.hub_interface import HubInterface
from interlock.hub.upstreams.listing import ServerLists
from interlock.hub.upstreams.logs import Logs
from interlock.hub.upstreams.roots_use import RootsUse
from interlock.hub.upstreams.starts import Starts
from interlock.process.task_set import TaskSet
from interlock.store import StoreError
from interlock.wire.errors import Fault
from interlock.wire.messages import Request

AGAIN_AFTER_S: Final = 60.0
"""The hub asks again for a changed list, or one that it could not read, at most this often: it may start a process."""


class AudienceLists:
    """Asks one server for the tools of each audience, and adds them to its lists."""

    def __init__(
        self,
        current: CurrentSettings,
        connector: Connector,
        pool: ConnectionPool,
        lists: ServerLists,
        starts: Starts,
        logs: Logs,
        hub: HubInterface,
    ) -> None:
        self._hub = hub
        self._current = current
        self._connector = connector
        self._pool = pool
        self._lists = lists
        self._starts = starts
        self._logs = logs
        self._last_listed: dict[str, tuple[frozenset[str] | None, float, Connection]] = {}
        """By audience, the list for everybody when it was asked for, when that was, and the shared connection then.

        The list is None where the server did not answer.
        """
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._closing = TaskSet()

    def unknown(self, audience: str) -> bool:
        """Whether the server was not asked yet what it offers to an audience, or has changed since."""
        shared = self._pool.shared
        if shared is None or not self._lists.known:
            return False
        if audience in self._asking:
            return True
        last = self._last_listed.get(audience)
        if last is None or last[2] is not shared.connection:
            return True
        return last[0] != self._lists.tools.for_everybody and _now() - last[1] > AGAIN_AFTER_S

    def asked(self, audience: str) -> bool:
        """Whether the server has answered for an audience before, or could not."""
        return audience in self._last_listed

    async def ask(self, audience: str) -> None:
        """Ask the server, and wait until its answer is in force. Simultaneous callers ask once."""
        task = self._asking.get(audience)
        if task is None:
            task = self._asking[audience] = asyncio.create_task(self._ask(audience))
            task.add_done_callback(lambda _: self._asking.pop(audience, None))
        await asyncio.wait([task])

    def stop(self) -> None:
        """Ask no further: the server is not connected any more."""
        for task in self._asking.values():
            task.cancel()

    async def close(self) -> None:
        """Ask no further, and wait until the processes that were started to be listed have ended."""
        self.stop()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._closing.settled()

    async def _ask(self, audience: str) -> None:
        shared = self._pool.shared
        if shared is None:
            return
        everybody = self._lists.tools.for_everybody
        try:
            listed = await self._listed(shared.connection, audience)
        except (Fault, TimeoutError) as cause:
            reason = cause.message if isinstance(cause, Fault) else "no answer in time"
            declared = audience.removeprefix(DECLARES)
            self._log(f"its tools for clients that declare {declared} could not be read, the last known stay: {reason}")
            self._last_listed[audience] = (None, _now(), shared.connection)
            return
        self._last_listed[audience] = (everybody, _now(), shared.connection)
        await self._lists.set_tools(audience, listed)

    async def _listed(self, shared: Connection, audience: str) -> list[bytes]:
        within_s, capabilities = self._current.discovery_s, capabilities_of(audience)
        if not shared.peer.offers("tools"):
            return []
        if shared.modern:
            listing = await shared.list_all("tools/list", timeout=within_s, declaring=capabilities)
            return [bytes(item) for item in listing.items]
        stamp = self._stamp(shared)
        remembered = await self._remembered(audience, stamp)
        if remembered is not None:
            return remembered
        turn = self._starts.ask(0, called=False)
        try:
            await turn.granted
            listed = await self._listed_by_session(capabilities, within_s)
        finally:
            turn.end()
        await self._remember(audience, stamp, await self._lists.tools.beyond(listed))
        return listed

    async def _remembered(self, audience: str, stamp: str) -> list[bytes] | None:
        try:
            return await self._hub.remembered_tools(self._current.id, audience, stamp)
        except StoreError:
            return None  # then the server is asked

    async def _remember(self, audience: str, stamp: str, definitions: list[bytes]) -> None:
        try:
            await self._hub.remember_tools(self._current.id, audience, stamp, definitions)
        except StoreError as cause:
            # They are offered nevertheless, and the next start asks again.
            self._log(f"its tools for some clients could not be stored: {cause.for_operators}")

    def _log(self, text: str) -> None:
        self._logs.add(self._current.id, "hub", text)

    def _stamp(self, shared: Connection) -> str:
        """A digest of everything that the answer for an audience depends on."""
        server, peer = self._current.server, shared.peer
        identity = (
            server.command,
            server.url,
            peer.revision.name,
            peer.server_info,
            sorted(self._lists.tools.for_everybody),
        )
        return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()

    async def _listed_by_session(self, capabilities: bytes, within_s: float) -> list[bytes]:
        listener = _ListingListener(self._pool.roots_use)
        connection = await self._connector.listing(capabilities, listener)
        listener.attach(connection)
        try:
            async with asyncio.timeout(within_s):
                listing = await connection.list_all("tools/list", timeout=within_s)
                if listener.changed:
                    listing = await connection.list_all("tools/list", timeout=within_s)
                return [bytes(item) for item in listing.items]
        finally:
            # In the background, since a process may take long to end.
            self._closing.begin(connection.close())


class _ListingListener(RequestListener):
    """Refuses every request of a server that is only listed."""

    def __init__(self, roots_use: RootsUse) -> None:
        super().__init__()
        self._roots_use = roots_use
        self.changed = False
        """Whether the server said that its list changed."""

    def answer(self, connection: Connection, request: Request) -> None:
        if request.method == ROOTS:
            self._roots_use.on_asked(beside_calls=True)
        refuse(connection, request, f"{request.method} is not served while the server is listed")

    def on_notification(self, method: str, params: bytes) -> None:
        self.changed |= method == "notifications/tools/list_changed"

    def on_log(self, stream: str, text: str) -> None:
        pass

    def on_closed(self, fault: Fault) -> None:
        pass


def _now() -> float:
    return asyncio.get_running_loop().time()

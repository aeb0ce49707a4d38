"""The record on its way to audit servers: `notifications/mgp.audit`, in order, nothing left out (MGP, Audit Trail).

The record itself is the queue. A cursor in the store says how far each server has come; it moves only when the server
has taken what it was sent, so what a broken connection or a restart leaves in doubt is sent again. Every notification
names its place in the chain, by which a second one is recognised.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.audit.chain import record_of
from interlock.hub.audit.mgp_format import METHOD, notification
from interlock.hub.audit.record import CLAIMED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.upstreams.upstream import Upstream
from interlock.protocols.mgp.security import Trust, lower_trust
from interlock.store import Collection, Store, StoreError
from interlock.store import records as rows
from interlock.store.records import RecordRow
from interlock.wire.errors import Fault

BATCH: Final = 64
"""So many are sent before the server is waited for."""
GATHER_S: Final = 0.05
"""How long further records are waited for, so that they go together."""
TAKEN_WITHIN_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 60.0

Log = Callable[[str, str], None]


class Cursor(msgspec.Struct, frozen=True):
    """How far one server has come in one chain."""

    id: str
    server: str
    chain: str
    seq: int
    asked: bool
    """Whether it wanted the record when the hub first met it. One that only begins to later has changed."""


CURSORS: Final = Collection("audit_cursors", Cursor, key="id")


class AuditReceivers:
    """Sends one chain to every server that is to have it."""

    def __init__(self, recorder: Recorder, store: Store, log: Log) -> None:
        self._recorder = recorder
        self._store = store
        self._log = log
        self._ways: dict[str, _Receiver] = {}
        self._senders: set[_Receiver] = set()
        recorder.follow(lambda records: self._wake())

    def connected(self, server: Upstream) -> None:
        """A server is there: whether it is to have the record is looked up, and it goes on where it was."""
        way = self._ways.get(server.id)
        if way is None:
            way = self._ways[server.id] = _Receiver(server, self._recorder, self._store, self._log, self)
        way.connected(server)

    def is_destination(self, server: str) -> bool:
        """Whether the record goes to a server."""
        way = self._ways.get(server)
        return way in self._senders

    async def close(self) -> None:
        """Send no more; what was not sent is sent after the next start."""
        ways, self._ways = self._ways, {}
        tasks = [way.task for way in ways.values() if way.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sends(self, way: _Receiver, sends: bool) -> None:
        """Whether a way is to hear of new records. Each commit wakes those that do, however many servers there are."""
        if sends:
            self._senders.add(way)
        else:
            self._senders.discard(way)

    def _wake(self) -> None:
        for way in self._senders:
            way.woken.set()


class _Receiver:
    """The way to one server. It is busy from when a connection is there until it is known not to be wanted."""

    def __init__(self, server: Upstream, recorder: Recorder, store: Store, log: Log, all_ways: AuditReceivers) -> None:
        self.server = server
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._recorder = recorder
        self._store = store
        self._log = log
        self._all = all_ways
        self._met_before = False
        self._fresh = asyncio.Event()
        self._complained = ""
        self._cursor = Cursor(f"{recorder.chain}/{server.id}", server.id, recorder.chain, recorder.resumed.seq, False)

    def connected(self, server: Upstream) -> None:
        """There is a new connection: whatever waits is tried again at once."""
        self.server = server
        self._fresh.set()
        self.woken.set()
        if self.task is None:
            self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            await self.woken.wait()
            self.woken.clear()
            self._fresh.clear()
            try:
                if not self._met_before:
                    self._cursor, self._met_before = await self._met(), True
                wanted = self._is_wanted()
                self._all.sends(self, wanted)
                if wanted:
                    await asyncio.sleep(GATHER_S)
                    await self._send()
                elif not self.woken.is_set():
                    self.task = None
                    return
                pause, self._complained = FIRST_PAUSE_S, ""
            except (Fault, StoreError, TimeoutError) as cause:
                self._complain(f"audit records wait to be sent to it: {cause!r}")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._fresh.wait(), pause)
                self.woken.set()
                pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _met(self) -> Cursor:
        """The cursor as it was left, or a new one: a server that is met for the first time hears of this run."""
        found = await self._store.get(CURSORS, self._cursor.id)
        if found is not None:
            return found.value
        cursor = msgspec.structs.replace(self._cursor, asked=asks_for_audit(self.server))
        async with self._store.transaction() as change:
            change.put(CURSORS, cursor)
        return cursor

    def _is_wanted(self) -> bool:
        wish, asks = self.server.settings.audit, asks_for_audit(self.server) and not _sandboxed(self.server)
        if wish == "auto" and asks and not self._cursor.asked:
            self._complain('wants the record now and did not before; it gets it once its settings say `audit = "all"`')
        return wish == "all" or (wish == "auto" and asks and self._cursor.asked)

    async def _send(self) -> None:
        while (line := self.server.line(None)) is not None:
            page = await self._store.read(
                lambda database: rows.page(database, self._cursor.chain, self._cursor.seq, BATCH)
            )
            if not page:
                return
            told = [notification(row.chain, row.seq, record_of(row.body)) for row in page if not self._echoes(row)]
            if told:
                await line.connection.tell_surely(METHOD, told, TAKEN_WITHIN_S)
            self._cursor = msgspec.structs.replace(self._cursor, seq=page[-1].seq)
            async with self._store.transaction() as change:
                change.put(CURSORS, self._cursor)

    def _echoes(self, row: RecordRow) -> bool:
        """What audit servers themselves claim goes to none of them: two that repeat what they hear would never end."""
        return row.event == CLAIMED and self._all.is_destination(row.server)

    def _complain(self, text: str) -> None:
        if text != self._complained:
            self._complained = text
            self._log(self.server.id, text)


def _sandboxed(server: Upstream) -> bool:
    """Whether a server is one whose word counts for nothing: it gets the record only if the operator says so."""
    claimed = None if server.agreement is None else server.agreement.offer.trust_level
    return lower_trust(Trust[server.settings.trust.upper()], claimed) is Trust.SANDBOXED


def asks_for_audit(server: Upstream) -> bool:
    """Whether a server negotiated MGP's audit extension."""
    return server.agreement is not None and server.agreement.speaks("audit")

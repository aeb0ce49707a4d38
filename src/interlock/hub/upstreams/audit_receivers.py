"""Sends the audit log to audit servers: `notifications/mgp.audit`, in order and complete (MGP, Audit Trail).

The audit log itself is the queue. A cursor in the store marks the last record that each server took, so the hub sends
records again after a broken connection or a restart. Each notification has its number in the chain, by which a server
recognises a duplicate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from interlock.hub.audit.chain import UnreadableRecord, record_of
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
"""The hub sends this many records before it waits for the server."""
GATHER_S: Final = 0.05
"""How long the hub waits for further records, to send them together."""
DELIVERY_S: Final = 30.0
MIN_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 60.0

Log = Callable[[str, str], None]


class Cursor(msgspec.Struct, frozen=True):
    """The last record of one chain that a server took."""

    id: str
    server: str
    chain: str
    seq: int
    asked: bool
    """Whether the server requested audit records when the hub first connected to it."""


CURSORS: Final = Collection("audit_cursors", Cursor, key="id")


class AuditReceivers:
    """Sends one chain to every server that receives it."""

    def __init__(self, recorder: Recorder, store: Store, log: Log) -> None:
        self._recorder = recorder
        self._store = store
        self._log = log
        self._receivers: dict[str, _Receiver] = {}
        self._active: set[_Receiver] = set()
        recorder.follow(lambda records: self._wake())

    def connected(self, server: Upstream) -> None:
        """Continue sending to a server that was just connected, if it receives audit records."""
        receiver = self._receivers.get(server.id)
        if receiver is None:
            receiver = self._receivers[server.id] = _Receiver(server, self._recorder, self._store, self._log, self)
        receiver.connected(server)

    def is_destination(self, server: str) -> bool:
        """Whether a server receives audit records."""
        return self._receivers.get(server) in self._active

    async def close(self) -> None:
        """Stop sending. The next start sends the remaining records."""
        receivers, self._receivers = self._receivers, {}
        tasks = [receiver.task for receiver in receivers.values() if receiver.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def set_active(self, receiver: _Receiver, active: bool) -> None:
        """Wake a receiver for new records, or no longer. A commit wakes only the active ones."""
        if active:
            self._active.add(receiver)
        else:
            self._active.discard(receiver)

    def _wake(self) -> None:
        for receiver in self._active:
            receiver.woken.set()


class _Receiver:
    """Sends records to one server. Its task ends when the server turns out not to receive audit records."""

    def __init__(self, server: Upstream, recorder: Recorder, store: Store, log: Log, receivers: AuditReceivers) -> None:
        self.server = server
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._recorder = recorder
        self._store = store
        self._log = log
        self._receivers = receivers
        self._loaded = False
        self._reconnected = asyncio.Event()
        self._last_warning = ""
        self._cursor = Cursor(f"{recorder.chain}/{server.id}", server.id, recorder.chain, recorder.resumed.seq, False)

    def connected(self, server: Upstream) -> None:
        """Send waiting records at once, as there is a new connection."""
        self.server = server
        self._reconnected.set()
        self.woken.set()
        if self.task is None:
            self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        pause = MIN_PAUSE_S
        while True:
            await self.woken.wait()
            self.woken.clear()
            self._reconnected.clear()
            try:
                if not self._loaded:
                    self._cursor, self._loaded = await self._load_cursor(), True
                wanted = self._is_wanted()
                self._receivers.set_active(self, wanted)
                if wanted:
                    await asyncio.sleep(GATHER_S)
                    await self._send()
                elif not self.woken.is_set():
                    self.task = None
                    return
                pause, self._last_warning = MIN_PAUSE_S, ""
            except (Fault, StoreError, TimeoutError) as cause:
                self._warn(f"audit records could not be sent, and the hub tries again: {cause!r}")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._reconnected.wait(), pause)
                self.woken.set()
                pause = min(2 * pause, MAX_PAUSE_S)

    async def _load_cursor(self) -> Cursor:
        """The stored cursor, or a new one: a new server receives the records since the start of this run."""
        found = await self._store.get(CURSORS, self._cursor.id)
        if found is not None:
            return found.value
        cursor = msgspec.structs.replace(self._cursor, asked=asks_for_audit(self.server))
        async with self._store.transaction() as change:
            change.put(CURSORS, cursor)
        return cursor

    def _is_wanted(self) -> bool:
        setting = self.server.settings.audit
        requests = asks_for_audit(self.server) and not _sandboxed(self.server)
        if setting == "auto" and requests and not self._cursor.asked:
            self._warn('requests audit records now and did not before; set `audit = "all"` for it to send them')
        return setting == "all" or (setting == "auto" and requests and self._cursor.asked)

    async def _send(self) -> None:
        while (shared := self.server.pool.shared) is not None:
            page = await self._store.read(
                lambda database: rows.page(database, self._cursor.chain, self._cursor.seq, BATCH)
            )
            if not page:
                return
            notifications = [said for row in page if (said := self._notification(row)) is not None]
            if notifications:
                await shared.connection.tell_surely(METHOD, notifications, DELIVERY_S)
            self._cursor = msgspec.structs.replace(self._cursor, seq=page[-1].seq)
            async with self._store.transaction() as change:
                change.put(CURSORS, self._cursor)

    def _notification(self, row: RecordRow) -> bytes | None:
        """What a server is sent of a record."""
        if self._echoes(row):
            return None
        try:
            return notification(row.chain, row.seq, record_of(row.body))
        except UnreadableRecord:
            # Somebody altered the audit log. `interlock audit verify` says more; the other records are still sent.
            self._warn(f"audit record {row.seq} was altered and cannot be sent")
            return None

    def _echoes(self, row: RecordRow) -> bool:
        """Whether a record is an audit server's own claim. Sent on, two audit servers could echo each other forever."""
        return row.event == CLAIMED and self._receivers.is_destination(row.server)

    def _warn(self, text: str) -> None:
        if text != self._last_warning:
            self._last_warning = text
            self._log(self.server.id, text)


def _sandboxed(server: Upstream) -> bool:
    """Whether a server is sandboxed. It receives audit records only if the operator sets that."""
    claimed = None if server.agreement is None else server.agreement.offer.trust_level
    return lower_trust(Trust[server.settings.trust.upper()], claimed) is Trust.SANDBOXED


def asks_for_audit(server: Upstream) -> bool:
    """Whether a server negotiated MGP's audit extension."""
    return server.agreement is not None and server.agreement.speaks("audit")

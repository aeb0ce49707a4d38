"""Sends the audit log to audit servers: `notifications/mgp.audit`, in order and complete (MGP, Audit Trail).

The audit log itself is the queue, and events only wake its readers. A cursor in the store marks the last record that
each server took, so the hub sends records again after a broken connection or a restart. Each notification has its
number in the chain, by which a server recognises a duplicate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from interlock.events import Bus, EventFilter, OnDemandSubscriber, SubscriberTask
from interlock.events.types import AuditCommitted, Delivery, Gap, ServerStateChanged
from interlock.hub.audit.chain import UnreadableRecord, record_of
from interlock.hub.audit.mgp_format import METHOD, notification
from interlock.hub.audit.record import CLAIMED
from interlock.hub.audit.recorder import Recorder
from interlock.hub.upstreams.states import ServerState
from interlock.hub.upstreams.upstream import Upstream
from interlock.hub.upstreams.upstreams import Upstreams
from interlock.process.wake_signal import WakeSignal
from interlock.store import Collection, Store, StoreError
from interlock.store import records as rows
from interlock.store.database import Database
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
_log = logging.getLogger(__name__)


class ReceiverCursor(msgspec.Struct, frozen=True):
    """The last record of one chain that a server took."""

    id: str
    server: str
    chain: str
    seq: int


CURSORS: Final = Collection("audit_cursors", ReceiverCursor, key="id")


class AuditReceivers:
    """Sends one chain to every server that receives it."""

    def __init__(self, recorder: Recorder, store: Store, log: Log, bus: Bus, upstreams: Upstreams) -> None:
        self._recorder = recorder
        self._store = store
        self._log = log
        self._upstreams = upstreams
        self._receivers: dict[str, _Receiver] = {}
        self._active: set[_Receiver] = set()
        self._states = SubscriberTask(bus.subscribe(EventFilter.of(ServerStateChanged)), self._on_states)
        self._commits = OnDemandSubscriber(lambda: bus.subscribe(EventFilter.of(AuditCommitted), limit=1), self._wake)
        """Runs while a receiver is active."""

    async def _on_states(self, batch: Sequence[Delivery]) -> None:
        """Continue sending to servers that were just connected; after a gap, to all that are."""
        servers: Iterable[Upstream | None] = (self._upstreams.get(event.source) for event in batch)
        if any(isinstance(event, Gap) for event in batch):
            servers = self._upstreams
        for server in dict.fromkeys(servers):
            if server is not None and server.state is ServerState.CONNECTED:
                self._connected(server)

    def _connected(self, server: Upstream) -> None:
        receiver = self._receivers.get(server.id)
        if receiver is None:
            receiver = self._receivers[server.id] = _Receiver(server, self._recorder, self._store, self._log, self)
        receiver.connected(server)

    def is_destination(self, server: str) -> bool:
        """Whether a server receives audit records."""
        return self._receivers.get(server) in self._active

    async def close(self) -> None:
        """Stop sending. The next start sends the remaining records."""
        await self._states.close()
        await self._commits.close()
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
        self._commits.run(bool(self._active))

    async def _wake(self, batch: Sequence[Delivery]) -> None:
        for receiver in self._active:
            receiver.woken.set()


class _Receiver:
    """Sends records to one server. Its task ends when the server turns out not to receive audit records."""

    def __init__(self, server: Upstream, recorder: Recorder, store: Store, log: Log, receivers: AuditReceivers) -> None:
        self.server = server
        self.woken = WakeSignal()
        self.task: asyncio.Task[None] | None = None
        self._recorder = recorder
        self._store = store
        self._log = log
        self._receivers = receivers
        self._reconnected = WakeSignal()
        self._last_warning = ""
        self._id = f"{recorder.chain}/{server.id}"
        self._cursor: ReceiverCursor | None = None

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
                wanted = self.server.settings.audit == "all"
                self._receivers.set_active(self, wanted)
                if wanted:
                    cursor = self._cursor or await self._load_cursor()
                    await asyncio.sleep(GATHER_S)
                    await self._send(cursor)
                else:
                    await self._forget_cursor()
                if not wanted and not self.woken.is_set():
                    self.task = None
                    return
                pause, self._last_warning = MIN_PAUSE_S, ""
            except Exception as cause:
                # An unforeseen error must not end the sending for ever.
                if not isinstance(cause, Fault | StoreError | TimeoutError):
                    _log.error("audit records could not be sent to %s", self.server.id, exc_info=cause)
                why = cause.for_operators if isinstance(cause, Fault | StoreError) else repr(cause)
                self._warn(f"audit records could not be sent, and the hub tries again: {why}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._reconnected.wait()
                self.woken.set()
                pause = min(2 * pause, MAX_PAUSE_S)

    async def _load_cursor(self) -> ReceiverCursor:
        """The stored cursor, or a new one: a new receiver gets the records from now on, and none from before."""
        now = self._recorder.last_seq
        found = await self._store.get(CURSORS, self._id)
        if found is not None:
            self._cursor = found.value
            return found.value
        cursor = ReceiverCursor(self._id, self.server.id, self._recorder.chain, now)
        await self._move(cursor)
        return cursor

    async def _forget_cursor(self) -> None:
        """Where the operator names the server no more: if it is named again, sending begins at that moment."""
        self._cursor = None
        if self.server.settings.audit == "auto" and asks_for_audit(self.server):
            self._warn('requests audit records; set `audit = "all"` for it to send them')
        if await self._store.get(CURSORS, self._id) is not None:
            async with self._store.transaction() as change:
                change.delete(CURSORS, self._id)

    async def _move(self, cursor: ReceiverCursor) -> None:
        async with self._store.transaction() as change:
            change.put(CURSORS, cursor)
        self._cursor = cursor

    async def _send(self, cursor: ReceiverCursor) -> None:
        while (shared := self.server.pool.shared) is not None:
            page = await self._store.read(partial(_next_page, cursor))
            if not page:
                return
            notifications = [notification for row in page if (notification := self._notification(row)) is not None]
            if notifications:
                await shared.connection.tell_surely(METHOD, notifications, DELIVERY_S)
            cursor = msgspec.structs.replace(cursor, seq=page[-1].seq)
            await self._move(cursor)

    def _notification(self, row: RecordRow) -> bytes | None:
        """The form of a record that a server receives."""
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


def _next_page(cursor: ReceiverCursor, database: Database) -> list[RecordRow]:
    return rows.page(database, cursor.chain, cursor.seq, BATCH)


def asks_for_audit(server: Upstream) -> bool:
    """Whether a server negotiated MGP's audit extension."""
    return server.agreement is not None and server.agreement.speaks("audit")

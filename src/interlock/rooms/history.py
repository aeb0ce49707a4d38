"""The last envelopes of one topic, for participants that come back. Bounded, sealed in the store, and off by default.

Every envelope has an offset within an epoch. Each participant gets its own signed cursor. With it, a returning
participant gets the later envelopes in order, or learns that some are lost. A cursor never reaches back before its
participant joined.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import islice, pairwise
from typing import Final, NamedTuple

import msgspec

from interlock.hub.approvals.full_view import by_size
from interlock.hub.approvals.sealed_views import SealedView, ViewSeal
from interlock.hub.auth.principals import SERVER
from interlock.hub.room_documents import HISTORY_HEADS, HISTORY_SEGMENTS, HistoryHead, HistorySegment, history_key
from interlock.protocols.mcpx.envelopes import Envelope
from interlock.protocols.mcpx.routing import TopicParticipant, recipients
from interlock.rooms.member import RoomMember
from interlock.store import Store

MAX_BYTES: Final = 2 * 1024 * 1024
"""Bytes of all envelopes of a topic. It is less than a participant may leave unread."""
MAX_AT_ONCE: Final = 512
"""Envelopes in one write to the store."""
CURSORS_PER_TICK: Final = 100
"""Members that get a new cursor in one tick."""
_MAC_CHARS: Final = 32


class HistoryEntry(NamedTuple):
    """One envelope, and who receives it."""

    offset: int
    sender: str
    to: tuple[str, ...]
    proposer: str | None
    data: str


class TopicHistory:
    """The history of one topic."""

    def __init__(self, place: str, most: int, key: bytes) -> None:
        self._place = place
        self._most = most
        self._key = key
        self._seal = ViewSeal(history_key(key))
        self._epoch = secrets.token_hex(8)
        self._entries: deque[HistoryEntry] = deque()
        self._bytes = 0
        """The size of all kept envelopes on the wire."""
        self._unwritten: deque[HistoryEntry] = deque()
        self._segments: deque[tuple[str, int]] = deque()
        """The stored segments: ids, with the last offset of each."""
        self._has_head = False
        """Whether the store knows of this history."""
        self.offset = 0
        """Of the last envelope."""

    def bound(self, most: int) -> None:
        """Keep at most so many envelopes from now on."""
        self._most = most
        self._trim()

    def add(self, envelope: Envelope, proposer: str | None) -> None:
        """Keep an envelope that is passed on."""
        self.offset += 1
        entry = HistoryEntry(self.offset, envelope.sender, envelope.to, proposer, envelope.raw.decode())
        self._entries.append(entry)
        self._unwritten.append(entry)
        self._bytes += len(envelope.raw)
        self._trim()

    def cursor(self, subject: str) -> str:
        """The current cursor of a participant. No other participant can use it."""
        return self._cursor(subject, self.offset)

    def missed(self, cursor: str, subject: str, participant: TopicParticipant) -> list[HistoryEntry] | None:
        """The envelopes since a participant's cursor, in order; None if some of them are lost."""
        epoch, _, rest = cursor.partition(".")
        number = rest.partition(".")[0]
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        offset = int(number)
        if epoch != self._epoch or not hmac.compare_digest(self._cursor(subject, offset).encode(), cursor.encode()):
            return None
        if offset + 1 < self._first:
            return None
        return [
            entry
            for entry in self._entries
            if entry.offset > offset and recipients((participant,), entry.sender, entry.to, entry.proposer)
        ]

    # The store.

    async def load(self, store: Store) -> None:
        """Load the stored envelopes. After a crash a new epoch begins, since the last envelopes may be missing."""
        # A segment that cannot be read is a gap.
        readable, _ = await store.find_readable(HISTORY_SEGMENTS, place=self._place)
        found = sorted(readable, key=lambda one: one.value.first)
        head = await store.get(HISTORY_HEADS, self._place)
        entries: list[HistoryEntry] = []
        for segment in found:
            text = self._seal.open(SealedView(segment.value.id, segment.value.sealed))
            entries += [] if text is None else msgspec.json.decode(text, type=list[HistoryEntry])
            self._segments.append((segment.key, entries[-1].offset if entries else 0))
        unbroken = all(later.offset == one.offset + 1 for one, later in pairwise(entries))
        last = entries[-1].offset if entries else 0
        if head is not None and head.value.clean == last and unbroken:
            self._epoch, self.offset = head.value.epoch, last
            self._entries.extend(entries)
            self._bytes = sum(_size(one) for one in entries)
            self._trim()
        else:
            await self._drop_segments(store)
        await self._write_head(store, None)

    async def write(self, store: Store) -> None:
        """Store new envelopes, and delete those that are no longer kept. A batch that fails is kept for later."""
        if not self._has_head:
            await self._write_head(store, None)
        while self._unwritten:
            batch = list(islice(self._unwritten, MAX_AT_ONCE))
            id_ = f"{self._place}/{batch[0].offset:018d}"
            # Up to two megabytes: encoding and sealing them here would hold up everyone.
            sealed = await by_size(sum(map(_size, batch)), partial(self._sealed, id_, batch))
            async with store.transaction() as change:
                change.put(HISTORY_SEGMENTS, HistorySegment(id_, self._place, batch[0].offset, sealed))
            self._segments.append((id_, batch[-1].offset))
            while self._unwritten and self._unwritten[0].offset <= batch[-1].offset:
                self._unwritten.popleft()
        old = [id_ for id_, last in self._segments if last < self._first]
        if old:
            async with store.transaction() as change:
                for id_ in old:
                    change.delete(HISTORY_SEGMENTS, id_)
            for _ in old:
                self._segments.popleft()

    def _sealed(self, id: str, batch: list[HistoryEntry]) -> str:
        return self._seal.close(id, msgspec.json.encode(batch).decode()).sealed

    async def close(self, store: Store) -> None:
        """Store all envelopes, so that the next run continues from here."""
        await self.write(store)
        await self._write_head(store, self.offset)

    async def _drop_segments(self, store: Store) -> None:
        async with store.transaction() as change:
            for id_, _ in self._segments:
                change.delete(HISTORY_SEGMENTS, id_)
        self._segments.clear()

    async def _write_head(self, store: Store, clean: int | None) -> None:
        async with store.transaction() as change:
            change.put(HISTORY_HEADS, HistoryHead(self._place, self._epoch, clean))
        self._has_head = True

    @property
    def _first(self) -> int:
        """The offset of the oldest envelope that is kept."""
        return self._entries[0].offset if self._entries else self.offset + 1

    def _cursor(self, subject: str, offset: int) -> str:
        signed = msgspec.json.encode((self._place, subject, self._epoch, offset))
        mac = hmac.digest(self._key, signed, hashlib.sha256).hex()[:_MAC_CHARS]
        return f"{self._epoch}.{offset}.{mac}"

    def _trim(self) -> None:
        while len(self._entries) > self._most or self._bytes > MAX_BYTES:
            self._bytes -= _size(self._entries.popleft())
        # The store may have been slow. Do not write envelopes that are no longer kept.
        while self._unwritten and self._unwritten[0].offset < self._first:
            self._unwritten.popleft()


class Positions:
    """Members that still need a new cursor."""

    def __init__(self) -> None:
        self._waiting: deque[RoomMember] = deque()
        self._offset = 0

    def due(self, offset: int, members: Iterable[RoomMember]) -> list[RoomMember]:
        """The members that get a cursor now. After a change, each member gets one, a bounded number in each call."""
        if not self._waiting and self._offset != offset:
            self._offset = offset
            self._waiting.extend(members)
        found = [self._waiting.popleft() for _ in range(min(CURSORS_PER_TICK, len(self._waiting)))]
        return [member for member in found if not member.gone]


async def delete_history(store: Store, place: str) -> None:
    """Delete the stored envelopes of a topic that keeps none any more."""
    segments = await store.find(HISTORY_SEGMENTS, place=place)
    async with store.transaction() as change:
        for segment in segments:
            change.delete(HISTORY_SEGMENTS, segment.key)
        change.delete(HISTORY_HEADS, place)


def servers_in(entries: Iterable[HistoryEntry]) -> set[str]:
    """The hub's tool servers whose results are among these envelopes."""
    return {each.sender.removeprefix(SERVER) for each in entries if each.sender.startswith(SERVER)}


def _size(entry: HistoryEntry) -> int:
    return len(entry.data) if entry.data.isascii() else len(entry.data.encode())

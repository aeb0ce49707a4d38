"""Bytes that were written to clients and not read by them: how many there may be over all connections, and per owner.

An owner is an admitted caller with a key, else an address: a key that nobody checked names no owner. Beyond a bound
connections are closed: of the owner that is over its bound, or that holds most, and first the one whose client read
longest ago.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.violation_log import SPELLED_OUT

_log = logging.getLogger(__name__)


class SlowReader(Protocol):
    """A connection whose client does not keep up."""

    transport: asyncio.Transport
    client: tuple[str, int] | None

    @property
    def owner(self) -> str:
        """The caller that was admitted with a key, or the client's address."""


class _Unread(msgspec.Struct):
    owner: str
    size: int
    read_at: float
    """When the client was last seen to have read something."""


class UnreadBytes:
    """Those of one listening address."""

    def __init__(self, bounds: HttpBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._unread: dict[SlowReader, _Unread] = {}
        self._owners: Counter[str] = Counter()
        self.bytes = 0
        """All of them, as far as they were counted."""
        self.closed = 0
        """Connections closed because there were too many."""

    def count(self, connection: SlowReader, following: int = 0) -> None:
        """A connection has unread bytes. `following` are written to it at the end of this batch."""
        self._note(connection, connection.transport.get_write_buffer_size() + following)
        most = self._bounds
        unread = self._unread.get(connection)
        if unread is None:
            return
        if self.bytes > most.unread_bytes or self._owners[unread.owner] > most.unread_bytes_per_owner:
            self._make_room(connection, unread.owner)

    def forget(self, connection: SlowReader) -> None:
        """The client has read everything, or has gone."""
        unread = self._unread.pop(connection, None)
        if unread is not None:
            self._add(unread.owner, -unread.size)

    def _note(self, connection: SlowReader, size: int) -> None:
        if not size:
            self.forget(connection)
            return
        unread = self._unread.get(connection)
        if unread is None:
            unread = self._unread[connection] = _Unread(connection.owner, 0, self._clock())
        elif size < unread.size:
            unread.read_at = self._clock()
        self._add(unread.owner, size - unread.size)
        unread.size = size

    def _add(self, owner: str, size: int) -> None:
        self.bytes += size
        self._owners[owner] += size
        if not self._owners[owner]:
            del self._owners[owner]

    def _make_room(self, newest: SlowReader, owner: str) -> None:
        for connection in list(self._unread):
            if connection is not newest:
                self._note(connection, connection.transport.get_write_buffer_size())
        while self._owners[owner] > self._bounds.unread_bytes_per_owner:
            self._close_one(owner)
        while self.bytes > self._bounds.unread_bytes:
            self._close_one(self._owners.most_common(1)[0][0])

    def _close_one(self, owner: str) -> None:
        """Close the connection of this owner whose client read longest ago."""
        connection, unread = min(
            (pair for pair in self._unread.items() if pair[1].owner == owner), key=lambda pair: pair[1].read_at
        )
        self.forget(connection)
        self.closed += 1
        if self.closed <= SPELLED_OUT or self.closed % 1000 == 0:
            address = "" if connection.client is None else connection.client[0]
            _log.warning("closed a connection from %s: its client left %d bytes unread", address, unread.size)
        connection.transport.abort()

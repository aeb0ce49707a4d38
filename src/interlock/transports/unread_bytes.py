"""Bounds the bytes that were written to clients and not read by them, per peer and over all connections.

A peer is an admitted caller with a key, else an address: an unchecked key names no peer. Beyond a bound the hub
closes connections of the peer that is over its bound or holds the most, first the one whose client read longest ago.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from interlock.process.open_counts import OpenCounts
from interlock.transports.violation_log import SPELLED_OUT

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_BYTES_PER_PEER: Final = 64 * 1024 * 1024
MAX_LOOKS: Final = 64
"""How many connections are measured again before one is closed. Each is measured once a second in any case."""


class SlowReader(Protocol):
    """A connection whose client does not keep up."""

    client: tuple[str, int] | None
    """Its address, on a network."""

    @property
    def peer(self) -> str:
        """The caller that was admitted with a key, or the client's address."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that were written to it and not read by its client."""

    def give_up(self) -> None:
        """End the connection, with all that is unread."""


class _Unread(msgspec.Struct):
    peer: str
    size: int


class UnreadBytes:
    """Counts unread bytes for one listener."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_bytes_per_peer: int = MAX_BYTES_PER_PEER) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_per_peer = max_bytes_per_peer
        self._unread: dict[SlowReader, _Unread] = {}
        self._by_peer: OpenCounts[str] = OpenCounts()
        self._readers: dict[str, dict[SlowReader, None]] = {}
        """The connections of each peer, first the one whose client was seen to read longest ago."""
        self._ending: set[SlowReader] = set()
        """Connections that were closed here and are not gone yet. Their bytes were dropped, and do not count."""
        self.bytes = 0
        """The unread bytes of all connections, as counted last."""
        self.closed = 0
        """Connections closed because there were too many unread bytes."""

    def count(self, connection: SlowReader, following: int = 0) -> None:
        """A connection has unread bytes. `following` are written to it at the end of this batch."""
        if connection in self._ending:
            return
        self._note(connection, connection.unread_bytes + following)
        unread = self._unread.get(connection)
        if unread is None:
            return
        if self.bytes > self._max_bytes or self._by_peer[unread.peer] > self._max_bytes_per_peer:
            self._make_room(connection, unread.peer)

    def forget(self, connection: SlowReader) -> None:
        """The client has read everything, or has gone."""
        self._ending.discard(connection)
        unread = self._unread.pop(connection, None)
        if unread is not None:
            self._add(unread.peer, -unread.size)
            readers = self._readers[unread.peer]
            del readers[connection]
            if not readers:
                del self._readers[unread.peer]

    def _note(self, connection: SlowReader, size: int) -> None:
        if not size:
            self.forget(connection)
            return
        unread = self._unread.get(connection)
        if unread is None:
            unread = self._unread[connection] = _Unread(connection.peer, 0)
            self._readers.setdefault(unread.peer, {})[connection] = None
        elif size < unread.size:
            readers = self._readers[unread.peer]
            del readers[connection]
            readers[connection] = None
        self._add(unread.peer, size - unread.size)
        unread.size = size

    def _add(self, peer: str, size: int) -> None:
        self.bytes += size
        self._by_peer.add(peer, size)

    def _make_room(self, newest: SlowReader, peer: str) -> None:
        looks = iter(range(MAX_LOOKS))
        while self._by_peer[peer] > self._max_bytes_per_peer:
            self._close_one(peer, newest, looks)
        while self.bytes > self._max_bytes:
            self._close_one(max(self._by_peer, key=self._by_peer.__getitem__), newest, looks)

    def _close_one(self, peer: str, newest: SlowReader, looks: Iterator[int]) -> None:
        """Close the connection of this peer whose client read longest ago, unless a look shows that it has read."""
        connection = next(iter(self._readers[peer]))
        unread = self._unread[connection]
        if connection is not newest and next(looks, None) is not None:
            size = connection.unread_bytes
            if size < unread.size:
                self._note(connection, size)
                return
        self.forget(connection)
        self._ending.add(connection)
        self.closed += 1
        if self.closed <= SPELLED_OUT or self.closed % 1000 == 0:
            address = "this machine" if connection.client is None else connection.client[0]
            _log.warning("closed a connection from %s: its client left %d bytes unread", address, unread.size)
        connection.give_up()

"""Bounds and waiting times of one HTTP listener."""

from __future__ import annotations

from typing import Final

import msgspec

FREE_CHUNKS: Final = 4096
MIN_CHUNK: Final = 16
"""A body of more than `FREE_CHUNKS` chunks is refused where they have fewer bytes than this on average."""


class HttpBounds(msgspec.Struct, frozen=True):
    """Bounds of one listening address. Seconds unless the name says otherwise."""

    header_bytes: int = 64 * 1024
    header_count: int = 100
    head_s: float = 10.0
    """From a request's first byte (or a connection's first moment) to the end of its headers."""
    body_s: float = 30.0
    """From the end of the headers to the end of the body."""
    idle_s: float = 75.0
    """How long a connection may wait between two requests."""
    stall_s: float = 30.0
    """How long a client may leave unread what was written to it."""
    linger_s: float = 2.0
    """How long a refused client may go on sending before it is cut off, so that it can read the refusal."""
    connections: int = 10_000
    """Open connections. A hub sets it to the number that the system allows."""
    held_bytes: int = 64 * 1024 * 1024
    """Large bodies, over all connections: those that come in, and those whose requests are not answered yet. One caller
    may hold as much of it as is still free."""
    early_bytes: int = 64 * 1024
    """A body longer than this is large."""
    small_bytes: int = 16 * 1024 * 1024
    """All other bodies that are still coming in, over all connections."""
    open_small_bytes: int = 32 * 1024 * 1024
    """The requests in such bodies that are not answered yet, with their copies, over all connections. They have a bound
    of their own, so that small calls pass while large ones fill theirs."""
    pipelined: int = 64
    """Requests that may wait on one connection behind the one being answered."""
    stream_bytes: int = 32 * 1024 * 1024
    """Unread bytes on one event stream before it is closed with the next event. Several large answers may come in one
    moment, and a client that reads nothing is cut off after `stall_s`."""
    unread_bytes: int = 256 * 1024 * 1024
    """Bytes that were written to clients and not read by them, over all connections."""
    unread_bytes_per_peer: int = 64 * 1024 * 1024
    """The same for one key, or for one address where there is no key."""
    keep_alive_s: float = 15.0
    """How often a comment is written to open event streams."""
    sse_streams: int = 10_000
    """Open streams of revision 2024-11-05. Beyond that the oldest without open calls is closed."""
    sse_streams_per_principal: int = 256
    sse_waiting_per_principal: int = 1024
    """Messages for such streams that wait for an earlier one to be read."""
    sse_waiting_bytes_per_principal: int = 16 * 1024 * 1024
    sse_waiting_bytes: int = 64 * 1024 * 1024
    """The same in bytes, for one principal and in all. One message of each principal may wait in any case."""
    session_idle_s: float = 30 * 60.0
    """How long a session without open streams or requests is kept."""
    replay_events: int = 256
    """Events kept per session for a client that comes back with `Last-Event-ID`."""
    replay_bytes: int = 1024 * 1024
    """The same in bytes, of events that were written to the client. The newest is kept however large it is."""
    replay_unwritten_bytes: int = 16 * 1024 * 1024
    """The bytes of events that were not, because the client had left the stream. A caller may keep more than
    `replay_bytes` of them in a session while as much as it keeps in all is still free."""
    replay_total_bytes: int = 64 * 1024 * 1024
    """All bytes that are kept for replay, over all sessions. Beyond that the caller with the most loses some."""

    def for_messages(self, size: int) -> HttpBounds:
        """The same bounds with space for two messages of the largest size for each caller."""
        return msgspec.structs.replace(
            self,
            held_bytes=max(self.held_bytes, 2 * size),
            unread_bytes=max(self.unread_bytes, 4 * size),
            unread_bytes_per_peer=max(self.unread_bytes_per_peer, 2 * size),
            stream_bytes=max(self.stream_bytes, 2 * size),
            replay_unwritten_bytes=max(self.replay_unwritten_bytes, 2 * size),
            replay_total_bytes=max(self.replay_total_bytes, 4 * size),
        )

    @property
    def resolution_s(self) -> float:
        """How often the waiting times are checked."""
        waits = (self.head_s, self.body_s, self.idle_s, self.stall_s, self.linger_s, self.keep_alive_s)
        return min(1.0, min(waits) / 4)


DEFAULT_BOUNDS = HttpBounds()

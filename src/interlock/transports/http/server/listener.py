"""State that all connections of one listening address share: the service, the bounds, the clock and the counters."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.dates import format_date
from interlock.transports.http.lengths import cut_length
from interlock.transports.http.server.bodies import RequestBodies
from interlock.transports.http.server.guard import AllowedHosts, GuardRefusal, Headers, check_target
from interlock.transports.http.server.http_request import CLOSE, HttpRequest, RequestHead
from interlock.transports.http.server.legacy_sse_paths import mcp_path_of
from interlock.transports.http.server.upgrades import Upgrader
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.unread_bytes import UnreadBytes
from interlock.wire.limits import Limits


class AcceptedConnection(Protocol):
    """A connection of this address, as its server sees it."""

    transport: asyncio.Transport

    def sweep(self, now: float) -> None:
        """Close it where it keeps us waiting for too long."""

    def shutdown(self) -> None:
        """Close it once the answer under way is complete."""


class Endpoint(Protocol):
    """Answers the requests."""

    @property
    def open_bytes(self) -> RequestBytes:
        """Counts the bytes of requests that are not answered yet."""

    def handle(self, request: HttpRequest) -> None:
        """Answer a request, now or later. Never raises."""

    def early_refusal(self, head: RequestHead) -> GuardRefusal | None:
        """The refusal of a request that does not depend on its body, if there is one. Called before a body is read that
        did not come together with the head."""

    def principal_name_of(self, path: str, headers: Headers) -> str:
        """The principal of the key in a head, where it admits its caller; empty otherwise."""

    def tick(self) -> None:
        """Drop what has expired. Called regularly."""

    def drain(self) -> None:
        """End streams that would never end by themselves: the server stops."""

    def close(self) -> None:
        """End everything."""

    def abandon(self, request: HttpRequest) -> None:
        """Answer a request that is open when the server stops. Its outcome may be unknown."""


ENTRANCE: Final = "/mcp"
"""The MCP path of all tools. A key is judged there for requests that are not on an MCP path."""

Known = tuple[RequestHead, int]
"""A head, and how long its body is."""


class HttpListener:
    """One listening address."""

    def __init__(
        self,
        endpoint: Endpoint,
        allowed: AllowedHosts,
        limits: Limits,
        bounds: HttpBounds,
        is_mcp: Callable[[str], bool],
        upgrader: Upgrader | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.upgrader = upgrader
        self.allowed = allowed
        self.limits = limits
        self.bounds = bounds
        self.is_mcp = is_mcp
        self.connections: set[AcceptedConnection] = set()
        self.streams: dict[HttpRequest, float] = {}
        """The open event streams, and when each gets its next comment."""
        self.bodies = RequestBodies(bounds, endpoint.open_bytes)
        self.unread = UnreadBytes(bounds.unread_bytes, bounds.unread_bytes_per_peer)
        self.overrun = 0
        """Streams closed because their clients did not read them."""
        self.refused = 0
        """Requests that the guard refused."""
        self.timed_out = 0
        """Connections closed because a request did not come in time, or an answer was not read in time."""
        self.ok_head = b""
        self.date = b""
        """The header with the time."""
        self._targets: dict[bytes, tuple[str, bool] | GuardRefusal] = {}
        self.heads: dict[bytes, Known] = {}
        """Parsed heads by their bytes, shared by all connections."""
        self._alike: dict[bytes, RequestHead] = {}
        """The same by their bytes without the Content-Length, in which most requests of a client differ."""
        self.sweep(time.monotonic())

    def count_overrun(self) -> None:
        """A stream is closed because its client did not read it."""
        self.overrun += 1

    def count_refused(self) -> None:
        """The guard refused a request."""
        self.refused += 1

    def count_timed_out(self) -> None:
        """A connection is closed because a request did not come in time, or an answer was not read in time."""
        self.timed_out += 1

    def resolve(self, target: bytes) -> tuple[str, bool] | GuardRefusal:
        """The path of a request target, and whether it is an MCP path. Cached, since clients use few."""
        known = self._targets.get(target)
        if known is not None:
            return known
        if len(self._targets) >= _TARGETS:
            self._targets.clear()
        refusal = check_target(target)
        path = target.partition(b"?")[0].decode("latin-1")
        found = refusal if refusal is not None else (path, self.is_mcp(path) or self.is_mcp(mcp_path_of(path) or path))
        if len(target) <= _TARGET_BYTES:
            self._targets[target] = found
        return found

    def understand(self, start: bytes, match: Callable[[], RequestHead | None]) -> Known | None:
        """The head in these bytes and the length of its body, which are then kept. `match` is called for a head that is
        not known yet. None where it must be parsed."""
        cut = cut_length(start)
        head = None if cut is None else self._alike.get(cut[0])
        if cut is None or head is None:
            head = match()
        if head is None:
            return None
        length = head.length if cut is None else cut[1]
        if length > self.limits.message_bytes:
            return None
        if len(start) <= _HEAD_BYTES:
            if len(self.heads) >= _HEADS:
                self.heads.clear()
            if len(self._alike) >= _ALIKE:
                self._alike.clear()
            self.heads[start] = head, length
            if cut is not None:
                self._alike[cut[0]] = head
        return head, length

    def render(self, status: int, body: bytes, headers: bytes, keep_alive: bool) -> bytes:
        """A whole answer with its status line and headers."""
        kind = b"content-type: application/json\r\n" if body else b""
        length = b"" if status == 204 else b"content-length: %d\r\n" % len(body)
        close = b"" if keep_alive else CLOSE
        return b"%b%b%b%b%b%b\r\n%b" % (status_line(status), self.date, kind, length, close, headers, body)

    def stream_head(self, headers: bytes, chunked: bool, keep_alive: bool) -> bytes:
        """The beginning of an answer whose length is not known."""
        close = b"" if keep_alive else CLOSE
        coding = b"transfer-encoding: chunked\r\n" if chunked else b""
        return b"%b%b%b%b%b\r\n" % (status_line(200), self.date, close, coding, headers)

    def sweep(self, now: float) -> None:
        """Update the date, write comments to streams, and end old sessions."""
        self.date = b"date: %b\r\n" % format_date(time.time())
        self.ok_head = b"%b%bcontent-type: application/json\r\ncontent-length: " % (status_line(200), self.date)
        for stream, due in list(self.streams.items()):
            if due <= now:
                self.streams[stream] = now + self.bounds.keep_alive_s
                stream.keep_alive_stream()
        self.endpoint.tick()


def mcp_paths(path: str) -> bool:
    """The default: everything at `/mcp`, one server at `/servers/{id}/mcp`, one profile at `/profiles/{name}/mcp`."""
    if path == ENTRANCE:
        return True
    parts = path.split("/")
    return len(parts) == 4 and parts[1] in ("servers", "profiles") and bool(parts[2]) and parts[3] == "mcp"


def status_line(status: int) -> bytes:
    """A status line with its standard phrase."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status


_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_STATUS_LINES[499] = b"HTTP/1.1 499 Client Closed Request\r\n"
_TARGETS = 1_024
_HEADS = 4_096
_ALIKE = 2_048
_HEAD_BYTES = 2_048
_TARGET_BYTES = 512

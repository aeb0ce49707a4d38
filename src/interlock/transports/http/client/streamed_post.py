"""A POST whose answer is read as it comes: bounded in size, and given up when nothing comes for too long.

The reader holds the connection back while it is busy, so a fast endpoint never fills this process's memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from interlock.transports.http.client.heads import line
from interlock.transports.http.client.origin import split_url
from interlock.transports.http.client.pool import Guard, Pool
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.wire.errors import Fault

CONNECTIONS: Final = 64
WAITING: Final = 256
HELD_BYTES: Final = 64 * 1024
"""Unread bytes at which the connection is left unread."""


class ResponseHead(msgspec.Struct, frozen=True):
    """The beginning of an answer."""

    status: int
    headers: Mapping[bytes, bytes]


class StreamedPost:
    """Posts to one address, and reads the answers in pieces."""

    def __init__(self, url: str, headers: Mapping[str, str], *, guard: Guard, most_bytes: int) -> None:
        self._origin, self._target = split_url(url)
        self._headers = b"".join(line(name, value) for name, value in headers.items())
        self._most_bytes = most_bytes
        self._pool = Pool(self._origin, size=CONNECTIONS, queue=WAITING, guard=guard)

    def send(self, body: bytes, *, fresh: bool = False) -> StreamedAnswer:
        """Send a request; `fresh` on a new connection. Raises RESOURCE_EXHAUSTED when too many wait."""
        head = (
            f"POST {self._target} HTTP/1.1\r\nHost: {self._origin.authority}\r\nUser-Agent: interlock\r\n"
            "Content-Type: application/json\r\nAccept: text/event-stream, application/json\r\n"
            f"Accept-Encoding: identity\r\nContent-Length: {len(body)}\r\n"
        )
        answer = StreamedAnswer(self._pool, self._origin.authority, self._most_bytes)
        self._pool.submit(head.encode("ascii") + self._headers + b"\r\n" + body, answer, fresh=fresh)
        return answer

    async def close(self) -> None:
        """Close every connection. Open answers fail."""
        await self._pool.close()


class StreamedAnswer(Reply):
    """One answer. Its reader calls `close` in the end, whether it read all of it or not."""

    def __init__(self, pool: Pool, where: str, most_bytes: int) -> None:
        self._pool = pool
        self._where = where
        self._left = most_bytes
        self._most = most_bytes
        self._pieces: deque[bytes] = deque()
        self._unread = 0
        self._whole = False
        self._fault: Fault | None = None
        self._changed: asyncio.Future[None] | None = None
        self._head: ResponseHead | None = None
        self.stale = False
        """Whether the server had closed the connection before it could see the request."""

    async def start(self, within_s: float) -> ResponseHead:
        """The status and the headers. Raises a `Fault` where none come in time."""
        while self._head is None:
            if self._fault is not None:
                raise self._fault
            await self._wait(within_s)
        return self._head

    async def pieces(self, idle_s: float) -> AsyncIterator[bytes]:
        """The body as it comes. Raises a `Fault` for one that is cut off, too large, or silent for too long."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._unread -= len(piece)
                if self._unread < HELD_BYTES and self.connection is not None and not self.over:
                    self.connection.hold(on=False)
                yield piece
            if self._fault is not None:
                raise self._fault
            if self._whole:
                return
            await self._wait(idle_s)

    def close(self) -> None:
        """Nothing more of it is wanted."""
        self._pool.drop(self)

    @property
    def streams(self) -> bool:
        return True

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._head = ResponseHead(status, dict(headers))
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            self._end(Fault("UPSTREAM_ERROR", f"{self._where} answered in an encoding that was not asked for"))
        self._notify()

    def body(self, data: bytes) -> None:
        if self._fault is not None:
            return
        self._left -= len(data)
        if self._left < 0:
            self._end(Fault("TOO_LARGE", f"{self._where} answered with more than {self._most} bytes"))
            return
        self._pieces.append(data)
        self._unread += len(data)
        if self._unread >= HELD_BYTES and self.connection is not None and not self.over:
            self.connection.hold(on=True)
        self._notify()

    def done(self) -> None:
        self._whole = True
        self._notify()

    def failed(self, how: ReplyFailed) -> None:
        self.stale = how.reused and not how.began
        self._end(Fault("UPSTREAM_UNAVAILABLE", f"{self._where}: {how.why}", data={"sent": how.sent}))

    def _end(self, fault: Fault) -> None:
        self._fault = self._fault or fault
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _wait(self, within_s: float) -> None:
        self._changed = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._changed], timeout=within_s)
        if not done:
            raise Fault("UPSTREAM_TIMEOUT", f"{self._where} sent nothing for {within_s:g} s")

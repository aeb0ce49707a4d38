"""Small documents that the hub itself fetches or posts: bounded in size and time, without following redirects.

The guard chooses the address to connect to, and has judged it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Final

import msgspec

from interlock.transports.http.client.heads import line
from interlock.transports.http.client.origin import Origin, split_url
from interlock.transports.http.client.pool import Guard, Pool
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.wire.errors import Fault

WITHIN_S: Final = 10.0
CONNECTIONS: Final = 2
WAITING: Final = 64


class DocumentResponse(msgspec.Struct, frozen=True):
    """A whole answer, of any status."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes

    def __repr__(self) -> str:
        return f"DocumentResponse({self.status})"


async def fetch(url: str, *, guard: Guard, most_bytes: int, within_s: float = WITHIN_S) -> bytes:
    """The document at an address. Raises a `Fault` for anything but a whole good answer."""
    answer = await exchange("GET", url, {}, b"", guard=guard, most_bytes=most_bytes, within_s=within_s)
    return _good(answer)


async def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    guard: Guard | None,
    most_bytes: int,
    within_s: float = WITHIN_S,
    context: ssl.SSLContext | None = None,
    accept: str = "application/json",
) -> DocumentResponse:
    """One request on a connection of its own. Raises a `Fault` where no whole answer comes."""
    origin, target = split_url(url)
    pool = Pool(origin, size=1, queue=1, guard=guard, context=context)
    head = (
        f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\nUser-Agent: interlock\r\n"
        f"Accept: {accept}\r\nAccept-Encoding: identity\r\nConnection: close\r\n"
    )
    lines = b"".join(line(name, value) for name, value in headers.items())
    length = b"Content-Length: %d\r\n" % len(body) if body or method == "POST" else b""
    request = head.encode("ascii") + lines + length + b"\r\n" + body
    try:
        return await _answer(pool, origin, request, most_bytes, within_s)
    finally:
        with contextlib.suppress(OSError):
            await pool.close()


class Post:
    """Posts to one address, on connections that are kept for a moment."""

    def __init__(self, url: str, headers: Mapping[str, str], *, guard: Guard, most_bytes: int) -> None:
        self._origin, self._target = split_url(url)
        self._headers = b"".join(line(name, value) for name, value in headers.items())
        self._most_bytes = most_bytes
        self._pool = Pool(self._origin, size=CONNECTIONS, queue=WAITING, guard=guard)

    async def __call__(self, body: bytes, within_s: float) -> bytes:
        """The body of a good answer. Raises a `Fault` for any other, with its status, and for none at all."""
        head = (
            f"POST {self._target} HTTP/1.1\r\nHost: {self._origin.authority}\r\nUser-Agent: interlock\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            f"Content-Length: {len(body)}\r\n"
        )
        request = head.encode("ascii") + self._headers + b"\r\n" + body
        return _good(await _answer(self._pool, self._origin, request, self._most_bytes, within_s))

    async def close(self) -> None:
        """Close every open connection. Waiting readers get an error."""
        await self._pool.close()


async def _answer(pool: Pool, origin: Origin, request: bytes, most_bytes: int, within_s: float) -> DocumentResponse:
    answer = _Reading(most_bytes)
    pool.submit(request, answer)
    try:
        async with asyncio.timeout(within_s):
            return await answer.whole_answer
    except TimeoutError:
        raise Fault("TIMEOUT", f"{origin.authority} did not answer within {within_s:g} s") from None
    finally:
        pool.drop(answer)


def _good(answer: DocumentResponse) -> bytes:
    if not 200 <= answer.status < 300:
        message = f"it answered with status {answer.status}"
        raise Fault("UPSTREAM_UNAVAILABLE", message, data={"status": answer.status})
    return answer.body


class _Reading(Reply):
    """The answer as it comes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._body = bytearray()
        self._status = 0
        self._headers: Mapping[bytes, bytes] = {}
        self.whole_answer: asyncio.Future[DocumentResponse] = asyncio.get_running_loop().create_future()

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status, self._headers = status, dict(headers)
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            self._fail("it answered in an encoding that was not asked for")

    def body(self, data: bytes) -> None:
        if len(self._body) + len(data) > self._most:
            self._fail(f"it answered with more than {self._most} bytes", {"status": self._status})
        else:
            self._body += data

    def done(self) -> None:
        if not self.whole_answer.done():
            self.whole_answer.set_result(DocumentResponse(self._status, self._headers, bytes(self._body)))

    def failed(self, how: ReplyFailed) -> None:
        self._fail(how.why)

    def _fail(self, why: str, data: Mapping[str, object] | None = None) -> None:
        if not self.whole_answer.done():
            self.whole_answer.set_exception(Fault("UPSTREAM_UNAVAILABLE", why, data=dict(data or {})))

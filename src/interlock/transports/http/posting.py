"""One POST of a small JSON document to an address of the operator's, and its answer: bounded in size and time, no
redirect followed, the address judged by the guard for each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from interlock.transports.http.fetch import Document
from interlock.transports.http.heads import line
from interlock.transports.http.origin import split_url
from interlock.transports.http.pool import Guard, Pool
from interlock.wire.errors import Fault

CONNECTIONS: Final = 2
WAITING: Final = 64


class Post:
    """Posts to one address, on connections that are kept for a moment."""

    def __init__(self, url: str, headers: Mapping[str, str], *, guard: Guard, most_bytes: int) -> None:
        self._origin, self._target = split_url(url)
        self._headers = b"".join(line(name, value) for name, value in headers.items())
        self._most_bytes = most_bytes
        self._pool = Pool(self._origin, size=CONNECTIONS, queue=WAITING, guard=guard)

    async def __call__(self, body: bytes, within_s: float) -> bytes:
        """The body of a good answer. Raises a `Fault` for any other, and none at all."""
        head = (
            f"POST {self._target} HTTP/1.1\r\nHost: {self._origin.authority}\r\nUser-Agent: interlock\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            f"Content-Length: {len(body)}\r\n"
        )
        answer = Document(self._most_bytes)
        ticket = self._pool.submit(head.encode("ascii") + self._headers + b"\r\n" + body, answer)
        try:
            async with asyncio.timeout(within_s):
                return await answer.whole_body
        except TimeoutError:
            raise Fault("TIMEOUT", f"{self._origin.authority} did not answer within {within_s:g} s") from None
        finally:
            self._pool.drop(ticket)

    async def close(self) -> None:
        """Close what is open. Whoever waits is told."""
        await self._pool.close()

"""The items of a generator: collected for the result, and sent to the client while they are produced.

A client that agreed on MGP's streaming and asked for it gets each item as a chunk. Any other client that asked for
progress gets each as a progress report. A client that reads slowly slows the generator down.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Final

import msgspec

from interlock.protocols.mgp.streaming import CHUNK, chunk_params, streamed_member
from interlock.server.definitions.results import Items, piece
from interlock.server.requests.context import Context
from interlock.server.requests.work import Work
from interlock.signatures.type_schema import as_json

AHEAD: Final = 64
"""How many items a generator in a thread may be ahead of the client."""
TURN: Final = 32
"""How many items are taken before the loop serves other requests."""
MAX_REPORT_CHARS: Final = 4_000

_encode = msgspec.json.Encoder().encode


class StreamStopped(Exception):
    """The client has cancelled: a generator in a thread ends at its next item."""


class ItemStream:
    """The items of one call, so far."""

    def __init__(self, work: Work, context: Context, loop: asyncio.AbstractEventLoop, *, reports: bool) -> None:
        self.items = Items()
        self.sent = 0
        """Chunks that were sent."""
        self._work = work
        self._context = context
        self._reports = reports
        self._chunks = work.streams
        self._began = time.monotonic()
        self._loop = loop
        self._ahead = threading.Semaphore(AHEAD)
        self._unsent: deque[Any] = deque()
        self._sending: asyncio.Task[None] | None = None
        work.items = self.items
        if self._chunks:
            work.stream = self

    def member(self) -> bytes:
        """The `_mgp` member of the result (MGP, Stream Completion)."""
        return streamed_member(self.sent, (time.monotonic() - self._began) * 1000)

    async def collect(self, items: AsyncIterator[Any]) -> Items:
        """All items of an asynchronous generator."""
        async for item in items:
            self.items.append(item)
            if not self._chunks:
                self._report(item)
                continue
            self._send(item)
            waiting = self._work.exchange.drained()
            if waiting is not None:
                await waiting
            elif self.sent % TURN == 1:
                await asyncio.sleep(0)
        return self.items

    def collect_in_thread(self, items: Iterator[Any]) -> Items:
        """All items of a generator, in the thread that runs it. Raises `StreamStopped` when the client cancels."""
        for item in items:
            if not self._chunks:
                self.items.append(item)
                self._report(item)
                continue
            self._ahead.acquire()
            if self._work.stopped:
                if isinstance(items, Generator):
                    items.close()
                raise StreamStopped
            self.items.append(item)
            self._loop.call_soon_threadsafe(self._take, item)
        return self.items

    async def finish(self) -> None:
        """Wait until the last chunk was sent: the result follows it."""
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
        """The call was cancelled: let a generator in a thread go on to its end."""
        if self._sending is not None:
            self._sending.cancel()
        self._ahead.release(AHEAD)

    def _take(self, item: Any) -> None:
        """Send an item that a thread produced, after those before it."""
        if self._work.stopped:
            return
        if self._sending is None or self._sending.done():
            self._send(item)
            waiting = self._work.exchange.drained()
            if waiting is None:
                self._ahead.release()
            else:
                self._sending = self._loop.create_task(self._send_unsent(waiting))
        else:
            self._unsent.append(item)

    async def _send_unsent(self, waiting: asyncio.Future[None] | None) -> None:
        while True:
            if waiting is not None:
                await waiting
            self._ahead.release()
            if not self._unsent:
                return
            self._send(self._unsent.popleft())
            waiting = self._work.exchange.drained()

    def _send(self, item: Any) -> None:
        work = self._work
        if work.stopped:
            return
        content = _encode(piece(item, work.dialect.revision))
        work.exchange.notify(CHUNK, chunk_params(work.exchange.request.id, self.sent, content))
        self.sent += 1
        work.extend_limit()

    def _report(self, item: Any) -> None:
        """Report an item as progress: the number of items so far, and the item as text."""
        if self._reports:
            context = self._context
            context.progress(len(self.items), message=_as_text(item) if context.reports else None)


def _as_text(item: object) -> str | None:
    plain = item if isinstance(item, str) else as_json(item)
    if plain is msgspec.UNSET:
        return None
    text = plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    return text if len(text) <= MAX_REPORT_CHARS else text[:MAX_REPORT_CHARS] + "…"

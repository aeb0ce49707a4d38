"""Messages to a server over HTTP that need no answer: notifications, our answers to it, the end of a session."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.transports.http.client.heads import HeadWriter
from interlock.transports.http.client.pool import Pool
from interlock.transports.http.client.reply import Reply, ReplyFailed
from interlock.transports.violation_log import ViolationLog
from interlock.wire.errors import Fault

RECEIPT_SECONDS: Final = 30.0
"""How long a server may take to accept such a message."""


class Posts:
    """Posts messages of one link."""

    def __init__(self, complaints: ViolationLog, pool: Pool, heads: HeadWriter) -> None:
        self._complaints = complaints
        self._pool = pool
        self._heads = heads
        self._receipts: set[_Receipt] = set()
        self.untaken = 0
        """How many messages the server did not accept."""

    def send(self, body: bytes, method: str = "") -> None:
        """Send a notification, or an answer to the server where `method` is empty."""
        self._submit(self._heads.post(body, method), method or "an answer")

    def end_session(self) -> None:
        """Send the DELETE that ends the session."""
        self._submit(self._heads.delete(), "DELETE")

    async def settled(self, within_s: float | None = None) -> None:
        """Wait until the server has accepted every message so far."""
        if self._receipts:
            await asyncio.wait([receipt.accepted for receipt in self._receipts], timeout=within_s)

    def refused(self, why: str) -> None:
        """The server did not accept a message."""
        self.untaken += 1
        self._complaints.report("undelivered", why)

    def done(self, receipt: _Receipt) -> None:
        """The server has accepted or refused a message, or takes too long."""
        self._pool.drop(receipt)
        self._receipts.discard(receipt)

    def _submit(self, payload: bytes, what: str) -> None:
        receipt = _Receipt(self, what)
        try:
            self._pool.submit(payload, receipt)
        except Fault as fault:
            receipt.timer.cancel()
            self.refused(f"{what} was not sent: {fault.message}")
        else:
            self._receipts.add(receipt)


class _Receipt(Reply):
    """The response to one message."""

    def __init__(self, posts: Posts, what: str) -> None:
        self._posts = posts
        self._what = what
        self._status = 0
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[None] = loop.create_future()
        self.timer = loop.call_later(RECEIPT_SECONDS, self.failed, ReplyFailed("it takes too long", sent=True))

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status
        if status == 200 and headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            self.failed(ReplyFailed("the server answers a message that has no answer", sent=True))

    def body(self, data: bytes) -> None:
        pass

    def done(self) -> None:
        if self._status >= 400 and not (self._what == "DELETE" and self._status in (404, 405)):
            self._posts.refused(f"{self._what} was refused: HTTP {self._status}")
        self._settle()

    def failed(self, how: ReplyFailed) -> None:
        if not self.accepted.done():
            self._posts.refused(f"{self._what} was not taken: {how.why}")
        self._settle()

    def _settle(self) -> None:
        if not self.accepted.done():
            self.accepted.set_result(None)
            self.timer.cancel()
        self._posts.done(self)

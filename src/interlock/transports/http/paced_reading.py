"""The reading half of one client connection: the parser gets the received bytes a piece at a time.

One turn of the loop reads no more than its share (`read_queue.py`). The rest waits in `flow`, and meanwhile nothing is
read from the socket.
"""

from __future__ import annotations

from typing import Final

import httptools

from interlock.transports.http import guard
from interlock.transports.http.asgi_application import AsgiApplication
from interlock.transports.http.bodies import CROWDED
from interlock.transports.http.connection import HttpConnection
from interlock.transports.http.guard import Refusal
from interlock.transports.http.listener import HttpListener
from interlock.transports.http.phase import Phase
from interlock.transports.read_queue import PIECE

_IDLE, _HEAD, _BODY, _CLOSING = Phase.IDLE, Phase.HEAD, Phase.BODY, Phase.CLOSING
_LINGER_BYTES: Final = 16 * 1024 * 1024


class PacedConnection(HttpConnection):
    """Reads from one client."""

    def __init__(self, listener: HttpListener, application: AsgiApplication) -> None:
        super().__init__(listener, application)
        self._first: bytes | None = None
        """The bytes that begin with the request being read, where one piece of them does."""
        self._head: dict[bytes, bytes] | None = None
        """The headers so far."""
        self._fed = 0
        """Bytes since the last whole request."""
        self._length = 0
        """The length of the body that is being read, where its head names it."""
        self._began = 0
        """The place of the body that is being read among all in chunks: only those wait half read."""
        self._answered = False
        """Whether these bytes held a whole request already."""
        self._without_upgrade: bytes | None = None
        """The head of a request without its offer to upgrade, until it is read again."""

    def read_on(self) -> None:
        """Answer the requests that waited for a turn of the loop, and read the bytes behind them."""
        if self._queue and self._active is None:
            self._advance(in_turn=True)
        if self.flow.waiting and not self._is_behind():
            self._read(self.flow.take())
        if not self.flow.waiting:
            self.flow.release()
            self._recount()
            if self._ended and not self._queue:
                self.transport.close()

    def _read(self, data: bytes) -> None:
        """Have the parser read a piece at a time. The first is read now, others as long as this turn of the loop lasts,
        and not while requests before them wait for theirs."""
        self._answered = False
        at, size = 0, len(data)
        while at < size and self._phase is not _CLOSING:
            if at and (self._is_behind() or self._reads.is_spent()):
                self._hold_back(data[at:])
                return
            end = at + self._piece()
            piece = data if not at and end >= size else data[at:end]
            if self._phase is _IDLE:
                self._first = None if at else data
            upgrade_at = self._feed(piece)
            if upgrade_at is not None:
                end = at + upgrade_at
                if self._phase is not _CLOSING and not self._read_again():
                    self._on_upgrade(data[end:])
                    at = size
                    break
            if self._phase is _HEAD and self._fed > self.listener.bounds.header_bytes:
                self._refuse(guard.too_long(self.listener.bounds, target=not self._head))
            at = end
        if at < size:
            self._fed += size - at
            if self._fed > _LINGER_BYTES:
                self.transport.abort()
        if self._is_behind() and not self._stalled:
            self._reads.add(self)

    def _feed(self, piece: bytes) -> int | None:
        """Have the parser read a piece. It stops behind a head that offers an upgrade, and this is where."""
        self._fed += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            return int(upgrade.args[0])
        except httptools.HttpParserCallbackError as failed:
            raise failed.__context__ or failed from None  # a fault of ours, and not of the request
        except httptools.HttpParserError as error:
            self._refuse(Refusal(400, f"not a proper HTTP request: {error}"))
        return None

    def _read_again(self) -> bool:
        """Read a head whose offer to upgrade nobody takes up, without the offer. False where there is none."""
        head, self._without_upgrade = self._without_upgrade, None
        if head is None:
            return False
        self._first = None
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(head)
        return True

    def _piece(self) -> int:
        """How many bytes the parser gets at once: the rest of a body whose length is known, as it is one piece."""
        return PIECE if self._phase is not _BODY else max(PIECE, self._length - self._read_so_far())

    def _read_so_far(self) -> int:
        """The bytes of the body that is being read."""
        return self._asgi_bytes if self._reading is None else len(self._body)

    def _hold_back(self, data: bytes) -> None:
        """Keep bytes until the requests before them are answered, or until a later turn of the loop."""
        if self._phase is _CLOSING:
            return
        self.flow.hold(data)
        if not self.listener.bodies.hold(self, self._size()):
            self._refuse(CROWDED)
        if not self._stalled or not self._is_behind():
            is_large = self._phase is _BODY and self._read_so_far() > self.listener.bounds.early_bytes
            self._reads.add(self, self._began if is_large else None)

    def _on_upgrade(self, rest: bytes) -> None:
        """A head that asks for a protocol that is spoken here was read; `rest` came behind it."""
        raise NotImplementedError

"""The answers of one batch (revision 2025-03-26): one array when all are there, or events as they come."""

from __future__ import annotations

from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.outlets import MessageOutlet
from interlock.transports.http.server.sessions import HttpSession


class HttpBatch:
    """Collects the answers of one batch."""

    __slots__ = ("_answers", "_channel", "_http", "_missing", "_outlet")

    def __init__(self, http: HttpRequest, channel: HttpSession, expected: int, refused: list[bytes]) -> None:
        self._http = http
        self._channel = channel
        self._missing = expected
        self._answers = refused
        self._outlet: MessageOutlet | None = None

    def answered(self, payload: bytes | None) -> None:
        """One request is done; None when its answer is no longer wanted."""
        self._missing -= 1
        if payload is not None:
            if self._outlet is not None:
                self._outlet.send(payload)
            else:
                self._answers.append(payload)
        if not self._missing:
            self.close()

    def close(self) -> None:
        """Send the answers: end the stream, or write one array, or 202 where no message wanted an answer."""
        if self._outlet is not None:
            self._outlet.end()
        elif self._answers:
            self._http.answer(200, b"[%b]" % b",".join(self._answers))
        else:
            self._http.answer(202)

    def stream(self) -> MessageOutlet:
        """The stream of this batch. The first use opens it, and sends the answers so far."""
        if self._outlet is None:
            self._outlet = self._channel.streams.open(self._http)
            for payload in self._answers:
                self._outlet.send(payload)
            self._answers = []
        return self._outlet

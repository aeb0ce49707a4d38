"""The messages that clients of revision 2024-11-05 post, each on a connection of its own, as one stream reads them.

A message is answered with 202 once it was read. Its body counts until then, and its request until it is answered.
Messages that arrive while an earlier one is read wait in a queue with bounds per principal and in all. Beyond them a
message is refused, and can be sent again.
"""

from __future__ import annotations

import asyncio

from interlock.process.open_counts import OpenCounts
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.refusals import id_of, refuse
from interlock.transports.read_queue import ReadQueue
from interlock.transports.stdio.server import StdioServer
from interlock.wire.errors import Fault


class WaitingPosts:
    """How many messages wait, and how many bytes, over all streams of one listening address."""

    def __init__(self, bounds: HttpBounds) -> None:
        self._bounds = bounds
        self._messages: OpenCounts[str] = OpenCounts()
        self._bytes: OpenCounts[str] = OpenCounts()
        self.bytes = 0
        """Bytes of all principals."""

    def add(self, principal_name: str, size: int) -> None:
        """Count a message. Raises RESOURCE_EXHAUSTED, but not for the first of a principal."""
        bounds, messages = self._bounds, self._messages[principal_name]
        if messages and (
            messages >= bounds.sse_waiting_per_principal
            or self._bytes[principal_name] + size > bounds.sse_waiting_bytes_per_principal
            or self.bytes + size > bounds.sse_waiting_bytes
        ):
            message = f"{messages} messages wait to be read already"
            raise Fault("RESOURCE_EXHAUSTED", message, hint="send it again in a moment", retry_after_ms=1000)
        self._messages.add(principal_name)
        self._bytes.add(principal_name, size)
        self.bytes += size

    def remove(self, principal_name: str, size: int) -> None:
        """The message waits no more."""
        self.bytes -= size
        self._bytes.add(principal_name, -size)
        self._messages.add(principal_name, -1)


class PostReader(asyncio.ReadTransport):
    """Reads the messages of one stream, as a socket would: the server pauses it while it cannot take more."""

    def __init__(self, server: StdioServer, principal_name: str, counts: WaitingPosts) -> None:
        super().__init__()
        self._server: StdioServer | None = server
        self._principal_name = principal_name
        self._counts = counts
        self._reads = ReadQueue.of(asyncio.get_running_loop())
        self._waiting: dict[HttpRequest, int] = {}
        """The requests whose messages wait, in order, and how many bytes each counts for."""
        self._taking: HttpRequest | None = None
        """The request whose message is being taken."""
        self._paused = False

    def take(self, http: HttpRequest) -> None:
        """Take a message now, or when those before it are taken. Raises RESOURCE_EXHAUSTED or SESSION_UNKNOWN."""
        if self._server is None:
            raise _ended()
        if self._taking is None and not self._paused and not self._waiting:
            self._hand_over(http)
            return
        size = len(http.body)
        self._counts.add(self._principal_name, size)
        self._waiting[http] = size
        http.connection.watch(http, self)

    # The server calls these, as it does with a socket.

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._taken()

    def is_closing(self) -> bool:
        return self._server is None

    def close(self) -> None:
        """The stream is over. Messages that were not taken are refused."""
        if self._server is None:
            return
        self._server = None
        self._reads.discard(self)
        requests = [*(() if self._taking is None else (self._taking,)), *self._waiting]
        for http in list(self._waiting):
            self._drop(http)
        self._taking = None
        for http in requests:
            fault = _ended()
            refuse(http, fault.kind.http, fault, id=id_of(http, fault))

    # The loop's queue of reads calls these (`read_queue.QueuedReader`).

    def read_on(self) -> None:
        """Take the message that waits longest."""
        if self._waiting and self._taking is None and not self._paused:
            http = next(iter(self._waiting))
            self._drop(http)
            self._hand_over(http)

    def give_up(self) -> None:
        """End the stream."""
        if self._server is not None:
            self._server.close()

    def _hand_over(self, http: HttpRequest) -> None:
        if self._server is not None:
            self._taking = http
            self._server.take_whole(http.body, http.release_body)
            if not self._paused:
                self._taken()

    def _taken(self) -> None:
        """Answer the message that was taken. One that follows on its connection comes behind those that wait."""
        http, self._taking = self._taking, None
        if self._waiting:
            self._reads.add(self)
        if http is not None:
            http.answer(202)

    def on_request_gone(self, http: HttpRequest) -> None:
        """The client of a message that waits has gone."""
        self._drop(http)

    def _drop(self, http: HttpRequest) -> None:
        http.connection.watch(http, None)
        self._counts.remove(self._principal_name, self._waiting.pop(http))


def _ended() -> Fault:
    return Fault("SESSION_UNKNOWN", "the stream has ended", hint="open one with GET on /sse")

"""A request that an ASGI application answers, on a connection that also carries MCP (ASGI, HTTP Message Format)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, Protocol
from urllib.parse import unquote

import httptools

from interlock.transports.http.paced_reading import PacedReading
from interlock.transports.http.server.http_request import CLOSE
from interlock.transports.http.server.listener import HttpListener, status_line
from interlock.transports.http.server.response_writer import ResponseWriter

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

log = logging.getLogger("interlock.http")

MAX_BUFFERED: Final = 65_536
"""Bytes of a body that wait for the application. Beyond that the connection is not read."""
_BAD_NAME: Final = re.compile(rb'[\x00-\x20\x7f()<>@,;:\\\[\]={}"]')
_BAD_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FAILED: Final = b"Internal Server Error"


class AsgiConnection(Protocol):
    """The connection of a request."""

    transport: asyncio.Transport
    flow: PacedReading
    listener: HttpListener
    writer: ResponseWriter

    def on_response_complete(self) -> None:
        """The answer is whole."""


class AsgiRequest:
    """One request, from its head to the last byte of its answer."""

    def __init__(self, scope: Scope, connection: AsgiConnection, *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.owes_continue = dict(scope["headers"]).get(b"expect", b"").lower() == b"100-continue"
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.disconnected = False
        self.received = 0
        """The bytes of the body so far."""
        self.body = bytearray()
        """Bytes that the application has not received yet."""
        self.more_body = True
        self.message_event = asyncio.Event()
        """Set when there is something to receive: bytes, the end of the body, or the end of the connection."""
        self.response_started = False
        self.response_complete = False
        self._connection: AsgiConnection | None = connection
        """None when the request is over: no part of the connection stays with an application that holds the request."""
        self._chunked: bool | None = None
        self._left: int | None = 0
        """Bytes of the answer that are still to come, by its Content-Length. None without one: then the end of the
        connection ends the answer."""

    def feed(self, body: bytes) -> None:
        """A piece of the body."""
        self.received += len(body)
        if self._connection is None or self.response_complete:
            return
        self.body += body
        if len(self.body) > MAX_BUFFERED:
            self._connection.flow.pause_reading()
        self.message_event.set()

    def end_body(self) -> None:
        """The body is whole."""
        if not self.response_complete:
            self.more_body = False
            self.message_event.set()

    def disconnect(self) -> None:
        """Give the application no more of the body, and drop its answer."""
        self.disconnected = True
        self.message_event.set()

    def end_connection(self) -> None:
        """Have the connection closed after the answer."""
        self.keep_alive = False

    def on_connection_lost(self) -> None:
        """The connection has gone."""
        self.disconnect()
        self.body = bytearray()
        self._connection = None

    async def run(self, app: ASGIApp) -> None:
        """Have the application answer."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.response_complete and not self.disconnected:
                raise RuntimeError("the application ended without a whole answer")
        except BaseException as cause:  # also a cancelled one: the client gets an answer
            log.error("%s failed", self.scope["path"], exc_info=cause)
            await self._fail()
        finally:
            self._connection = None

    async def receive(self) -> Message:
        """The next piece of the body, or the end of the request."""
        connection = self._connection
        if connection is not None and not self.disconnected and not self.response_complete:
            if self.owes_continue and not connection.transport.is_closing():
                self.owes_continue = False
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.flow.resume_reading()
            connection = None
            await self.message_event.wait()
            self.message_event.clear()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """The head of the answer, or a piece of its body. Waits while the client does not keep up."""
        connection = self._connection
        if connection is not None and (drained := connection.writer.drained()) is not None:
            connection = None
            await drained
            connection = self._connection
        if connection is None or self.disconnected:
            await asyncio.sleep(0)  # An application that goes on writing must not hold the loop.
            return
        if self.response_complete:
            raise RuntimeError(f"{message['type']} comes after the whole answer")
        wanted = "http.response.body" if self.response_started else "http.response.start"
        if message["type"] != wanted:
            raise RuntimeError(f"{message['type']} came where {wanted} should")
        if self.response_started:
            self._send_body(connection, message.get("body", b""), more=message.get("more_body", False))
        else:
            self._send_head(connection, message["status"], message.get("headers", ()))

    def _send_head(self, connection: AsgiConnection, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines = [status_line(status), connection.listener.date]
        closes = False
        # HTTP/1.0 has no chunks (RFC 9112, Transfer-Encoding): the end of the connection ends the answer.
        is_old = self.scope["http_version"] == "1.0"
        for name, value in headers:
            if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
                raise RuntimeError(f"a header that HTTP does not have: {name!r}")
            name = name.lower()
            if name == b"content-length" and self._chunked is None:
                self._left, self._chunked = int(value), False
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                if is_old:
                    continue
                self._left, self._chunked = 0, True
            elif name == b"connection" and b"close" in [token.strip() for token in value.lower().split(b",")]:
                self.keep_alive, closes = False, True
            lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keep_alive and not closes:
            lines.append(CLOSE)
        if self._chunked is None and self.scope["method"] != "HEAD" and status not in (204, 304):
            self._chunked = not is_old
            if is_old:
                self._left = None
            else:
                lines.append(b"transfer-encoding: chunked\r\n")
        self.response_started, self.owes_continue = True, False
        connection.transport.write(b"".join((*lines, b"\r\n")))

    def _send_body(self, connection: AsgiConnection, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self._left = 0
        elif self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            connection.transport.write(chunk if more else chunk + b"0\r\n\r\n")
        elif self._left is None:
            connection.transport.write(body)
        elif len(body) > self._left:
            raise RuntimeError("the body is longer than its content-length")
        else:
            self._left -= len(body)
            connection.transport.write(body)
        if more:
            return
        if self._left:
            raise RuntimeError("the body is shorter than its content-length")
        self.response_complete = True
        self.body = bytearray()
        self.message_event.set()
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()

    async def _fail(self) -> None:
        """Answer 500, or end the connection where an answer has begun already."""
        if self.response_started:
            if self._connection is not None:
                self._connection.transport.close()
            return
        self._chunked, self._left = None, 0  # Headers that came before a bad one do not count.
        kind = (b"content-type", b"text/plain; charset=utf-8")
        headers = [kind, (b"content-length", b"%d" % len(_FAILED)), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _FAILED})


def scope_of(
    target: bytes, method: bytes, version: str, headers: list[tuple[bytes, bytes]], transport: asyncio.Transport
) -> Scope:
    """The ASGI scope of a request, without the application's state."""
    url = httptools.parse_url(target)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "method": method.decode("ascii"),
        "scheme": "http",
        "path": unquote(url.path.decode("ascii")),
        "raw_path": url.path,
        "query_string": url.query or b"",
        "root_path": "",
        "headers": headers,
        "server": address_of(transport, "sockname"),
        "client": address_of(transport, "peername"),
    }


def address_of(transport: asyncio.Transport, end: Literal["sockname", "peername"]) -> tuple[str, int] | None:
    """The address of one end of a connection; None where it is not on a network."""
    address = transport.get_extra_info(end)
    return (str(address[0]), int(address[1])) if isinstance(address, tuple) and len(address) > 1 else None

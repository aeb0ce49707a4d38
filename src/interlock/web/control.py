"""The control socket: one per user, with NDJSON as on stdio. The first message selects operations or plain MCP.

Rule: before a byte is read, the operating system must confirm that the peer is the hub's own user.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from interlock.hub.admin.operations import Following, Operations
from interlock.hub.admin.people import PROGRAM, ControlPeer
from interlock.hub.app import HubApp
from interlock.hub.calls.call import Caller
from interlock.process.task_set import TaskSet
from interlock.process.turns import pieces_in_turns
from interlock.transports.credentials import header_of
from interlock.transports.large_reading import LargeReading
from interlock.transports.peers import peer_uid
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.sessions.session import SERVER_STOPS
from interlock.transports.stdio.server import StdioServer
from interlock.transports.unread_bytes import UnreadBytes
from interlock.version import VERSION
from interlock.web.following import FollowingTask
from interlock.wire.errors import ErrorDialect, Fault, internal_error
from interlock.wire.large import LARGE
from interlock.wire.large_messages import Outcome
from interlock.wire.limits import DEFAULT, Limits
from interlock.wire.messages import (
    BadMessage,
    Id,
    Request,
    decode,
    encode_failure,
    encode_id,
    encode_result,
)
from interlock.wire.ndjson import LineReader, OversizeLine

log = logging.getLogger("interlock.control")

PREFIX: Final = "hub/"
"""Prefix of the method of every operation."""
HELLO_WITHIN_S: Final = 10.0
MAX_CONNECTIONS: Final = 1000


class StreamCounts(msgspec.Struct, frozen=True):
    """The byte counts of all MCP streams on this socket."""

    unread: UnreadBytes
    """Bytes that clients do not read."""
    open_bytes: RequestBytes
    """Bytes of requests that are not answered yet."""


class ControlSocket:
    """The listening socket."""

    def __init__(
        self,
        hub_app: HubApp,
        operations: Operations,
        unread: UnreadBytes | None = None,
        open_bytes: RequestBytes | None = None,
    ) -> None:
        self._hub_app = hub_app
        self._operations = operations
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._counts = StreamCounts(
            UnreadBytes() if unread is None else unread, RequestBytes() if open_bytes is None else open_bytes
        )
        self.token: str | None = None
        self.port: int | None = None

    async def listen(self, path: Path) -> None:
        """Listen on a Unix socket, or on loopback if the system has none."""
        if sys.platform == "win32":
            await self.listen_on_loopback()
        else:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connection, sock=_bind(path), backlog=128)

    async def listen_on_loopback(self) -> None:
        """Listen on a loopback port, with a token that only this user can read."""
        self.token = secrets.token_urlsafe(32)
        self._server = await asyncio.get_running_loop().create_server(self._connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def abandon(self) -> None:
        """Answer all open requests with an error, because the hub stops. Their outcomes may be unknown."""
        for connection in list(self._connections):
            connection.abandon()

    async def close(self) -> None:
        """Close the socket and every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()

    def _connection(self) -> _Connection:
        return _Connection(self._hub_app, self._operations, self.token, self._connections, self._counts)


def _same(given: str, token: str) -> bool:
    """Whether a token is right, compared in constant time."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _is_ours(sock: socket.socket | None) -> bool:
    """Whether the operating system says that the peer is this user. False for a peer that has disconnected."""
    try:
        uid = None if sock is None else peer_uid(sock)
    except OSError:
        return False
    return uid is None or (sys.platform != "win32" and uid == os.getuid())


if sys.platform != "win32":

    def _bind(path: Path) -> socket.socket:
        """A new socket with access for this user alone. It replaces the file of a hub that was killed."""
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        return sock


class _Connection(asyncio.Protocol):
    """One connection. After its hello, a control connection stays here, and a stdio connection gets a `StdioServer`."""

    def __init__(
        self,
        hub_app: HubApp,
        operations: Operations,
        token: str | None,
        all_of_them: set[_Connection],
        counts: StreamCounts,
    ) -> None:
        self._hub_app = hub_app
        self._operations = operations
        self._token = token
        self._all = all_of_them
        self._counts = counts
        self._lines = LineReader(Limits().message_bytes)
        self._transport: asyncio.Transport
        self._greeted = False
        self._peer = PROGRAM
        self._hello_timer: asyncio.TimerHandle | None = None
        self._working = TaskSet()
        self._following: FollowingTask | None = None
        self._stdio: StdioServer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not `isinstance`: other event loops have their own transport classes.
        self._transport = cast("asyncio.Transport", transport)
        sock: socket.socket | None = transport.get_extra_info("socket")
        if (self._token is None and not _is_ours(sock)) or len(self._all) >= MAX_CONNECTIONS:
            self._transport.abort()
            return
        self._all.add(self)
        self._hello_timer = asyncio.get_running_loop().call_later(HELLO_WITHIN_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        while not self._greeted:
            head, newline, data = data.partition(b"\n")
            lines = self._lines.feed(head + newline)
            if lines:
                self._hello(lines[0], data)
            if lines or not data:
                return
        for line in self._lines.feed(data):
            self._received(line)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        if self._following is not None:
            self._following.close()
        self._working.cancel()

    def pause_writing(self) -> None:
        if self._following is not None:
            self._following.pause()

    def resume_writing(self) -> None:
        if self._following is not None:
            self._following.resume()

    def abandon(self) -> None:
        """Answer the requests of a stream that speaks MCP, and close it."""
        if self._stdio is not None:
            self._stdio.end(SERVER_STOPS)

    def close(self) -> None:
        """Close the connection, because the hub stops."""
        if self._stdio is not None:
            self._stdio.close()
        self._transport.close()

    def _hello(self, line: bytes | OversizeLine, rest: bytes) -> None:
        self._greeted = True
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        id_: Id | None = None
        try:
            request = decode(line) if isinstance(line, bytes) and len(line) <= LARGE else None
            if not isinstance(request, Request) or request.method != "interlock/hello":
                raise Fault("INVALID_REQUEST", "the first message must be interlock/hello")
            id_ = request.id
            hello = msgspec.json.decode(request.params, type=Hello)
            if self._token is not None and not _same(hello.token or "", self._token):
                raise Fault("AUTH_REQUIRED", "wrong token")
            self._begin(id_, hello, rest)
        except msgspec.DecodeError as cause:
            self._refuse(id_, Fault("INVALID_PARAMS", f"hello: {cause}"))
        except BadMessage as bad:
            self._refuse(bad.id, bad)
        except Fault as fault:
            self._refuse(id_, fault)

    def _begin(self, id: Id, hello: Hello, rest: bytes) -> None:
        if hello.role == "control":
            person, self._peer = self._operations.hub_user, hello.peer
            self._welcome(id, person.id, person.kind)
            if rest:
                self.data_received(rest)
            return
        authenticator, view = self._hub_app.authenticator, hello.view or "/mcp"
        caller = authenticator.admit_key(hello.key, view)
        self._welcome(id, caller.principal.id, caller.principal.kind)

        def admit(auth: bytes) -> Caller:
            found = authenticator.admit(view, {b"authorization": header_of(auth)})
            if hello.key is not None and found.principal_name != caller.principal_name:
                message = "this stream belongs to another principal"
                raise Fault("ACCESS_DENIED", message, hint="start `interlock stdio` with that key")
            return found

        limits = self._hub_app.limits
        stdio = self._stdio = StdioServer(
            self._hub_app.service,
            caller,
            limits=limits,
            admit=admit,
            unread=self._counts.unread,
            open_bytes=self._counts.open_bytes,
        )
        stdio.connection_made(self._transport)
        self._transport.set_protocol(_StdioHandover(stdio, self))
        if rest:
            stdio.data_received(rest)

    def _welcome(self, id: Id, principal: str, kind: str) -> None:
        origin = self._hub_app.config.origin
        # A relay that restarts a stopped hub uses these values to start it in the same way.
        started = {
            "config": origin.path if origin.explicit else None,
            "folder": origin.folder,
            "listen": origin.listen,
        }
        hello = {
            "version": VERSION,
            "pid": os.getpid(),
            "principal": {"id": principal, "kind": kind},
            "started": started,
            "message_bytes": self._hub_app.limits.message_bytes,
        }
        self._write(encode_result(id, msgspec.json.encode(hello)))

    def _received(self, line: bytes | OversizeLine) -> None:
        if isinstance(line, OversizeLine):
            self._write_fault(None, Fault("TOO_LARGE", "the line is too long"))
            return
        if len(line) > LARGE:
            LargeReading.here().read(self, line, DEFAULT, DEFAULT.answer_members, self._take)
            return
        try:
            self._take(decode(line))
        except BadMessage as bad:
            self._take(bad)

    def _take(self, message: Outcome) -> None:
        if self._transport.is_closing():
            return
        if isinstance(message, list):
            message = BadMessage("INVALID_REQUEST", "the control socket takes no batches")
        if isinstance(message, BadMessage):
            self._write_fault(message.id, message)
        elif isinstance(message, Request):
            self._working.begin(self._answer(message))

    async def _answer(self, request: Request) -> None:
        following: Following | None = None
        try:
            if not request.method.startswith(PREFIX):
                raise Fault("METHOD_NOT_FOUND", f"no such method: {request.method[:200]}")
            name = request.method.removeprefix(PREFIX)
            result = await self._operations.perform(self._operations.hub_user, name, request.params, peer=self._peer)
            # Subscribe before encoding the answer, which may take several turns, so that no event is lost in between.
            following = self._operations.follow(name, request.params)
            answer = await pieces_in_turns(result)
            if following is not None and self._following is not None:
                hint = "open another connection"
                raise Fault("INVALID_REQUEST", "this connection has a subscription already", hint=hint)
            self._write_result(request.id, answer)
            if following is not None:
                self._following, following = FollowingTask(following, self._write), None
        except Fault as fault:
            self._write_fault(request.id, fault)
        except Exception as cause:
            # A person waits for an answer, so answer every exception.
            log.error("%s failed", request.method, exc_info=cause)
            self._write_fault(request.id, internal_error())
        finally:
            if following is not None:
                following.subscription.close()

    def _write(self, line: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(line + b"\n")

    def _write_result(self, id: Id, pieces: list[bytes]) -> None:
        """Write the pieces of an answer without joining them, because it may have megabytes."""
        if not self._transport.is_closing():
            for piece in (b'{"jsonrpc":"2.0","id":%b,"result":' % encode_id(id), *pieces, b"}\n"):
                self._transport.write(piece)

    def _write_fault(self, id: Id | None, fault: Fault) -> None:
        self._write(encode_failure(id, fault.render(ErrorDialect.OLD_MCP)))

    def _refuse(self, id: Id | None, fault: Fault) -> None:
        self._write_fault(id, fault)
        self._transport.close()


class _StdioHandover(asyncio.Protocol):
    """The protocol of a connection that speaks MCP. Its end also cleans up the control connection."""

    def __init__(self, stdio: StdioServer, connection: _Connection) -> None:
        self._connection = connection
        self.data_received = stdio.data_received  # type: ignore[method-assign]
        self.pause_writing = stdio.pause_writing  # type: ignore[method-assign]
        self.resume_writing = stdio.resume_writing  # type: ignore[method-assign]
        self.eof_received = stdio.eof_received  # type: ignore[method-assign]
        self._lost = stdio.connection_lost

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)
        self._connection.connection_lost(exc)


class Hello(msgspec.Struct):
    """The first message of every control connection."""

    role: Literal["control", "stdio"]
    key: str | None = None
    token: str | None = None
    view: str | None = None
    peer: ControlPeer = PROGRAM

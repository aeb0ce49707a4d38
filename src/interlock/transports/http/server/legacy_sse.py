"""The transport of revision 2024-11-05, beside the newer one: a GET on `…/sse` opens the stream on which everything
comes, and names the address `…/messages/ID` to which everything goes.

The conversation is that of standard streams, in other frames. It ends with its stream, and only the caller that opened
the stream may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from interlock.process.open_counts import OpenCounts
from interlock.transports.credentials import HEADER, refuse_beside
from interlock.transports.exchange import AdmittedCaller, Service
from interlock.transports.http.bounds import HttpBounds
from interlock.transports.http.server.http_request import HttpRequest
from interlock.transports.http.server.legacy_sse_paths import MESSAGES, STREAM, mcp_path_of
from interlock.transports.http.server.legacy_sse_posts import PostReader, WaitingPosts
from interlock.transports.http.server.malformed import KEY
from interlock.transports.request_bytes import RequestBytes
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.transports.sessions.session import SERVER_STOPS
from interlock.transports.stdio.server import StdioServer
from interlock.wire.errors import Fault
from interlock.wire.ids import Worker, read_id
from interlock.wire.large import LARGE
from interlock.wire.limits import Limits
from interlock.wire.sse import encode_event

if TYPE_CHECKING:
    import asyncio


class LegacySse:
    """Every stream of one HTTP face. Bounded in number, and per principal."""

    def __init__(self, service: Service, limits: Limits, bounds: HttpBounds, open_bytes: RequestBytes) -> None:
        self._service = service
        self._limits = limits
        self._bounds = bounds
        self._open_bytes = open_bytes
        self._streams: dict[str, _Stream] = {}
        self._by_principal: OpenCounts[str] = OpenCounts()
        self.waiting = WaitingPosts(bounds)

    def __len__(self) -> int:
        return len(self._streams)

    def admit(self, path: str, headers: Mapping[bytes, bytes]) -> AdmittedCaller:
        """The caller's identity, the same as at the newer address."""
        caller: AdmittedCaller = self._service.admit(mcp_path_of(path) or path, headers)
        return caller

    def handle(self, http: HttpRequest) -> None:
        """Answer a GET or a POST. Raises a `Fault`."""
        head = http.head
        caller = self.admit(head.path, head.headers)
        if KEY in head.headers:
            http.connection.admit(http, caller.principal_name)
        stream, messages = STREAM.match(head.path), MESSAGES.match(head.path)
        if stream is not None and head.method == b"GET":
            self._open(http, caller, stream[1])
        elif messages is not None and head.method == b"POST":
            self._take(http, caller, messages[2])
        else:
            allowed = b"allow: GET\r\n" if messages is None else b"allow: POST\r\n"
            http.answer(405, b"", allowed)

    def tick(self) -> None:
        """Close streams without a session whose credentials are no longer valid. A session's ends with its session."""
        for stream in list(self._streams.values()):
            if not stream.server.greeted:
                try:
                    self.admit(stream.path, stream.headers)
                except AuthenticationPending:
                    continue
                except Fault:
                    stream.server.close()

    def drain(self) -> None:
        """End the conversations in which nothing is under way."""
        for stream in list(self._streams.values()):
            if not stream.server.busy:
                stream.server.close()

    def close(self) -> None:
        """End every conversation: the server stops. Calls under way are answered."""
        for stream in list(self._streams.values()):
            stream.server.end(SERVER_STOPS)

    def _open(self, http: HttpRequest, caller: AdmittedCaller, prefix: str) -> None:
        bounds = self._bounds
        if self._by_principal[caller.principal_name] >= bounds.sse_streams_per_principal:
            self._displace(caller.principal_name)
        if len(self._streams) >= bounds.sse_streams:
            self._displace(None)
        id_ = self._service.worker.new_id()
        with_header = HEADER in http.head.headers
        admit = None if with_header else refuse_beside
        server = StdioServer(
            self._service,
            caller,
            limits=self._limits,
            admit=admit,
            transport="sse",
            open_bytes=self._open_bytes,
            sender=http.sender,
        )
        http.begin_stream()
        http.send(b"event: endpoint\n" + encode_event(f"{prefix}/messages/{id_}".encode()))
        server.write_to(cast("asyncio.WriteTransport", _EventWriter(http)))
        posts = PostReader(server, caller.principal_name, self.waiting)
        server.connection_made(posts)
        stream = self._streams[id_] = _Stream(id_, http.head.path, http.head.headers, caller, server, posts)
        self._by_principal.add(caller.principal_name)
        http.connection.watch(http, stream)
        server.on_closed(lambda: self._gone(id_))

    def _displace(self, principal_name: str | None) -> None:
        """Close the oldest stream without open calls, of one principal or of all."""
        for stream in self._streams.values():
            if not stream.server.busy and principal_name in (None, stream.caller.principal_name):
                stream.server.close()
                self._gone(stream.id)
                return
        raise Fault("RESOURCE_EXHAUSTED", "too many streams with open calls", retry_after_ms=10_000)

    def _take(self, http: HttpRequest, caller: AdmittedCaller, id_: str) -> None:
        stream = self._streams.get(id_)
        if stream is None or stream.caller.principal_name != caller.principal_name:
            raise _unknown(id_, self._service.worker)
        kind = http.head.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            http.answer(415)
            return
        if len(http.body) > LARGE:
            self._service.check_rate(caller)
        else:
            try:
                http.join_lines()
            except (UnicodeDecodeError, msgspec.DecodeError) as cause:
                raise Fault("PARSE_ERROR", f"not JSON in UTF-8: {cause}") from None
        stream.posts.take(http)

    def _gone(self, id_: str) -> None:
        stream = self._streams.pop(id_, None)
        if stream is not None:
            principal_name = stream.caller.principal_name
            self._by_principal.add(principal_name, -1)


def _unknown(id: str, here: Worker) -> Fault:
    """The fault for an id that is not found here, or not its principal's. Its prefix says where the id belongs."""
    named = read_id(id)
    if named is None or named[0] == here:
        return Fault("SESSION_UNKNOWN", "no such stream", hint="open one with GET on /sse")
    message = f"the stream is not here but at {named[0].prefix[:-1]}; this is {here.prefix[:-1]}"
    return Fault(
        "SESSION_UNKNOWN", message, hint="send its messages to that node, or open a stream here with GET on /sse"
    )


class _Stream(msgspec.Struct, frozen=True):
    id: str
    path: str
    headers: Mapping[bytes, bytes]
    caller: AdmittedCaller
    server: StdioServer
    posts: PostReader

    def on_request_gone(self, http: HttpRequest) -> None:
        """The client left the stream, with which the conversation ends."""
        self.server.close()


class _EventWriter:
    """Lines as events."""

    def __init__(self, http: HttpRequest) -> None:
        self._http = http

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line:
                self._http.send(encode_event(line))

    def is_closing(self) -> bool:
        return self._http.over

    def close(self) -> None:
        self._http.end()

    abort = close

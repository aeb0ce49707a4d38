"""Reads the requests of one client connection, and hands each to the endpoint or to ASGI.

A request whose head equals an earlier one is not parsed again. `paced_reading.py` has the parser read the others, and
`connection.py` answers the requests.
"""

from __future__ import annotations

from functools import partial

from interlock.transports.http import guard
from interlock.transports.http.answers import fault_headers
from interlock.transports.http.asgi import AsgiRequest, scope_of
from interlock.transports.http.asgi_application import AsgiApplication
from interlock.transports.http.bodies import CROWDED
from interlock.transports.http.bounds import FREE_CHUNKS, MIN_CHUNK
from interlock.transports.http.guard import Refusal
from interlock.transports.http.http_request import Head, HttpRequest
from interlock.transports.http.listener import ENTRANCE, HttpListener, Known
from interlock.transports.http.paced_reading import PacedConnection
from interlock.transports.http.phase import Phase
from interlock.transports.http.template import Template
from interlock.transports.http.upgrades import UpgradedConnection, UpgradeRequest
from interlock.transports.requests.pending_authentication import AuthenticationPending
from interlock.wire.errors import Fault

_IDLE, _HEAD, _BODY, _CLOSING = Phase.IDLE, Phase.HEAD, Phase.BODY, Phase.CLOSING
_FEW_HEADERS = 32
_TINY_CHUNKS = Refusal(400, f"the body has over {FREE_CHUNKS} chunks of fewer than {MIN_CHUNK} bytes on average")


class HubProtocol(PacedConnection):
    """One connection from a client."""

    def __init__(self, listener: HttpListener, application: AsgiApplication) -> None:
        super().__init__(listener, application)
        self._template: Template | None = None
        self._repeats = 0
        self._chunks = 0
        self._upgrade: UpgradeRequest | None = None
        """The request that asks for another protocol, until its head is read."""

    def take_in(self, data: bytes) -> None:
        """Read bytes, in their turn."""
        if self.flow.waiting:
            self._hold_back(data)
            return
        if self._phase is _IDLE and self._active is None and self._template is not None:
            # A whole request whose head equals an earlier one: the parser would find the same.
            start, _, body = data.partition(b"\r\n\r\n")
            known = self.listener.heads.get(start) or self._alike(start, data)
            if known is not None and len(body) == known[1] and not self._queue and not self._stalled:
                self._serial += 1
                head = known[0]
                http = self._active = HttpRequest(self, head, head.keep_alive, body)
                self.listener.endpoint.handle(http)
                return
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop everything that refers to a request, too."""
        self._first = self._template = self._head = None
        super().connection_lost(exc)

    # The parser calls these.

    def on_message_begin(self) -> None:
        """A request starts. Reading pauses if another is still being answered."""
        if self._phase is _CLOSING:
            return
        self._phase = _HEAD
        self._serial += 1
        self._target = b""
        self._head = {}
        self._repeats = 0
        if self._active is not None:
            self.flow.pause_reading()

    def on_url(self, url: bytes) -> None:
        """The request target, or a piece of it."""
        if self._phase is not _CLOSING:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        head = self._head
        if head is None or self._phase is not _HEAD:
            self._refuse(Refusal(400, "trailers are not taken"))
            return
        if len(head) + self._repeats > self.listener.bounds.header_count:
            self._refuse(Refusal(431, f"more than {self.listener.bounds.header_count} headers", "TOO_LARGE"))
            return
        name = name.lower()
        # The parser leaves the space after a value, which is no part of it (RFC 9110, Field Values).
        value = value.rstrip(b" \t")
        if name not in head:
            head[name] = value
        else:
            self._on_repeated_header(head, name, value)

    def on_headers_complete(self) -> None:
        """Check the head, and begin the request: for the endpoint on an MCP path, else for ASGI."""
        head = self._head
        if head is None or self._phase is not _HEAD:
            return
        self._head = None
        first, self._first = self._first, None
        listener = self.listener
        parser = self.parser
        method = parser.get_method()
        version = parser.get_http_version()
        refusal = guard.check_head(method, head, version, listener.faces, listener.limits.message_bytes)
        if refusal is None and (
            # A request that began in the middle of a piece of bytes was not counted from its beginning.
            first is None or self._fed > listener.bounds.header_bytes or len(head) + self._repeats > _FEW_HEADERS
        ):
            refusal = guard.check_size(head, self._repeats, listener.bounds, self._target)
        found = listener.resolve(self._target) if refusal is None else refusal
        if isinstance(found, Refusal):
            self._refuse(found)
            return
        path, is_mcp = found
        upgrader = listener.upgrader
        if upgrader is not None and path == upgrader.path:
            if parser.should_upgrade():
                self._upgrade = UpgradeRequest(method, self._target, head, version)
            else:
                self._refuse(Refusal(426, "this address speaks WebSocket", headers=b"upgrade: websocket\r\n"))
            return
        if b"upgrade" in head and parser.should_upgrade():
            self._drop_upgrade(head, version)
            return
        self._phase = _BODY
        self._length = int(head.get(b"content-length", b"0"))
        self._chunks = 0
        is_large = self._length > listener.bounds.early_bytes or b"transfer-encoding" in head
        self._sender = listener.endpoint.owner_of(path if is_mcp else ENTRANCE, head) if is_large else ""
        if not is_mcp:
            self._begin_asgi(head, method, version)
            return
        keep_alive = version == "1.1" and parser.should_keep_alive()
        known = Head(method, path, head, keep_alive, version == "1.1", self._length)
        self._reading = HttpRequest(self, known, keep_alive)
        if b"expect" in head:
            self._on_expect(head[b"expect"], version)
        elif first is not None:
            self._template = Template.of(first, known)
        if (known.length or b"transfer-encoding" in head) and not _is_whole(first, known):
            refusal = listener.endpoint.foresee(known)
            if refusal is not None:
                self._refuse(refusal)

    def on_chunk_header(self) -> None:
        """Another chunk of the body. Each costs the same, however few bytes it has."""
        self._chunks += 1
        if self._chunks == 1:
            self._began = self._reads.begin()
        if self._chunks > FREE_CHUNKS and self._read_so_far() < (self._chunks - 1) * MIN_CHUNK:
            self._refuse(_TINY_CHUNKS)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._phase is not _BODY:
            return
        limit = self.listener.limits.message_bytes
        if self._reading is None:
            self._asgi_bytes += len(body)
            size = self._asgi_bytes
            if self._asgi is not None:
                self._asgi.feed(body)
        else:
            so_far = self._body
            if not so_far:
                self._body = body
            elif type(so_far) is bytearray:
                so_far += body
            else:
                self._body = bytearray(so_far) + body
            size = len(self._body)
        if size > limit:
            self._refuse(Refusal(413, f"the body is over the limit of {limit} bytes", "TOO_LARGE"))
        elif not self.listener.bodies.hold(self, size if self._active is None and not self._queue else self._size()):
            self._refuse(CROWDED)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._phase is not _BODY:
            return
        self._phase = _IDLE
        self._fed = 0
        http = self._reading
        self.listener.bodies.received(self)
        if http is None:
            if self._asgi is not None:
                self._asgi.end_body()
            return
        self._reading = None
        body = self._body
        http.body = body if type(body) is bytes else bytes(body)
        self._body = b""
        again, self._answered = self._answered, True
        if self._active is not None or self._queue or self._stalled or (again and self._reads.is_spent()):
            self._wait(http)
        else:
            self._active = http
            self.listener.endpoint.handle(http)

    def _alike(self, start: bytes, data: bytes) -> Known | None:
        """The head of a request that differs from the one before it only in values, and its body's length."""
        template = self._template
        return None if template is None else self.listener.understand(start, partial(template.match, data))

    def _begin_asgi(self, head: dict[bytes, bytes], method: bytes, version: str) -> None:
        self._asgi_bytes = 0
        scope = scope_of(self._target, method, version, list(head.items()))
        here = self.transport.get_extra_info("sockname")
        server = (str(here[0]), int(here[1])) if isinstance(here, tuple) else None
        scope.update({"server": server, "client": self.client, "state": self._application.state.copy()})
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        request = AsgiRequest(scope, self, keep_alive=keep_alive)
        request.owes_continue = head.get(b"expect", b"").lower() == b"100-continue"
        self._answer_by_application(request)

    def _on_repeated_header(self, head: dict[bytes, bytes], name: bytes, value: bytes) -> None:
        self._repeats += 1
        combined = guard.combine(name, head[name], value)
        if combined is None:
            self._refuse(Refusal(400, f"the header {name.decode('latin-1')[:64]} may stand only once"))
        elif self._repeats <= self.listener.bounds.header_count:
            head[name] = combined

    def _on_expect(self, expectation: bytes, version: str) -> None:
        if version == "1.0":
            return
        if expectation.lower() != b"100-continue":
            self._refuse(Refusal(417, "the only expectation met here is 100-continue"))
        elif self._active is None and not self._queue:
            self._batching.write(self.transport, b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self._owes_continue = True

    def _drop_upgrade(self, head: dict[bytes, bytes], version: str) -> None:
        """Have the request read again without its offer to upgrade, which nobody here takes up.

        The parser ends such a request with its headers; Java's client offers h2c with every first request.
        """
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self._target, version.encode())]
        if b"close" in head.get(b"connection", b"").lower():
            lines.append(b"connection: close")
        dropped = (b"upgrade", b"connection", b"http2-settings")
        lines += [b"%b: %b" % pair for pair in head.items() if pair[0] not in dropped]
        self._without_upgrade = b"\r\n".join(lines) + b"\r\n\r\n"
        self._phase = _IDLE

    def _on_upgrade(self, rest: bytes) -> None:
        upgrade, self._upgrade = self._upgrade, None
        if upgrade is not None:
            self.flow.pause_reading()
            self._admit_upgrade(upgrade, rest, again=True)

    def _admit_upgrade(self, request: UpgradeRequest, rest: bytes, *, again: bool) -> None:
        """Hand the connection over, or refuse; `again`: where the caller is not known yet, judge once more then."""
        upgrader = self.listener.upgrader
        if upgrader is None or self._phase is _CLOSING or self.transport.is_closing():
            return  # while its caller was looked up, the request was refused or the connection ended
        try:
            if self._active is not None or self._queue:
                raise Fault("INVALID_REQUEST", "an upgrade cannot stand behind requests that are not answered yet")
            upgraded = upgrader.admit(request)
        except AuthenticationPending as pending:
            if again:
                pending.settled.add_done_callback(lambda _: self._admit_upgrade(request, rest, again=False))
            else:
                self._refuse_upgrade(pending)
        except Fault as fault:
            self._refuse_upgrade(fault)
        else:
            self._hand_over(upgraded, rest)

    def _refuse_upgrade(self, fault: Fault) -> None:
        self._refuse(Refusal(fault.kind.http, fault.message, fault.name, fault_headers(fault), fault.hint))

    def _hand_over(self, upgraded: UpgradedConnection, rest: bytes) -> None:
        transport = self.transport
        self._phase = _CLOSING
        self._let_go()
        self.__dict__.pop("data_received", None)
        self._first = self._template = self._head = None
        self.parser = None  # type: ignore[assignment]
        self.listener.unread.forget(self)
        connections = self.listener.connections
        connections.discard(self)
        connections.add(upgraded)
        upgraded.take_over(transport, rest, lambda: connections.discard(upgraded))


def _is_whole(first: bytes | None, head: Head) -> bool:
    """Whether the body came together with its head, so that nothing more has to be read."""
    if first is None or b"transfer-encoding" in head.headers or head.length >= len(first):
        return False
    return first.find(b"\r\n\r\n") + 4 + head.length <= len(first)

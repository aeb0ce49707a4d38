"""Request heads for one MCP endpoint. This module checks every value: none can start another header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from interlock.protocols.mcp.headers import encode_value
from interlock.protocols.mcp.methods import METHODS
from interlock.protocols.mcp.revisions import Revision
from interlock.transports.http.client.origin import Origin
from interlock.wire.errors import Fault
from interlock.wire.messages import encode_request

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}\Z")
_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?\Z")
_SESSION = re.compile(r"[\x21-\x7e]{1,1024}\Z")

OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that no configuration may set: they say how the message is framed, or what the protocol says."""

_STARTS = 1_024
_REQUEST = b'{"jsonrpc":"2.0","id":'


class HeadWriter:
    """Writes the heads. The part that all requests share is written once."""

    def __init__(self, origin: Origin, target: str, headers: Mapping[str, str]) -> None:
        for name in headers:
            if name.lower() in OURS or name.lower().startswith("mcp-param-"):
                raise Fault("INVALID_PARAMS", f"header {name!r} cannot be configured", hint="leave it out")
        self._host = line("Host", origin.authority)
        self._configured = b"".join(line(name, value) for name, value in headers.items())
        self._authorization = ""
        self._target = target
        self._revision: Revision | None = None
        self._session_id: str | None = None
        self._starts: dict[tuple[str, str | None], tuple[bytes, bytes, int]] = {}
        """Parts of requests by method and name: the POST up to its length, the message between its id and its params,
        and the message's length without those two."""
        self._renew()

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header; empty for none besides the configured headers."""
        return self._authorization

    def authorize(self, value: str) -> None:
        """Send this `Authorization` header from now on."""
        if value != self._authorization:
            self._authorization = value
            self._renew()

    @property
    def target(self) -> str:
        """The path and query that requests go to."""
        return self._target

    def redirect(self, target: str) -> None:
        """Send requests to this path and query from now on."""
        self._target = target
        self._renew()

    @property
    def revision(self) -> Revision | None:
        """The protocol revision; None before it is known."""
        return self._revision

    def speak(self, revision: Revision | None) -> None:
        """Name this revision from now on."""
        self._revision = revision
        self._renew()

    @property
    def session_id(self) -> str | None:
        """The session that requests belong to (handshake era)."""
        return self._session_id

    def join_session(self, session_id: str | None) -> None:
        """Name this session from now on, or none. Raises UPSTREAM_ERROR for an id that no header can hold."""
        if session_id is not None and not _SESSION.match(session_id):
            raise Fault("UPSTREAM_ERROR", "the server gave a session id that is not visible ASCII")
        self._session_id = session_id
        self._renew()

    def request(
        self, id: int, method: str, params: bytes, name: str | None = None, headers: Iterable[tuple[str, str]] = ()
    ) -> bytes:
        """A whole POST with a request, formatted in one step. `headers` are of the stateless era."""
        start, middle, length = self._starts.get((method, name)) or self._start_of(method, name)
        more = b"".join([line(header, value) for header, value in headers]) if headers and self._modern else b""
        id_ = b"%d" % id
        size = length + len(id_) + len(params)
        return b'%b%d\r\n%b\r\n{"jsonrpc":"2.0","id":%b%b%b}' % (start, size, more, id_, middle, params)

    def post(self, body: bytes, method: str = "") -> bytes:
        """A whole POST with anything else. `method` is empty for an answer to the server."""
        start, _, _ = self._starts.get((method, None)) or self._start_of(method, None)
        return b"%b%d\r\n\r\n%b" % (start, len(body), body)

    def _start_of(self, method: str, name: str | None) -> tuple[bytes, bytes, int]:
        opening = self._opening if method == "initialize" else self._post
        start = opening + _mirrored(method, name) if self._modern and method else opening
        middle = encode_request(0, method, b"")[len(_REQUEST) + 1 : -1]
        if len(self._starts) >= _STARTS:
            self._starts.clear()
        made = self._starts[method, name] = start + b"Content-Length: ", middle, len(_REQUEST) + len(middle) + 1
        return made

    def get(self, last_event_id: str | None) -> bytes:
        """Opens or resumes a stream (handshake era)."""
        resume = b"" if not last_event_id else line("Last-Event-ID", last_event_id)
        return b"GET %b%bAccept: text/event-stream\r\n%b\r\n" % (self._start, self._context, resume)

    def delete(self) -> bytes:
        """Ends the session (handshake era)."""
        return b"DELETE %b%bAccept: application/json\r\n\r\n" % (self._start, self._context)

    def _renew(self) -> None:
        revision = self._revision
        self._modern = revision is not None and revision.modern
        self._start = b"%b HTTP/1.1\r\n%bUser-Agent: interlock\r\nAccept-Encoding: identity\r\n%b" % (
            self._target.encode("ascii"),
            self._host,
            self._configured + (line("Authorization", self._authorization) if self._authorization else b""),
        )
        self.session, self.sent_authorization = self._session_id, self._authorization
        """The same as `session_id` and `authorization`, read with each request."""
        self._starts = {}
        self._context = b""
        if revision is not None and revision.version_header:
            self._context += line("MCP-Protocol-Version", revision.name)
        kind = b"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        self._opening = b"POST %b%b" % (self._start, kind)
        if self._session_id is not None and not self._modern:
            self._context += line("Mcp-Session-Id", self._session_id)
        self._post = b"POST %b%b%b" % (self._start, self._context, kind)


def _mirrored(method: str, name: str | None) -> bytes:
    """The headers that repeat what the body says (2026-07-28, Standard Request Headers)."""
    lines = line("Mcp-Method", method)
    row = METHODS.get(method)
    if name is not None and (row is None or row.named_by):
        lines += b"Mcp-Name: %b\r\n" % encode_value(name).encode()
    return lines


def fits(value: str) -> bool:
    """Whether a header can hold this."""
    return _VALUE.match(value) is not None


def line(name: str, value: str) -> bytes:
    """One header line. Raises INVALID_PARAMS for what a header may not hold."""
    if not _NAME.match(name):
        raise Fault("INVALID_PARAMS", f"not a header name: {name[:100]!r}")
    if not _VALUE.match(value):
        raise Fault("INVALID_PARAMS", f"header {name} would hold characters that a header may not have")
    return b"%b: %b\r\n" % (name.encode(), value.encode("latin-1"))

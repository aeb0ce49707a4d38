"""The checks that every HTTP request must pass before its content is read, MCP or not.

Pure: values in, a refusal or None out. An ambiguous request is refused, never guessed at. The parser
below already refuses bare CR or LF, folded headers, and Content-Length with Transfer-Encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from interlock.transports.http.bounds import HttpBounds

Headers = Mapping[bytes, bytes]


class GuardRefusal(msgspec.Struct, frozen=True):
    """An answer given before the request is looked at: an HTTP status and a row of the error table."""

    status: int
    message: str
    name: str = "INVALID_REQUEST"
    headers: bytes = b""
    """Complete lines that the answer carries besides the usual ones."""
    hint: str = ""


class Faces(msgspec.Struct, frozen=True):
    """The names this server answers to, and the web origins that may talk to it. Lower case, as on the wire."""

    hosts: frozenset[bytes]
    origins: frozenset[bytes]


def allowed_hosts_for(
    host: str, port: int, names: Iterable[str] = (), origins: Iterable[str] = (), local_names: Iterable[str] = ()
) -> Faces:
    """The loopback names and the bound address with the bound port, and whatever the operator added.

    `local_names` are further names of the loopback address, such as the console's.
    """
    bound = {"localhost", "127.0.0.1", "[::1]", *local_names}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        bound.add(f"[{host}]" if ":" in host else host)
    hosts = {f"{name}:{port}".lower() for name in bound} | {name.lower() for name in names}
    if port == 80:
        hosts |= {name.lower() for name in bound}
    web = {f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")} | {o.lower() for o in origins}
    return Faces(frozenset(h.encode() for h in hosts), frozenset(o.encode() for o in web))


def check_head(method: bytes, headers: Headers, version: str, faces: Faces, body_limit: int) -> GuardRefusal | None:
    """The request line and all headers at once, save the target."""
    if method in _REFUSED_METHODS:
        return GuardRefusal(405, f"{method.decode('ascii')} is not answered here", headers=_ALLOW)
    if version != "1.1" and version != "1.0":
        return GuardRefusal(400, f"HTTP/{version} is not spoken here")
    if headers.get(b"host") not in faces.hosts:
        refusal = check_host(headers.get(b"host"), faces)
        if refusal is not None:
            return refusal
    if b"origin" in headers and headers[b"origin"] not in faces.origins:
        refusal = check_origin(headers[b"origin"], faces)
        if refusal is not None:
            return refusal
    if b"content-encoding" in headers and headers[b"content-encoding"].strip().lower() != b"identity":
        return GuardRefusal(415, "Content-Encoding is not supported; send the body as it is")
    if b"transfer-encoding" in headers:
        return check_transfer(headers, version)
    length = headers.get(b"content-length")
    if length is not None and (len(length) > 18 or int(length) > body_limit):
        return GuardRefusal(413, f"the body is over the limit of {body_limit} bytes", "TOO_LARGE")
    return None


def check_target(target: bytes) -> GuardRefusal | None:
    """Only a plain absolute path, with or without a query, that means the same before and after decoding."""
    if not target.startswith(b"/"):
        return GuardRefusal(400, "the request target must be a path that starts with /")
    path = target.partition(b"?")[0]
    if path.startswith(b"//") or b"#" in target:
        return GuardRefusal(400, "the request target must be a plain path")
    if b"%" in path or b"." in path or b"\\" in path:
        decoded = unquote_to_bytes(path)
        if _UNSAFE.search(decoded) or any(part in (b".", b"..") for part in decoded.split(b"/")):
            return GuardRefusal(400, "the path has dot segments or control characters")
    return None


def check_host(host: bytes | None, faces: Faces) -> GuardRefusal | None:
    """One Host, well-formed, and ours: a page that rebinds its own name to this address is refused by it."""
    if host is None:
        return GuardRefusal(400, "a request needs one Host header")
    name = host.strip().lower()
    if not _HOST.match(name):
        return GuardRefusal(400, "the Host header is not a host name with an optional port")
    if name not in faces.hosts:
        shown = name.decode("ascii")[:100]
        return GuardRefusal(403, f"Host {shown!r} is not a name of this server", "ORIGIN_REFUSED")
    return None


def check_origin(origin: bytes, faces: Faces) -> GuardRefusal | None:
    """An Origin comes from a web page; only pages that the operator knows may call."""
    if origin.strip().lower() in faces.origins:
        return None
    shown = origin.decode("latin-1")[:100]
    return GuardRefusal(403, f"Origin {shown!r} is not allowed here", "ORIGIN_REFUSED")


def check_transfer(headers: Headers, version: str) -> GuardRefusal | None:
    """Chunked, alone, and only where HTTP has it (RFC 9112, Message Body Length)."""
    if b"content-length" in headers:
        return GuardRefusal(400, "Transfer-Encoding and Content-Length exclude each other")
    if version == "1.0" or headers[b"transfer-encoding"].strip().lower() != b"chunked":
        return GuardRefusal(400, "the only Transfer-Encoding spoken here is chunked, in HTTP/1.1")
    return None


def check_size(headers: Headers, repeats: int, bounds: HttpBounds, target: bytes = b"") -> GuardRefusal | None:
    """Neither too many headers nor too long ones, nor too long a target."""
    if len(target) > bounds.header_bytes:
        return too_long(bounds, target=True)
    if len(headers) + repeats > bounds.header_count:
        return GuardRefusal(431, f"more than {bounds.header_count} headers", "TOO_LARGE")
    if sum(len(name) + len(value) + 4 for name, value in headers.items()) > bounds.header_bytes:
        return too_long(bounds, target=False)
    return None


def too_long(bounds: HttpBounds, *, target: bool) -> GuardRefusal:
    """For a head that is over the limit before its end: in its target, or in its headers."""
    what = "the request target is" if target else "headers are"
    return GuardRefusal(414 if target else 431, f"{what} over the limit of {bounds.header_bytes} bytes", "TOO_LARGE")


def combine(name: bytes, first: bytes, second: bytes) -> bytes | None:
    """One value from a header that stands twice, or None where it may not (RFC 9110, Field Order)."""
    if name in _SINGLE or name.startswith(b"mcp-"):
        return None
    return first + (b"; " if name == b"cookie" else b", ") + second


_REFUSED_METHODS: Final = frozenset({b"TRACE", b"CONNECT", b"PRI"})
_ALLOW: Final = b"allow: GET, HEAD, POST, DELETE\r\n"
"""The methods that any address answers; each address names its own."""
_SINGLE: Final = frozenset(
    {
        b"host",
        b"authorization",
        b"proxy-authorization",
        b"content-length",
        b"content-type",
        b"content-encoding",
        b"transfer-encoding",
        b"origin",
        b"expect",
        b"upgrade",
        b"last-event-id",
        b"x-api-key",
    }
)
_HOST: Final = re.compile(rb"(?:[a-z0-9](?:[a-z0-9._-]{0,252}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?\Z")
_UNSAFE: Final = re.compile(rb"[\x00-\x1f\x7f\\]")

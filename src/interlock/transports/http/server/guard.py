"""The checks that every HTTP request must pass before its content is read, MCP or not.

Pure: each check returns a refusal or None. An ambiguous request is refused. The HTTP parser already refuses bare CR or
LF, folded headers, and Content-Length with Transfer-Encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from interlock.transports.http.bounds import HttpBounds
from interlock.wire.limits import over_message_bytes

Headers = Mapping[bytes, bytes]


class GuardRefusal(msgspec.Struct, frozen=True):
    """A refusal before the request is read: an HTTP status and a row of the error table."""

    status: int
    message: str
    name: str = "INVALID_REQUEST"
    headers: bytes = b""
    """Complete lines that the answer carries besides the usual ones."""
    hint: str = ""


class AllowedHosts(msgspec.Struct, frozen=True):
    """The values of Host and Origin that this server accepts, in lower case."""

    hosts: frozenset[bytes]
    origins: frozenset[bytes]


def allowed_hosts_for(
    host: str, port: int, names: Iterable[str] = (), origins: Iterable[str] = (), local_names: Iterable[str] = ()
) -> AllowedHosts:
    """The loopback names and the bound address with the bound port, and the names that the operator added.

    `local_names` are further names of the loopback address, such as the console's.
    """
    bound = {"localhost", "127.0.0.1", "[::1]", *local_names}
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        bound.add(f"[{host}]" if ":" in host else host)
    hosts = {f"{name}:{port}".lower() for name in bound} | {name.lower() for name in names}
    if port == 80:
        hosts |= {name.lower() for name in bound}
    web = {f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")} | {o.lower() for o in origins}
    return AllowedHosts(frozenset(h.encode() for h in hosts), frozenset(o.encode() for o in web))


def check_head(
    method: bytes, headers: Headers, version: str, allowed: AllowedHosts, body_limit: int
) -> GuardRefusal | None:
    """Check the request line and all headers, except the target."""
    if method in _REFUSED_METHODS:
        return GuardRefusal(405, f"{method.decode('ascii')} is not answered here", headers=_ALLOW)
    if version != "1.1" and version != "1.0":
        return GuardRefusal(400, f"HTTP/{version} is not supported")
    if headers.get(b"host") not in allowed.hosts:
        refusal = check_host(headers.get(b"host"), allowed)
        if refusal is not None:
            return refusal
    if b"origin" in headers and headers[b"origin"] not in allowed.origins:
        refusal = check_origin(headers[b"origin"], allowed)
        if refusal is not None:
            return refusal
    if b"content-encoding" in headers and headers[b"content-encoding"].strip().lower() != b"identity":
        return GuardRefusal(415, "Content-Encoding is not supported; send the body as it is")
    if b"transfer-encoding" in headers:
        return check_transfer(headers, version)
    length = headers.get(b"content-length")
    if length is not None and (len(length) > 18 or int(length) > body_limit):
        return GuardRefusal(413, over_message_bytes("the body", body_limit), "TOO_LARGE")
    return None


def check_target(target: bytes) -> GuardRefusal | None:
    """Accept only a plain absolute path, with or without a query, that decoding does not change in meaning."""
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


def check_host(host: bytes | None, allowed: AllowedHosts) -> GuardRefusal | None:
    """Accept only one well-formed Host that is ours. This refuses pages that rebind their own name to this address."""
    if host is None:
        return GuardRefusal(400, "a request needs one Host header")
    name = host.strip().lower()
    if not _HOST.match(name):
        return GuardRefusal(400, "the Host header is not a host name with an optional port")
    if name not in allowed.hosts:
        shown = name.decode("ascii")[:100]
        return GuardRefusal(403, f"Host {shown!r} is not a name of this server", "ORIGIN_REFUSED")
    return None


def check_origin(origin: bytes, allowed: AllowedHosts) -> GuardRefusal | None:
    """Accept only web origins that the operator allowed. A client that is not a web page sends no Origin."""
    if origin.strip().lower() in allowed.origins:
        return None
    shown = origin.decode("latin-1")[:100]
    return GuardRefusal(403, f"Origin {shown!r} is not allowed here", "ORIGIN_REFUSED")


def check_transfer(headers: Headers, version: str) -> GuardRefusal | None:
    """Accept no transfer encoding but `chunked`, in HTTP/1.1 and without a length (RFC 9112, Message Body Length)."""
    if b"content-length" in headers:
        return GuardRefusal(400, "Transfer-Encoding and Content-Length exclude each other")
    if version == "1.0" or headers[b"transfer-encoding"].strip().lower() != b"chunked":
        return GuardRefusal(400, "the only supported Transfer-Encoding is chunked, in HTTP/1.1")
    return None


def check_size(headers: Headers, repeats: int, bounds: HttpBounds, target: bytes = b"") -> GuardRefusal | None:
    """Refuse too many or too long headers, and a target that is too long."""
    if len(target) > bounds.header_bytes:
        return too_long(bounds, target=True)
    if len(headers) + repeats > bounds.header_count:
        return GuardRefusal(431, f"more than {bounds.header_count} headers", "TOO_LARGE")
    if sum(len(name) + len(value) + 4 for name, value in headers.items()) > bounds.header_bytes:
        return too_long(bounds, target=False)
    return None


def too_long(bounds: HttpBounds, *, target: bool) -> GuardRefusal:
    """The refusal of a head whose target or headers are over the limit."""
    what = "the request target is" if target else "headers are"
    return GuardRefusal(414 if target else 431, f"{what} over the limit of {bounds.header_bytes} bytes", "TOO_LARGE")


def combine(name: bytes, first: bytes, second: bytes) -> bytes | None:
    """The combined value of a repeated header; None if it must not be repeated (RFC 9110, Field Order)."""
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

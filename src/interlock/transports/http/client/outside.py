"""The way to other machines: directly, or through the forward proxy that the environment names.

`HTTPS_PROXY` and `HTTP_PROXY` name a proxy for https and http, `NO_PROXY` the hosts that are reached directly; the
lower-case names count first, as in curl. This machine is never reached through a proxy. A proxy is asked for a tunnel
(CONNECT), so it sees neither requests nor tokens. `SSL_CERT_FILE` names another bundle of certificates to trust,
`INTERLOCK_CLIENT_CERTIFICATE` and `INTERLOCK_CLIENT_KEY` a certificate for servers that ask for one.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping
from typing import Final, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

import msgspec

from interlock.transports.http.client.origin import Origin

HEAD_BYTES: Final = 16 * 1024
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
C = TypeVar("C", bound=asyncio.Protocol)


class Proxy(msgspec.Struct, frozen=True):
    """A forward proxy."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    @property
    def authorization(self) -> str:
        """The value of `Proxy-Authorization`; empty where the proxy wants none."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return f"Basic {pair}" if self.user else ""

    @property
    def url(self) -> str:
        """Its address, with name and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        pair = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user else ""
        return f"http://{pair}{host}:{self.port}"

    def __repr__(self) -> str:
        """Without its password."""
        return f"Proxy({self.host}:{self.port})"


def proxy_for(origin: Origin, environ: Mapping[str, str] | None = None) -> Proxy | None:
    """The proxy to an origin, or None for the direct way. Raises ValueError for a proxy that cannot be used."""
    env = os.environ if environ is None else environ
    name = f"{origin.scheme}_proxy"
    written = env.get(name) or env.get(name.upper()) or env.get("all_proxy") or env.get("ALL_PROXY") or ""
    if not written or origin.host in _LOCAL or origin.host.endswith(".localhost"):
        return None
    if _is_bypassed(origin, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    parts = urlsplit(written if "://" in written else f"http://{written}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{name.upper()} must be the http:// address of a proxy")
    return Proxy(parts.hostname, parts.port or 80, unquote(parts.username or ""), unquote(parts.password or ""))


def _is_bypassed(origin: Origin, no_proxy: str) -> bool:
    """Whether `NO_PROXY` names the host: itself, a domain above it, a network, with or without a port, or `*`."""
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        name, colon, port = entry.rpartition(":")
        if colon and port.isdigit() and "]" not in port and name.count(":") in (0, 7):
            if int(port) != origin.port:
                continue
            entry = name
        entry = entry.strip("[]")
        if entry == "*" or (entry and _names(entry, origin.host.lower())):
            return True
    return False


def _names(entry: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.removeprefix("*").lstrip(".")
        return host == domain or host.endswith(f".{domain}")


async def open_tunnel(
    proxy: Proxy, address: str, port: int, user: C, context: ssl.SSLContext | None, hostname: str
) -> C:
    """Reach an address through a proxy, with TLS inside where there is a context. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        transport, waiting = await loop.create_connection(lambda: _Asking(proxy, address, port), proxy.host, proxy.port)
    except OSError as cause:
        raise OSError(f"the proxy {proxy.host}:{proxy.port} cannot be reached: {cause}") from None
    try:
        await waiting.answered
        if context is None:
            transport.set_protocol(user)
            user.connection_made(transport)
            return user
        inside = await loop.start_tls(transport, user, context, server_hostname=hostname)
        assert inside is not None
        user.connection_made(inside)
        return user
    except BaseException:
        transport.abort()
        raise


class _Asking(asyncio.Protocol):
    """Asks a proxy for a tunnel, and waits for its answer."""

    def __init__(self, proxy: Proxy, address: str, port: int) -> None:
        host = f"[{address}]" if ":" in address else address
        authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        self._request = f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{authorization}\r\n".encode(
            "latin-1"
        )
        self._answer = b""
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, rest = self._answer.partition(b"\r\n\r\n")
        if self.answered.done() or (not end and len(self._answer) <= HEAD_BYTES):
            return
        words = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if end and not rest and len(words) > 1 and words[1] == b"200":
            self.answered.set_result(None)
        else:
            status = words[1][:3].decode("latin-1") if len(words) > 1 else "no status"
            known = " (it requires a valid user name and password)" if status == "407" else ""
            self.answered.set_exception(OSError(f"the proxy refuses the connection: {status}{known}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(OSError("the proxy closed the connection"))


def why_no_connection(cause: Exception) -> str:
    """Why a server could not be reached, for people. For a certificate that is not trusted, it names the setting."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        way = "name the certificate of its authority in `ca_bundle` or SSL_CERT_FILE"
        return f"its certificate is not trusted: {cause.verify_message}; {way}"
    if isinstance(cause, socket.gaierror):
        return "the name does not resolve; check its spelling, and the network"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused; no program listens there"
    return str(cause) or "no connection in time"


def client_context(
    ca_bundle: str | None = None, certificate: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    """TLS to a server: the system's trust or a bundle of one's own, a certificate of ours, and HTTP/1.1 alone.

    Without a certificate of its own, a server that asks for one gets that of the environment. Raises OSError and
    ssl.SSLError for files that cannot be used.
    """
    context = ssl.create_default_context(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    if certificate is None:
        certificate, key = client_files()
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


def client_files() -> tuple[str | None, str | None]:
    """The files of the environment's client certificate and its key."""
    return os.environ.get("INTERLOCK_CLIENT_CERTIFICATE") or None, os.environ.get("INTERLOCK_CLIENT_KEY") or None

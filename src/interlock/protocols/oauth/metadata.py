"""The two discovery documents: of the protected resource (RFC 9728) and of its authorization server (RFC 8414).

A document is valid only for the requested address: its resource must be the called server, and its issuer must be the
one in the well-known address.
"""

from __future__ import annotations

import ipaddress
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

T = TypeVar("T")
RESOURCE: Final = "/.well-known/oauth-protected-resource"
SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
MAX_BYTES: Final = 128 * 1024
MAX_URL_CHARS: Final = 2048


class ResourceMetadata(msgspec.Struct, frozen=True):
    """The metadata of a protected MCP server."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None


class ServerMetadata(msgspec.Struct, frozen=True):
    """The metadata of an authorization server."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] = ()
    grant_types_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


def resource_metadata_urls(server_url: str) -> list[str]:
    """The default addresses of a server's metadata: with the path of its endpoint, then at the root."""
    parts = urlsplit(server_url)
    path = parts.path.rstrip("/")
    return [
        urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in dict.fromkeys([RESOURCE + path, RESOURCE])
    ]


def server_metadata_urls(issuer: str) -> list[str]:
    """The possible addresses of an issuer's metadata: its path after the well-known part, for OpenID also before it."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    places = [SERVER + path, OPENID + path, path + OPENID]
    return [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in dict.fromkeys(places)]


def read_resource_metadata(document: bytes, server_url: str) -> ResourceMetadata:
    """The metadata of this server. Raises UPSTREAM_ERROR for a document of another server (RFC 9728, Validation)."""
    metadata = _decode(document, ResourceMetadata, "protected resource metadata")
    if not covers(metadata.resource, server_url):
        message = f"its metadata is for the resource {metadata.resource[:200]!r}"
        raise Fault("UPSTREAM_ERROR", message, hint="the server must name its own address as `resource`")
    if not metadata.authorization_servers:
        raise Fault("UPSTREAM_ERROR", "its metadata names no authorization server")
    return metadata


def read_server_metadata(document: bytes, issuer: str) -> ServerMetadata:
    """The metadata of this issuer. Raises UPSTREAM_ERROR for another issuer, and for endpoints without TLS."""
    metadata = _decode(document, ServerMetadata, "authorization server metadata")
    if metadata.issuer != issuer:
        raise Fault("UPSTREAM_ERROR", f"the document at {issuer[:200]} is of the issuer {metadata.issuer[:200]!r}")
    for name in _ENDPOINTS:
        endpoint = getattr(metadata, name)
        if endpoint is not None and not is_safe(endpoint):
            raise Fault("UPSTREAM_ERROR", f"{name} of {issuer[:200]} is not https")
    return metadata


def default_metadata(issuer: str) -> ServerMetadata:
    """The endpoints of a server of revision 2025-03-26 that publishes no metadata. That revision requires PKCE."""
    base = issuer.rstrip("/")
    return ServerMetadata(
        issuer,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        code_challenge_methods_supported=("S256",),
        token_endpoint_auth_methods_supported=("none", "client_secret_basic", "client_secret_post"),
    )


def covers(resource: str, server_url: str) -> bool:
    """Whether a resource identifier covers a server: the same origin, and the server's path or a parent of it."""
    named, called = split(resource), urlsplit(server_url)
    if named is None or named.fragment or _origin(named) is None or _origin(named) != _origin(called):
        return False
    path = named.path.rstrip("/")
    return not named.query and (called.path.rstrip("/") == path or called.path.startswith(path + "/"))


def canonical_resource(server_url: str) -> str:
    """The resource identifier of a server that has no metadata (MCP, Canonical Server URI)."""
    parts = urlsplit(server_url)
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/"), "", ""))


def is_safe(url: str) -> bool:
    """Whether secrets may be sent there: over TLS, or to this machine."""
    parts = split(url)
    if parts is None or parts.username is not None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_ENDPOINTS: Final = tuple(name for name in ServerMetadata.__struct_fields__ if name.endswith("_endpoint"))


def split(url: str) -> SplitResult | None:
    """The parts of a URL that a peer wrote; None for a text that is no URL, or too long."""
    if len(url) > MAX_URL_CHARS:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:  # such as brackets without an address in them
        return None
    return parts


def _origin(parts: SplitResult) -> tuple[str, str, int | None] | None:
    if not parts.hostname:
        return None
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _decode(document: bytes, kind: type[T], name: str) -> T:
    return decode_json(document, kind, "UPSTREAM_ERROR", f"the {name} cannot be read")

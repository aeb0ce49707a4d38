"""Finds the address of an issuer's keys in the metadata that the issuer publishes.

RFC 8414, Obtaining Authorization Server Metadata, and OpenID Connect Discovery, Obtaining OpenID Provider Configuration
Information; in the order of MCP (Authorization: Authorization Server Metadata Discovery).
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.protocols.oauth.metadata import server_metadata_urls
from interlock.transports.http.client.documents import fetch
from interlock.transports.http.client.origin import split_url
from interlock.transports.resolving import Resolver, guarded, guarded_for
from interlock.wire.errors import Fault
from interlock.wire.json_values import decode_json

MAX_BYTES: Final = 64 * 1024


async def keys_url(issuer: str, resolver: Resolver, within_s: float) -> str:
    """The address of an issuer's keys. Raises Fault or ValueError if no document names it."""
    guard = guarded_for(issuer, resolver)
    why = ""
    for address in server_metadata_urls(issuer):
        try:
            document = await fetch(address, guard=guard, most_bytes=MAX_BYTES, within_s=within_s)
            return _read(document, issuer)
        except (Fault, ValueError) as cause:
            why = f"{address}: {cause}"
    raise ValueError(f"the issuer does not publish their address ({why}); set `jwks_url`")


async def fetch_keys(url: str, issuer: str | None, resolver: Resolver, most_bytes: int, within_s: float) -> bytes:
    """The keys at an address from the configuration, or with `issuer` from that issuer's metadata.

    Metadata may name the issuer's own host wherever it is, and other hosts only if they are public.
    """
    own = issuer is None or split_url(issuer)[0] == split_url(url)[0]
    guard = guarded_for(url, resolver) if own else guarded(resolver)
    return await fetch(url, guard=guard, most_bytes=most_bytes, within_s=within_s)


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


def _read(document: bytes, issuer: str) -> str:
    metadata = decode_json(document, _Metadata, "UPSTREAM_ERROR", "the metadata cannot be read")
    if metadata.issuer != issuer:
        raise ValueError(f"the document is of the issuer {metadata.issuer[:200]!r}")
    origin, _ = split_url(metadata.jwks_uri)
    if origin.scheme != "https" and origin != split_url(issuer)[0]:
        raise ValueError("jwks_uri is not https")
    return metadata.jwks_uri

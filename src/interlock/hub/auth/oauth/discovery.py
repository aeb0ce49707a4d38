"""Where an issuer's keys are, as the issuer itself publishes it.

RFC 8414, Obtaining Authorization Server Metadata, and OpenID Connect Discovery, Obtaining OpenID Provider Configuration
Information; in the order that MCP has them (MCP, Authorization: Authorization Server Metadata Discovery).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from interlock.transports.http.documents import fetch
from interlock.transports.http.origin import split_url
from interlock.transports.resolving import Resolver, guarded, guarded_for
from interlock.wire.errors import Fault

MOST_BYTES: Final = 64 * 1024
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


async def keys_url(issuer: str, resolver: Resolver, within_s: float) -> str:
    """The address of an issuer's keys. Raises a `Fault` or ValueError where none of its documents says it."""
    guard = guarded_for(issuer, resolver)
    why = ""
    for address in metadata_urls(issuer):
        try:
            document = await fetch(address, guard=guard, most_bytes=MOST_BYTES, within_s=within_s)
            return _read(document, issuer)
        except (Fault, ValueError) as cause:
            why = f"{address}: {cause}"
    raise ValueError(f"it does not say where they are ({why}); write `jwks_url`")


async def fetch_keys(url: str, issuer: str | None, resolver: Resolver, most_bytes: int, within_s: float) -> bytes:
    """The keys at an address: the operator's word, or with `issuer` that issuer's.

    An issuer may point to its own address wherever that is, and elsewhere only to what everybody can reach.
    """
    own = issuer is None or split_url(issuer)[0] == split_url(url)[0]
    guard = guarded_for(url, resolver) if own else guarded(resolver)
    return await fetch(url, guard=guard, most_bytes=most_bytes, within_s=within_s)


def metadata_urls(issuer: str) -> list[str]:
    """Where an issuer may publish what it is: with its path after the well-known part, and for OpenID also before."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    places = [_SERVER + path, _OPENID + path, path + _OPENID]
    return [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in dict.fromkeys(places)]


class _Metadata(msgspec.Struct):
    issuer: str
    jwks_uri: str


def _read(document: bytes, issuer: str) -> str:
    said = msgspec.json.decode(document, type=_Metadata)
    if said.issuer != issuer:
        raise ValueError(f"it speaks of {said.issuer[:200]!r}")
    origin, _ = split_url(said.jwks_uri)
    if origin.scheme != "https" and origin != split_url(issuer)[0]:
        raise ValueError("its keys would come unprotected")
    return said.jwks_uri

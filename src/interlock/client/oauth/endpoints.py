"""Requests to authorization servers: metadata, registration, tokens, device codes, revocation.

No redirect is followed. An address that a server names must be public, or on the host of the server itself; it is
judged after it is resolved.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import msgspec

from interlock.judge.urls import UrlRules
from interlock.protocols.oauth.clients import ClientSettings, RegisteredClient, read_registration, registration_request
from interlock.protocols.oauth.metadata import (
    MAX_BYTES,
    ResourceMetadata,
    ServerMetadata,
    is_loopback,
    is_safe,
    read_resource_metadata,
    read_server_metadata,
    resource_metadata_urls,
    server_metadata_urls,
    split,
)
from interlock.protocols.oauth.tokens import DeviceCode, TokenRequest, refusal
from interlock.transports.http.client.documents import DocumentResponse, exchange
from interlock.transports.http.client.pool import Guard
from interlock.transports.resolving import Resolver, guarded, guarded_for
from interlock.wire.errors import Fault
from interlock.wire.web_pages import is_web_page

_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
_JSON: Final = {"Content-Type": "application/json"}
WITHIN_S: Final = 20.0


class Endpoints:
    """The requests of one login. `trusted` are addresses that the operator wrote."""

    def __init__(
        self,
        server_url: str,
        trusted: tuple[str, ...] = (),
        resolver: Resolver | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._context = context
        self._server_url = server_url
        self._trusted = frozenset(_host(url) for url in (server_url, *trusted))
        self._resolver = resolver or Resolver()

    async def resource(self, location: str | None) -> ResourceMetadata | None:
        """The metadata of the server; None if it has none."""
        for url in [location] if location is not None else resource_metadata_urls(self._server_url):
            answer = await self._get(url)
            if answer.status == 200:
                return await asyncio.to_thread(read_resource_metadata, answer.body, self._server_url)
        if location is not None:
            raise Fault("UPSTREAM_ERROR", "the server's metadata is not where the server says")
        return None

    async def server(self, issuer: str) -> ServerMetadata | None:
        """The metadata of an authorization server; None where it publishes none. Raises a `Fault`."""
        if not is_safe(issuer):
            raise Fault("UPSTREAM_ERROR", f"the authorization server {issuer[:200]!r} is not https")
        for url in server_metadata_urls(issuer):
            answer = await self._get(url)
            if answer.status == 200:
                return await asyncio.to_thread(read_server_metadata, answer.body, issuer)
            if answer.status >= 500:
                raise Fault("UPSTREAM_UNAVAILABLE", f"{issuer[:200]} answered with HTTP {answer.status}")
        return None

    async def register(
        self, settings: ClientSettings, metadata: ServerMetadata, redirect_uri: str | None, scopes: tuple[str, ...]
    ) -> RegisteredClient:
        """Register a client. Raises LOGIN_REQUIRED if the server does not offer that, or UPSTREAM_ERROR."""
        endpoint = metadata.registration_endpoint
        if endpoint is None:
            message = f"{metadata.issuer[:200]} registers no clients by itself"
            raise Fault("LOGIN_REQUIRED", message, hint="register one there, and configure its `client_id`")
        body = registration_request(settings, metadata, redirect_uri, scopes)
        answer = await self._request("POST", endpoint, _JSON, body)
        if answer.status == 400 and scopes:
            # Some servers register no scopes, or only their own choice.
            scopes = ()
            body = registration_request(settings, metadata, redirect_uri)
            answer = await self._request("POST", endpoint, _JSON, body)
        if answer.status not in (200, 201):
            raise refusal(answer.status, answer.body)
        return read_registration(answer.body, metadata, redirect_uri, scopes)

    async def token(self, endpoint: str, request: TokenRequest) -> DocumentResponse:
        """Ask a token endpoint. Any status is an answer."""
        return await self._request("POST", endpoint, {**_FORM, **request.headers}, request.body)

    async def device(self, endpoint: str, request: TokenRequest) -> DeviceCode:
        """A code that a person types elsewhere (RFC 8628, Device Authorization Request)."""
        answer = await self._request("POST", endpoint, {**_FORM, **request.headers}, request.body)
        if answer.status != 200:
            raise refusal(answer.status, answer.body)
        try:
            code = msgspec.json.decode(answer.body, type=DeviceCode, strict=False)
        except msgspec.DecodeError:
            raise Fault("UPSTREAM_ERROR", "the answer of the device endpoint cannot be read") from None
        for page in (code.verification_uri, code.verification_uri_complete or code.verification_uri):
            if not is_web_page(page):
                raise Fault("UPSTREAM_ERROR", "the page to type the code at is not at a web address")
        return code

    async def _get(self, url: str) -> DocumentResponse:
        return await self._request("GET", url, {}, b"")

    async def _request(self, method: str, url: str, headers: dict[str, str], body: bytes) -> DocumentResponse:
        if split(url) is None:
            raise Fault("UPSTREAM_ERROR", f"{url[:200]!r}, which the server or its metadata names, is not a URL")
        if method != "GET" and not is_safe(url):
            raise Fault("UPSTREAM_ERROR", f"{url[:200]!r} is not https; no secret is sent there")
        guard = self._guard(url)
        return await exchange(
            method,
            url,
            headers,
            body,
            guard=guard,
            most_bytes=MAX_BYTES,
            within_s=WITHIN_S,
            context=self._context if urlsplit(url).hostname in self._trusted else None,
        )

    def _guard(self, url: str) -> Guard:
        """The guard of an address: configured hosts may be private; hosts that those name must be public."""
        host = _host(url)
        local = is_loopback(host) and any(map(is_loopback, self._trusted))
        if host in self._trusted or local:
            return guarded_for(url, self._resolver)
        return guarded(self._resolver, UrlRules(schemes=("https",)))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
